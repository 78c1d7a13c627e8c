#!/usr/bin/env python3
"""Turns the JSON of `write.py` into markdown: tables and the bars.

    write_report.py WRITE.json [> WRITE.md]
"""

import json
import sys
from pathlib import Path

OURS, CPU, XARRAY, NVCOMP = "tiffjet", "tiffjet on the CPU", "xarray-spatial", "nvCOMP alone"

XARRAY_TIMES = {"zstd": 5, "deflate": 5, "lzw": 40}
COG_TIMES = 5
KERNEL_TIMES, KERNEL_ALLOWANCE_MS = 1.3, 5
LARGER = 1.15
MIB = 1 << 20
STREAM_DEVICE, STREAM_HOST, EAGER_DEVICE = 96 * MIB, 256 * MIB, 512 * MIB


def table(head: list[str], rows: list[list]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def mib(value: float | None) -> str:
    return "" if value is None else f"{value / MIB:.0f}"


def bar(met: bool | None, text: str) -> str:
    return f"- {'met' if met else 'MISSED' if met is not None else 'not measured'}: {text}"


def by_way(result: dict) -> dict[tuple, dict[str, dict]]:
    ways: dict[tuple, dict[str, dict]] = {}
    for found in result["entries"]:
        if "engine" in found:
            key = (found["raster"], found["codec"], found["side"], found["cog"])
            ways.setdefault(key, {})[found["engine"]] = found
    return ways


def of(engines: dict[str, dict], engine: str, key: str = "ms"):
    return engines.get(engine, {}).get(key)


def kernel(engines: dict[str, dict], codec: str) -> dict:
    """nvCOMP's kernel of the algorithm whose files are about as large as tiffjet's."""
    return engines.get(f"{NVCOMP} 1" if codec == "deflate" else NVCOMP, {})


def speed(ways: dict) -> str:
    head = ["raster", "codec", "tile", "COG", "tiffjet ms", "CPU ms", "xarray-spatial ms", "nvCOMP kernel ms", "MB", "CPU MB", "device MiB", "way"]
    rows = []
    for (raster, codec, side, cog), engines in ways.items():
        own = engines.get(OURS, {})
        failed = own.get("error") or ("WRONG PIXELS" if own.get("sound") is False else "")
        way = failed or "; ".join(route for route, _ in own.get("routes", []))
        size = lambda engine, e=engines: number(None if of(e, engine, "bytes") is None else of(e, engine, "bytes") / 1e6, 0)  # noqa: E731
        rows.append([
            raster, codec, side, "yes" if cog else "", number(own.get("ms")), number(of(engines, CPU)), number(of(engines, XARRAY), 0),
            number(kernel(engines, codec).get("ms")), size(OURS), size(CPU), mib(own.get("device_memory")), way,
        ])
    return table(head, rows)


def bars(result: dict, ways: dict) -> list[str]:
    lines = []
    for (raster, codec, side, cog), engines in ways.items():
        own, rival = of(engines, OURS), of(engines, XARRAY)
        times = COG_TIMES if cog else XARRAY_TIMES.get(codec)
        if times and own and rival:
            lines.append(bar(rival / own >= times, f"{raster} {codec}{' COG' if cog else ''}: {rival / own:.1f} times as fast as xarray-spatial ({times} asked)"))
        alone = kernel(engines, codec).get("ms")
        if own and alone and not cog:
            due = KERNEL_TIMES * (alone + KERNEL_ALLOWANCE_MS)
            lines.append(bar(own <= due, f"{raster} {codec} {side}: {own:.1f} ms, {due:.1f} allowed by nvCOMP's kernel"))
        sizes = of(engines, OURS, "bytes"), of(engines, CPU, "bytes")
        if all(sizes) and codec in ("zstd", "deflate") and not cog:
            lines.append(bar(sizes[0] <= LARGER * sizes[1], f"{raster} {codec} {side}: {100 * (sizes[0] / sizes[1] - 1):+.1f} % of the CPU's size"))
    for entry in result["entries"]:
        found = entry.get("memory")
        if not found or "error" in found:
            continue
        what = f"{found['way']} {found['codec']}{' COG' if found['cog'] else ''}, budget {found['budget'] or 'none'}"
        if found["way"] == "stream" and found["budget"] == "64MiB":
            device = found["device_seen"] - found["chunk"]
            lines.append(bar(device <= STREAM_DEVICE and found["host_seen"] <= STREAM_HOST, f"{what}: {mib(device)} MiB of the device beside a chunk, {mib(found['host_seen'])} MiB of the host"))
        if found["way"] == "eager":
            if found["budget"] is None:
                lines.append(bar(found["device_seen"] <= EAGER_DEVICE, f"{what}: {mib(found['device_seen'])} MiB of the device beside the array"))
            if "same" in found:
                lines.append(bar(found["same"], f"{what}: the bytes of the stream"))
    return lines


def memory(result: dict) -> str:
    head = ["way", "codec", "COG", "budget", "ms", "device MiB seen", "told", "host MiB seen", "told", "same bytes", "which way"]
    rows = []
    for entry in result["entries"]:
        if found := entry.get("memory"):
            way = found.get("error") or "; ".join(route for route, _ in found["routes"])
            rows.append([
                found["way"], found["codec"], "yes" if found["cog"] else "", found["budget"] or "", number(found.get("ms"), 0),
                mib(found.get("device_seen")), mib(found.get("device_memory")), mib(found.get("host_seen")), mib(found.get("host_memory")),
                found.get("same", ""), way,
            ])
    return table(head, rows)


def render(result: dict) -> str:
    ways = by_way(result)
    lines = ["# Writing on a GPU", "", ", ".join(f"{k} {v}" for k, v in result["machine"].items()) + f"; rasters of {result['size']} squared"]
    lines += [f"Commit {result['commit']}."] if result.get("commit") else []
    lines += ["", "From pixels in device memory to a file in memory, medians; the CPU from pixels of the host with all cores.", "", speed(ways)]
    lines += ["## Memory", "", "The DEM, ZSTD and others, in chunks of 512 rows or at once.", "", memory(result)]
    for entry in result["entries"]:
        if found := entry.get("check"):
            lines += ["## Small rasters", "", f"{found['ways']} ways written, {len(found['failed'])} findings.", *(f"- {what}" for what in found["failed"][:40]), ""]
    seen = [entry["large"] for entry in result["entries"] if "large" in entry]
    if seen:
        good = [found for found in seen if found.get("tifffile") and found.get("cpu")]
        bad = [json.dumps(found) for found in seen if found not in good]
        lines += ["## Large rasters", "", f"{len(good)} of {len(seen)} are the same to tifffile and to the CPU.", *(f"- {what}" for what in bad), ""]
    lines += ["## Bars", "", *bars(result, ways), ""]
    lines += ["## Problems", "", *(f"- {what}" for what in result["problems"]), ""] if result["problems"] else []
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(json.loads(Path(sys.argv[1]).read_text())))
