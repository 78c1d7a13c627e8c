#!/usr/bin/env python3
"""Builds the documentation: docs/, the pages beside it and the reference of Python, as HTML without anything from elsewhere.

    python scripts/make_site.py OUT [--rust FOLDER]

Needs docs/requirements.txt. Markdown becomes pages, notebooks too; links from page to page stay links, links to other files of the
project become links to copies of them. The reference of Python is made from docstrings and stubs, without importing anything.
--rust copies a folder made by rustdoc.
"""

import argparse
import ast
import html
import json
import os
import re
import shutil
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"""(?P<before>(?:href|src)=")(?P<target>[^"]+)(?P<after>")""")

STYLE = """
:root { --text: #1f2328; --soft: #59636e; --back: #fff; --panel: #f6f8fa; --line: #d1d9e0; --link: #0a5bb8 }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9aa4af; --back: #0f1216; --panel: #171b21; --line: #2f3742; --link: #6cb0ff } }
* { box-sizing: border-box } body { margin: 0; font: 16px/1.6 system-ui, sans-serif; color: var(--text); background: var(--back) }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
.page { display: grid; grid-template-columns: 250px minmax(0, 1fr); max-width: 1200px; margin: auto }
nav { padding: 24px 20px; border-right: 1px solid var(--line); font-size: 14px; position: sticky; top: 0; height: 100vh; overflow: auto }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); margin: 20px 0 4px }
nav ul { list-style: none; margin: 0; padding: 0 } nav a { display: block; padding: 2px 0; color: var(--text) } nav .here { font-weight: 600 }
main { padding: 24px 40px 80px; min-width: 0 } h1 { line-height: 1.2 } h2 { margin-top: 2em; border-bottom: 1px solid var(--line) }
pre, code { font: 13.5px/1.5 ui-monospace, monospace } code { background: var(--panel); padding: .1em .3em; border-radius: 4px }
pre { background: var(--panel); padding: 12px 16px; border-radius: 6px; overflow-x: auto } pre code { padding: 0; background: none }
table { border-collapse: collapse; display: block; overflow-x: auto } th, td { border: 1px solid var(--line); padding: 4px 10px; text-align: left; vertical-align: top }
h1 code, h2 code, h3 code { font-size: inherit; background: none; padding: 0 } img { max-width: 100%; height: auto } dt { margin-top: 1em } .signature { font-weight: 600 }
@media (max-width: 800px) { .page { display: block } nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line) } main { padding: 20px } }
"""

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title} - tiffjet</title>
<link rel="stylesheet" href="{up}site.css">
<div class="page">
<nav><a href="{up}docs/index.html"><strong>tiffjet</strong></a>{nav}</nav>
<main>
{body}
</main>
</div>
</html>
"""


def pages():
    """Parts of the documentation and their pages that exist, from docs/nav.toml, as paths from the root of the project."""
    for part in tomllib.loads((DOCS / "nav.toml").read_text())["part"]:
        found = [(DOCS / page).resolve().relative_to(ROOT) for page in part["pages"]]
        yield part["title"], [page for page in found if (ROOT / page).exists() or page.name == "python.md"]


def address(page):
    """Where a page of the project stands on the site."""
    return page.with_suffix(".html")


def notebook_as_markdown(text):
    cells = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        cells.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
    return "\n\n".join(cells)


# ---- the reference of Python


def signature(node):
    """A function as it is called."""
    arguments = re.sub(r"^self(, /)?(, )?|^cls(, )?", "", ast.unparse(node.args))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{node.name}({arguments}){returns}"
    return line if len(line) <= 100 else "\n".join(textwrap.wrap(line, 100, subsequent_indent="    ", break_long_words=False))


def public(nodes):
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in nodes if isinstance(node, functions) and not node.name.startswith("_")]


def is_property(node):
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def documented(node, level):
    text = [f"{'#' * level} `{node.name}`", "", f"```python\n{signature(node)}\n```", ""]
    return "\n".join([*text, docstring(node)])


def docstring(node):
    """Sections underlined as numpydoc has them become bold, examples become code."""
    text = ast.get_docstring(node) or ""
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    text = re.sub(r"^(\w[\w, *]*)(?: : .+)?\n((?: {4}.+\n?)+)", lambda m: f"- `{m[1]}`: {' '.join(m[2].split())}\n", text, flags=re.MULTILINE)
    return re.sub(r"((?:^(?:>>>|\.\.\.).*\n(?:(?!>>>|\.\.\.|\n).+\n?)*)+)", r"\n```pycon\n\1```\n", text + "\n", flags=re.MULTILINE)


def rust_docs(name):
    """What the extension module says of the members of a class: its stub has none of it."""
    found = {}
    member = re.compile(r"((?:^ {4}///.*\n)+)(?:^ {4}#\[(?:[^\[\]]|\[[^\]]*\])*\].*\n)*^ {4}(?:pub )?(?:fn )?(\w+)", re.MULTILINE)
    for path in sorted((ROOT / "crates" / "tiffjet-python" / "src").glob("*.rs")):
        for block in re.findall(rf"^(?:pub struct|impl) {name} {{\n(.*?)^}}", path.read_text(), re.MULTILINE | re.DOTALL):
            for text, key in member.findall(block):
                found[key] = re.sub(r"^ {4}/// ?", "", text, flags=re.MULTILINE).strip()
    return found


def class_page(node):
    said = rust_docs(node.name)
    for member in public(node.body):
        if member.name in said and not ast.get_docstring(member):
            member.body.insert(0, ast.Expr(ast.Constant(said[member.name])))
    text = [f"## `{node.name}`", "", docstring(node), ""]
    properties = [n for n in public(node.body) if is_property(n)]
    if properties:
        cell = lambda text: " ".join(text.split()).replace("|", "\\|")  # noqa: E731
        text += ["| attribute | type | is |", "|---|---|---|"]
        text += [f"| `{n.name}` | `{cell(ast.unparse(n.returns)) if n.returns else ''}` | {cell(ast.get_docstring(n) or '')} |" for n in properties]
        text.append("")
    text += [documented(n, 3) + "\n" for n in public(node.body) if not is_property(n)]
    return "\n".join(text)


def python_reference():
    """One page for the package."""
    package = ROOT / "python" / "tiffjet"
    out = ["# Python", "", "Made from the docstrings. `import tiffjet` has all of it but the modules that are named.", ""]
    stub = ast.parse((package / "_tiffjet.pyi").read_text())
    exported = ast.literal_eval(next(n.value for n in ast.parse((package / "__init__.py").read_text()).body
                                     if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"))
    for name in ("_files", "_read", "xarray", "_write", "_doctor"):
        for node in public(ast.parse((package / f"{name}.py").read_text()).body):
            if node.name in exported:
                out.append(documented(node, 2) + "\n")
    out += [class_page(node) for node in stub.body if isinstance(node, ast.ClassDef) and node.name in exported]
    modules = [path for path in sorted(package.glob("*.py")) if not path.name.startswith("_") and path.stem not in ("xarray", "dask")]
    for path in modules:
        tree = ast.parse(path.read_text())
        out += [f"# `tiffjet.{path.stem}`", "", ast.get_docstring(tree) or "", ""]
        out += [documented(node, 2) + "\n" for node in public(tree.body)]
        out += [class_page(node) for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return "\n".join(out)


# ---- pages


class Site:
    def __init__(self, out, rust):
        import markdown

        self.out, self.rust = out, rust
        extensions = ["fenced_code", "tables", "codehilite", "toc", "sane_lists", "md_in_html"]
        options = {"codehilite": {"css_class": "code", "guess_lang": False}, "toc": {"slugify": slug}}
        self.markdown = markdown.Markdown(extensions=extensions, extension_configs=options)
        self.parts = list(pages())
        self.known = {page for _, found in self.parts for page in found} | {Path("docs/index.md")}
        # What pages lead to is a page as well: decisions, records.
        for folder in ("docs/decisions", "bench/records"):
            self.known |= {path.relative_to(ROOT) for path in (ROOT / folder).glob("*.md")}
        self.copied = set()

    def text(self, page):
        if page == Path("docs/reference/python.md"):
            return python_reference()
        text = (ROOT / page).read_text()
        return notebook_as_markdown(text) if page.suffix == ".ipynb" else text

    def build(self):
        from pygments.formatters import HtmlFormatter

        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        light, dark = (HtmlFormatter(style=style).get_style_defs(".code") for style in ("friendly", "github-dark"))
        self.write("site.css", f"{STYLE}{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n.code {{ background: none }}\n")
        self.titles = {page: title_of(self.text(page), page) for page in self.known}
        self.titles[Path("README.md")] = "README"  # the first page has the name of the project already
        for page in sorted(self.known):
            self.make(page)
        if self.rust:
            shutil.copytree(self.rust, self.out / "rust")
        self.write("index.html", '<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">tiffjet</a>')

    def write(self, name, text):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def make(self, page):
        up = "../" * (len(page.parts) - 1)
        self.markdown.reset()
        body = LINK.sub(lambda found: found["before"] + self.target(page, found["target"]) + found["after"],
                        self.markdown.convert(self.text(page)))
        self.write(address(page), PAGE.format(title=html.escape(self.titles[page]), up=up, nav=self.nav(page, up), body=body))

    def target(self, page, target):
        """A link of the sources as one of the site."""
        if re.match(r"[a-z]+:|#", target):
            return target
        path, mark, anchor = target.partition("#")
        found = Path(os.path.normpath(page.parent / path))
        if found in self.known:
            return os.path.relpath(address(found), page.parent) + mark + anchor
        if (ROOT / found).is_dir():
            inside = found / "README.md"
            if inside in self.known:
                return os.path.relpath(address(inside), page.parent)
            return self.listing(found, page)
        if (ROOT / found).is_file():
            self.write(found, "") if found not in self.copied else None
            shutil.copyfile(ROOT / found, self.out / found)
            self.copied.add(found)
        return target

    def listing(self, folder, page):
        """A page for a folder that has none."""
        name = folder / "index.html"
        if name not in self.copied:
            self.copied.add(name)
            inside = sorted(p for p in self.known if p.parent == folder)
            items = "".join(f'<li><a href="{address(p).name}">{html.escape(self.titles[p])}</a></li>' for p in inside)
            up = "../" * len(folder.parts)
            body = f"<h1>{folder}</h1><ul>{items}</ul>"
            self.write(name, PAGE.format(title=str(folder), up=up, nav=self.nav(None, up), body=body))
        return os.path.relpath(name, page.parent)

    def nav(self, here, up):
        out = []
        for title, found in self.parts:
            items = []
            for page in found:
                mark = ' class="here"' if page == here else ""
                items.append(f'<li><a{mark} href="{up}{address(page)}">{html.escape(self.titles[page])}</a></li>')
            if title == "Reference" and self.rust:
                items.append(f'<li><a href="{up}rust/tiffjet/index.html">Rust</a></li>')
            out.append(f"<h2>{title}</h2><ul>{''.join(items)}</ul>")
        return "".join(out)


def slug(text, separator="-"):
    """Anchors as GitHub makes them, so that links work in both places."""
    return re.sub(r"\s", separator, re.sub(r"[^\w\s-]", "", text.strip().lower()))


def title_of(text, page):
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]) if found else page.stem


def broken_links(out):
    """Links of the site that lead nowhere: (page, target)."""
    anchors = {}

    def anchors_of(path):
        if path not in anchors:
            anchors[path] = set(re.findall(r'\bid="([^"]+)"', path.read_text(errors="replace")))
        return anchors[path]

    for page in sorted(out.rglob("*.html")):
        if "rust" in page.relative_to(out).parts[:1]:
            continue
        for target in re.findall(r'(?:href|src)="([^"]+)"', page.read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = html.unescape(target).partition("#")
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (anchor and found.suffix == ".html" and anchor not in anchors_of(found)):
                yield str(page.relative_to(out)), target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rust", type=Path)
    args = parser.parse_args()
    site = Site(args.out.resolve(), args.rust)
    site.build()
    broken = list(broken_links(site.out))
    for page, target in broken:
        print(f"{page}: {target} leads nowhere", file=sys.stderr)
    print(f"{len(site.known)} pages: {args.out}/index.html")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
