"""The documentation is true where no program has to run for it: links, lists, figures."""

import html
import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from make_site import notebook_as_markdown, python_reference, slug  # noqa: E402


def pages():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.ipynb"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def text_of(page):
    text = page.read_text()
    return notebook_as_markdown(text) if page.suffix == ".ipynb" else text


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {slug(re.sub(r"[`*]", "", heading)) for heading in headings}


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self):
        broken, count = [], 0
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
                path, _, anchor = html.unescape(target).partition("#")
                if re.match(r"[a-z]+:", target):
                    continue
                count += 1
                found = (page.parent / path).resolve() if path else page
                here = f"{page.relative_to(ROOT)}: {target}"
                if not found.exists():
                    broken.append(here)
                elif anchor and found.suffix == ".md" and anchor not in anchors(found):
                    broken.append(f"{here}: no such heading")
        self.assertEqual(broken, [])
        self.assertGreater(count, 50)

    def test_every_page_can_be_reached(self):
        listed = {page for part in tomllib.loads((ROOT / "docs" / "nav.toml").read_text())["part"] for page in part["pages"]}
        for folder in ("guides", "concepts", "reference"):
            for page in sorted((ROOT / "docs" / folder).iterdir()):
                if page.suffix in (".md", ".ipynb"):
                    self.assertIn(f"{folder}/{page.name}", listed)


class Lists(unittest.TestCase):
    def test_every_error_is_explained(self):
        source = (ROOT / "crates/tiffjet/src/error.rs").read_text()
        variants = re.findall(r"^    (\w+) \{$", source[source.index("pub enum Error"):source.index("pub enum Cause")], re.MULTILINE)
        page = (ROOT / "docs/reference/errors.md").read_text()
        self.assertGreater(len(variants), 8)
        self.assertEqual([variant for variant in variants if f"| `{variant}` |" not in page], [])

    def test_every_setting_is_explained(self):
        page = (ROOT / "docs/reference/settings.md").read_text()
        code = [*(ROOT / "crates").glob("*/src/**/*.rs"), *(ROOT / "python" / "tiffjet").rglob("*.py")]
        used = {name for path in code for name in re.findall(r"\"(TIFFJET_[A-Z_]+)\"", path.read_text())}
        self.assertIn("TIFFJET_CACHE", used)
        self.assertEqual(sorted(name for name in used if f"`{name}`" not in page), [])

    def test_extras_are_listed(self):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for page in ("README.md", "docs/guides/install.md"):
            text = (ROOT / page).read_text()
            for extra in extras:
                self.assertTrue(f"`{extra}`" in text or f"`tiffjet[{extra}]`" in text, f"{page}: {extra}")

    def test_the_reference_of_python_has_all_names(self):
        page = python_reference()
        for name in ("open", "read_many", "open_geotiff", "to_geotiff", "validate", "doctor", "Image", "Tensor", "Report", "Crs"):
            self.assertIn(f"## `{name}`", page)

    def test_the_version_stands_in_one_place(self):
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        needed = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
        self.assertEqual({entry["version"] for entry in needed.values() if "version" in entry}, {version})
        self.assertIn("version", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"])
        for manifest in (ROOT / "crates").glob("*/Cargo.toml"):
            package = tomllib.loads(manifest.read_text())["package"]
            self.assertEqual(package["version"], {"workspace": True}, manifest)


class Figures(unittest.TestCase):
    def test_figures_are_those_of_the_newest_records(self):
        done = subprocess.run([sys.executable, "-B", "bench/figures.py", "--check"], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pictures_are_small(self):
        for picture in [*(ROOT / "docs" / "images").iterdir(), *(ROOT / "docs" / "figures").iterdir()]:
            self.assertLess(picture.stat().st_size, 200_000, picture)


if __name__ == "__main__":
    unittest.main()
