"""Tests of make_kernels.py that need no compiler."""

import unittest

import make_kernels as kernels


class Packing(unittest.TestCase):
    def test_what_is_packed_comes_back(self) -> None:
        entries = [
            kernels.Entry("deflate", kernels.CUBIN, 90, bytes(range(256)) * 40),
            kernels.Entry("deflate", kernels.PTX, 75, b".version 8.0\0"),
        ]
        packed = kernels.pack(entries, b"\7" * 32)
        self.assertEqual(kernels.unpack(packed), (b"\7" * 32, entries))

    def test_another_version_is_refused(self) -> None:
        packed = bytearray(kernels.pack([], bytes(32)))
        packed[8] += 1
        with self.assertRaises(SystemExit):
            kernels.unpack(bytes(packed))


class Sources(unittest.TestCase):
    def test_the_committed_file_is_made_from_the_sources(self) -> None:
        digest, entries = kernels.unpack(kernels.PACKED.read_bytes())
        self.assertEqual(digest, kernels.digest_of_sources(), "run `make kernels` and commit the result")
        names = {path.stem for path in kernels.sources() if path.suffix == ".cu"}
        targets = {(name, kind, arch) for name in names for _, kind, arch in kernels.TARGETS}
        self.assertEqual({entry.key for entry in entries}, targets)

    def test_headers_are_found_through_headers(self) -> None:
        found = kernels.included(kernels.KERNELS / "deflate.cu")
        self.assertLessEqual({"deflate.cuh", "abi.h", "device.h"}, found.keys())
        self.assertFalse(any(name.startswith("emulate/") for name in found))


class Usage(unittest.TestCase):
    def test_registers_and_spills_are_named(self) -> None:
        log = (
            "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
            "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
            "ptxas info    : Used 40 registers, used 1 barriers\n"
        )
        said = "k: 40 registers, 0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads"
        self.assertEqual(kernels.usage(log), [said])


if __name__ == "__main__":
    unittest.main()
