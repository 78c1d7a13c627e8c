"""Tests of bench/gpu/read_report.py on results that are made up."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench" / "gpu"))
import read_report as report


def file(codec: str, side: int, ours: dict, **rivals: dict) -> dict:
    names = {"nvtiff": report.NVTIFF, "xarray": report.XARRAY_ALONE, "tifffile": report.TIFFFILE}
    names |= {"kvikio": report.XARRAY, "nvcomp": report.NVCOMP, "rasterio": report.RASTERIO}
    engines = {report.OURS: ours} | {names[key]: found for key, found in rivals.items()}
    return {"codec": codec, "side": side, "bytes": 4_000_000, "decoded": 9_000_000, "engines": engines}


def ours(ms: float, **more: float) -> dict:
    return {"ms": ms, "pread_ms": 1.0, "copy_ms": 2.0, "kernels_ms": 1.0} | more


def result(files: dict) -> dict:
    return {
        **{"machine": {"GPU": "none"}, "versions": {}, "size": 64, "rounds": 7, "xarray_rounds": 3, "windows": 100},
        **{"files": files, "check": {"same": True, "said": ["all"]}, "notes": []},
    }


def bars(files: dict) -> dict[str, report.Bar]:
    found = report.read_bars([report.File(name, entry) for name, entry in files.items()])
    keys = ("nvtiff", "xarray", "kvikio", "tifffile", "floor", "zstd", "plain", "windows", "memory")
    return dict(zip(keys, found, strict=True))


class Bars(unittest.TestCase):
    def verdict(self, key: str, codec: str, side: int, mine: dict, **rivals: dict) -> str:
        return bars({"a": file(codec, side, mine, **rivals)})[key].verdict()

    def test_nvtiff_has_a_higher_bar_for_large_deflate_tiles(self) -> None:
        slow = {"ms": 30.0, "sound": True}
        self.assertEqual(self.verdict("nvtiff", "deflate", 256, ours(10), nvtiff=slow), "pass")
        self.assertEqual(self.verdict("nvtiff", "deflate", 512, ours(10), nvtiff=slow), "FAIL")
        self.assertEqual(self.verdict("nvtiff", "lzw", 512, ours(10), nvtiff=slow), "pass")

    def test_what_a_rival_cannot_read_or_reads_wrong_is_not_measured(self) -> None:
        for rival in ({"error": "unsupported: x"}, {"ms": 1.0, "sound": False}):
            self.assertEqual(self.verdict("nvtiff", "lzw", 256, ours(10), nvtiff=rival), "not measured")

    def test_xarray_spatial_by_codec(self) -> None:
        slow = {"ms": 300.0, "sound": True}
        verdicts = {c: self.verdict("xarray", c, 256, ours(10), xarray=slow) for c in ("deflate", "lzw", "zstd", "none")}
        self.assertEqual(verdicts, {"deflate": "FAIL", "lzw": "FAIL", "zstd": "pass", "none": "not measured"})

    def test_tifffile(self) -> None:
        self.assertEqual(self.verdict("tifffile", "none", 256, ours(10), tifffile={"ms": 79.0, "sound": True}), "FAIL")
        self.assertEqual(self.verdict("tifffile", "none", 256, ours(10), tifffile={"ms": 80.0, "sound": True}), "pass")

    def test_floors(self) -> None:
        self.assertEqual(self.verdict("floor", "lzw", 256, ours(4.5)), "pass")  # of 2 + 1
        self.assertEqual(self.verdict("floor", "deflate", 256, ours(4.6)), "FAIL")
        self.assertEqual(self.verdict("plain", "none", 256, ours(3.1)), "pass")  # of 2
        self.assertEqual(self.verdict("plain", "none", 256, ours(3.3)), "FAIL")
        self.assertEqual(self.verdict("zstd", "zstd", 256, ours(11.4), nvcomp={"ms": 6.0, "sound": True}), "pass")
        self.assertEqual(self.verdict("zstd", "zstd", 256, ours(11.6), nvcomp={"ms": 6.0, "sound": True}), "FAIL")
        self.assertEqual(self.verdict("zstd", "deflate", 256, ours(99), nvcomp={"ms": 6.0, "sound": True}), "not measured")

    def test_windows(self) -> None:
        rival = {"ms": 50.0, "sound": True}
        self.assertEqual(self.verdict("windows", "zstd", 256, ours(9, windows_ms=5.0), rasterio=rival), "pass")
        self.assertEqual(self.verdict("windows", "zstd", 256, ours(9, windows_ms=5.1), rasterio=rival), "FAIL")
        self.assertEqual(self.verdict("windows", "zstd", 256, ours(9, windows_ms=5.0)), "not measured")

    def test_memory_beside_the_result(self) -> None:
        self.assertEqual(self.verdict("memory", "lzw", 256, ours(9, peak_bytes=9_000_100, budget=100)), "pass")
        self.assertEqual(self.verdict("memory", "lzw", 256, ours(9, peak_bytes=9_000_101, budget=100)), "FAIL")

    def test_kernels(self) -> None:
        common = {"raster": "dem", "chosen": True, "gb_per_s": 120.0}
        rows = [
            common | {"codec": "deflate", "encoder": "zlib", "side": 256, "times_rival": 5.4},
            common | {"codec": "deflate", "encoder": "libdeflate", "side": 1024, "times_rival": 9.0},
            common | {"codec": "deflate", "encoder": "zlib", "side": 512, "times_rival": 1.0, "chosen": False},
            common | {"codec": "lzw", "encoder": "libtiff", "side": 256, "times_rival": None},
            {"codec": "place", "format": "f32", "side": 256, "margin": 0, "chosen": True, "tb_per_s": 1.4},
        ]
        deflate, lzw, place = report.kernel_bars(rows)
        self.assertEqual([len(bar.values) for bar in (deflate, lzw, place)], [1, 1, 1])
        self.assertEqual([bar.verdict() for bar in (deflate, lzw, place)], ["FAIL", "pass", "FAIL"])
        self.assertIn("9.0 x", "".join(report.kernel_notes(rows)))

    def test_the_worst_is_the_one_that_misses_most(self) -> None:
        bar = report.Bar("", True, [("a", 10.0, 5.0), ("b", 12.0, 40.0), ("c", 3.0, 4.0)])
        self.assertEqual(bar.worst(), ("b", 12.0, 40.0))
        self.assertEqual([name for name, *_ in bar.missed()], ["b", "c"])
        bar = report.Bar("", False, [("a", 1.2, 1.5), ("b", 1.19, 1.15)])
        self.assertEqual(bar.worst(), ("b", 1.19, 1.15))


class Markdown(unittest.TestCase):
    def test_a_file_has_its_line_and_what_failed_is_named(self) -> None:
        rivals = {"nvtiff": {"error": "unsupported: nvtiffDecode gives 4"}, "xarray": {"ms": 500.0, "sound": False}}
        files = {"dem_zstd_256": file("zstd", 256, ours(8, peak_bytes=10_000_000, budget=1 << 30), **rivals)}
        text = report.markdown(result(files), None)
        row = "| dem_zstd_256 | 4 | 9 | 8.00 | 1.00 | 2.00 | 1.00 | unsupported | 500.00 WRONG |  |  |  | 2.67x |  | 1 |"
        self.assertIn(row, text)
        self.assertIn("- nvTIFF, dem_zstd_256: unsupported: nvtiffDecode gives 4", text)
        self.assertIn("- xarray-spatial, dem_zstd_256: wrong pixels", text)

    def test_every_table_has_as_many_cells_in_each_row(self) -> None:
        files = {"a": file("none", 256, ours(3, windows_ms=1.0), rasterio={"ms": 5.0, "sound": True}), "b": file("lzw", 512, {})}
        for block in report.markdown(result(files), None).split("\n\n"):
            counts = {line.count("|") for line in block.splitlines() if line.startswith("|")}
            self.assertLessEqual(len(counts), 1, block)


if __name__ == "__main__":
    unittest.main()
