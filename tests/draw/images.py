"""Make the pictures of the documentation from the code next to them.

    python -m tests.draw.images

writes every SVG file that docs/draw.md and the pages of docs/structures/ create and show into docs/images/.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"
IMAGES = DOCS / "images"
PAGES = [DOCS / "draw.md", *sorted((DOCS / "structures").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    """Return the Python examples of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def shown(page: Path) -> list[str]:
    """Return the names of the SVG files in docs/images/ that a page shows."""
    return re.findall(r"!\[[^\]]+\]\((?:\.\./)?images/([\w.-]+\.svg)\)", page.read_text(encoding="utf-8"))


def run(page: Path, folder: Path) -> str:
    """Run the examples of a page in order in a folder, and return their output."""
    before = Path.cwd()
    printed = io.StringIO()
    names: dict[str, object] = {"__name__": "__example__"}
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            for number, block in enumerate(blocks(page), 1):
                exec(compile(block, f"{page.name}, example {number}", "exec"), names)
    finally:
        os.chdir(before)
    return printed.getvalue()


def main(pages: list[str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for page in [Path(page).resolve() for page in pages] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            if shown(page):
                run(page, Path(folder))
            for name in shown(page):
                shutil.copyfile(Path(folder) / name, IMAGES / name)


if __name__ == "__main__":
    main(sys.argv[1:])
