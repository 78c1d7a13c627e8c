"""A rule that finds nothing is no rule: each one is shown a tree that breaks it."""

import tempfile
import unittest
from pathlib import Path

import check_rules as rules


class Tree(unittest.TestCase):
    def breaches(self, rule, **files: str) -> list[str]:
        """What a rule says of a tree; `a__b_rs` is the file a/b.rs of the core."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                path = root / "crates/tiffjet/src" / name.replace("__", "/").replace("_rs", ".rs")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return [f"{path.removeprefix('crates/tiffjet/src/')}:{line}" for path, line, _ in rule(root)]

    def crates(self, **manifests: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "Cargo.toml").write_text('[workspace]\nmembers = ["crates/*"]\n')
            for name, text in manifests.items():
                path = root / "crates" / name / "Cargo.toml"
                path.parent.mkdir(parents=True)
                path.write_text(f'[package]\nname = "{name.replace("_", "-")}"\n[lints]\nworkspace = true\n{text}')
            return [what for _, _, what in rules.crates_point_down(root)]

    def test_the_core_names_no_device_even_in_a_comment(self):
        self.assertEqual(self.breaches(rules.core_is_neutral, a_rs="fn a() {}\n// as cuFile and CUDA do\n"), ["a.rs:2"])

    def test_plans_do_no_io(self):
        self.assertEqual(self.breaches(rules.folders_are_blind, plan__a_rs="use std::fs::File;"), ["plan/a.rs:1"])
        self.assertEqual(self.breaches(rules.folders_are_blind, plan__a_rs="// no std::fs here"), [])
        self.assertEqual(self.breaches(rules.folders_are_blind, cpu__a_rs="use std::fs::File;"), [])

    def test_codecs_know_no_file(self):
        self.assertEqual(self.breaches(rules.folders_are_blind, codec__a_rs="\nuse crate::layout::Layout;"), ["codec/a.rs:2"])
        self.assertEqual(self.breaches(rules.folders_are_blind, codec__a_rs="fn a(d: &Directory) {}"), ["codec/a.rs:1"])
        self.assertEqual(self.breaches(rules.folders_are_blind, codec__a_rs="use crate::dtype::DType;"), [])

    def test_the_grammar_knows_no_pixels(self):
        self.assertEqual(self.breaches(rules.folders_are_blind, tiff__a_rs="use crate::dtype::DType;"), ["tiff/a.rs:1"])
        self.assertEqual(self.breaches(rules.folders_are_blind, tiff__a_rs="use crate::dtype::ByteOrder;"), [])

    def test_unsafe_stands_in_named_files(self):
        self.assertEqual(self.breaches(rules.unsafe_is_named, a_rs="unsafe { b() }"), ["a.rs:1"])
        self.assertEqual(self.breaches(rules.unsafe_is_named, a_rs='// unsafe\nlet a = "unsafe";'), [])
        self.assertEqual(self.breaches(rules.unsafe_is_named, tensor_rs="unsafe { b() }"), [])
        self.assertEqual(self.breaches(rules.unsafe_is_named, tensor_rs="fn a() {}"), ["tensor.rs:1"])

    def test_nothing_is_left_over(self):
        self.assertEqual(self.breaches(rules.all_is_finished, a_rs="fn a() {\n    todo!()\n}"), ["a.rs:2"])
        self.assertEqual(self.breaches(rules.all_is_finished, a_rs="// todo!"), [])

    def test_files_are_short(self):
        self.assertEqual(self.breaches(rules.files_are_short, a_rs="\n" * rules.LINES), [])
        self.assertEqual(self.breaches(rules.files_are_short, a_rs="\n" * (rules.LINES + 1)), [f"a.rs:{rules.LINES + 1}"])

    def test_crates_point_down(self):
        good = {"tiffjet": "[dev-dependencies]\ntiffjet-testkit = {}", "tiffjet_cli": "[dependencies]\ntiffjet = {}"}
        self.assertEqual(self.crates(**good), [])
        self.assertEqual(len(self.crates(tiffjet="[dependencies]\ntiffjet-testkit = {}")), 1)
        self.assertEqual(len(self.crates(tiffjet_testkit="[dependencies]\ntiffjet-cli = {}")), 1)
        self.assertEqual(len(self.crates(tiffjet_new="")), 1)

    def test_literals_and_comments_are_no_code(self):
        blank = rules.code("let a = b'\"'; let r = r#\"x\" unsafe\"#; /* unsafe\n */ let l: &'a str; keep")
        self.assertNotIn("unsafe", blank)
        self.assertIn("keep", blank)
        self.assertEqual(blank.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
