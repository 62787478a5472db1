"""Builds the documentation site: ``make site``.

1. Copies the pages to ``build/pages``, with the files outside of ``docs/`` that they link to: the README, examples and
   recipes become pages of their own, and one page lists all source files. The code that writes the files of a page is
   shown in a closed section; reasons on fences are removed.
2. Runs Zensical in strict mode: a broken link or an unknown name in the reference is an error.
3. Checks that the reference has every name that Catena exports.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

from docstrings import exported, to_mathml
from source_map import write_map

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
CONFIG = Path(__file__).parent / "zensical.toml"
OUTSIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
FOLDERS = {"examples": "examples/index.md", "src/catena/recipes": "recipes.md"}
SETUP = re.compile(r"^<!-- setup\n(.*?)^-->\n", re.M | re.S)
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.M | re.S)


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("site", "*.py", "*.txt", "*.md"))
    for source in [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OUTSIDE)]:
        write_page(locate(source), convert_page(source))
    write_examples()
    write_page(PAGES / "recipes.md", list_recipes())
    write_page(PAGES / "reference" / "files.md", write_map())
    check_navigation()
    config = shutil.copy(CONFIG, PAGES.parent)  # Zensical writes only below the folder of its config
    zensical = Path(sys.executable).parent / "zensical"
    command = [zensical, "build", "--clean", "--strict", "-f", config]
    done = subprocess.run(command, cwd=PAGES.parent, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode or "griffe: " in done.stdout:  # a warning about a docstring is not an error of Zensical
        raise SystemExit(f"{done.stdout}The site has warnings. Correct the pages and docstrings above.")
    check_reference()
    print(f"The site is in {SITE.relative_to(ROOT)}. To read it: python -m http.server -d {SITE.relative_to(ROOT)}")


def write_page(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def locate(source: Path) -> Path:
    """The page of a file of the repository."""
    path = source.relative_to(ROOT).as_posix().rstrip("/")
    if path in OUTSIDE | FOLDERS:
        return PAGES / (OUTSIDE | FOLDERS)[path]
    if path.startswith("docs/"):
        return PAGES / path.removeprefix("docs/")
    if path.startswith("examples/"):
        return PAGES / f"{path.removesuffix('.py')}.md"
    raise SystemExit(f"{path} has no page on the site. Link to a page, an example or the folder of recipes.")


def convert_page(source: Path) -> str:
    text = source.read_text(encoding="utf-8")
    setups = [code for code in re.findall(SETUP, text) if "ROOT" not in code]
    text = re.sub(SETUP, lambda found: "SETUP\n" if found[1] in setups else "", text)
    text = re.sub(r"^```(\w+) .*$", r"```\1", text, flags=re.M)
    parts = CODE.split(text)
    parts[::2] = [convert_prose(part, source) for part in parts[::2]]
    text = "".join(parts)
    for code in setups:
        text = text.replace("SETUP\n", fold(code), 1)
    return text


def fold(code: str) -> str:
    """A closed section with the code that writes the files of a page."""
    lines = ["```python", *code.splitlines(), "```"]
    return '??? note "The files of this page"\n\n' + textwrap.indent("\n".join(lines), "    ") + "\n"


def convert_prose(text: str, source: Path) -> str:
    """Prose with links to pages of the site and formulas in MathML."""
    text = re.sub(r"\]\(([^)#:\s]+)(#[^)]*)?\)", lambda link: f"]({move_link(link[1], source)}{link[2] or ''})", text)
    text = re.sub(r"\$\$(.+?)\$\$", lambda found: to_mathml(found[1], block=True), text, flags=re.S)
    return re.sub(r"\$([^$\n]+)\$", lambda found: to_mathml(found[1]), text)


def move_link(target: str, source: Path) -> str:
    file = Path(os.path.normpath(source.parent / target))
    if not file.exists():
        raise SystemExit(f"{source.relative_to(ROOT)} links to {target}, which does not exist. Correct the link.")
    return os.path.relpath(locate(file), locate(source).parent)


def write_examples() -> None:
    lines = ["# Examples", "", "One idea in one file, each runs in less than a minute.", ""]
    for example in sorted((ROOT / "examples").glob("*.py")):
        code = example.read_text(encoding="utf-8")
        title = code.split('"""')[1].strip().split("\n")[0]
        lines.append(f"- [{example.name}]({example.stem}.md): {title}")
        write_page(locate(example), f"# {example.name}\n\n```python\n{code}```\n")
    write_page(PAGES / "examples" / "index.md", "\n".join(lines) + "\n")


def list_recipes() -> str:
    lines = ["# Recipes", "", "Each file reproduces a result. `catena train -c NAME` trains it.", ""]
    for recipe in sorted((ROOT / "src/catena/recipes").glob("*.toml")):
        comment = re.match(r"(?:#.*\n)+", recipe.read_text(encoding="utf-8"))
        lines += [
            f"## {recipe.stem}",
            "",
            "```text",
            re.sub(r"^# ?", "", comment[0] if comment else "", flags=re.M) + "```",
            "",
        ]
    return "\n".join(lines)


def check_navigation() -> None:
    """Every page is in the navigation."""
    listed = set(re.findall(r'"([\w/]+\.md)"', CONFIG.read_text(encoding="utf-8")))
    pages = {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*.md")}
    hidden = {page for page in pages - listed if not page.startswith("examples/")}
    if hidden or listed - pages:
        raise SystemExit(f"The navigation lacks {sorted(hidden)} and has unknown {sorted(listed - pages)}.")


def check_reference() -> None:
    """Every exported name is an object of the reference, or a constant that a page of the reference lists."""
    lines = (SITE / "objects.inv").read_bytes().split(b"\n", 4)
    objects = {line.split(" ")[0] for line in zlib.decompress(lines[4]).decode().splitlines()}
    names = {f"{package}.{name}" for name, package in exported().items()} - {"catena.__version__"}
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    missing = {name for name in names - objects if f"`{name.rpartition('.')[2]}`" not in pages}
    if missing:
        raise SystemExit(f"The reference lacks {', '.join(sorted(missing))}. Add them to docs/reference.")
    print(f"The reference has {len(names)} exported names.")


if __name__ == "__main__":
    main()
