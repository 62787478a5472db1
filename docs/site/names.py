"""The page "All public names": each exported name with the first sentence of its docstring.

    python docs/site/names.py

writes ``docs/reference/names.md``, which can be searched in the repository, where the other pages of the reference have
no names. ``tests/test_api.py`` compares it with the package.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "catena"
PAGE = ROOT / "docs" / "reference" / "names.md"
HEAD = """# All public names

Every name that a package exports, with the first sentence of its docstring. `make site` builds pages with their
parameters. This page is written by `python docs/site/names.py`.
"""


def list_packages() -> Iterator[str]:
    """The packages that export names."""
    for path in sorted(SOURCES.rglob("__init__.py")):
        if "__all__" in path.read_text(encoding="utf-8"):
            yield ".".join(path.parent.relative_to(SOURCES.parent).parts)


def first_sentence(value: object) -> str:
    """The first paragraph of a docstring on one line, without markup; empty for values without one."""
    if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
        return ""
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return paragraph.replace("``", "`").replace(":class:", "").replace(":func:", "").replace("|", "\\|")


def write_names() -> str:
    """The text of the page."""
    parts = [HEAD]
    for package in list_packages():
        module = importlib.import_module(package)
        rows = [
            f"| `{name}` | {first_sentence(getattr(module, name))} |"
            for name in sorted(set(module.__all__) - {"__version__"}, key=str.lower)
        ]
        parts.append(f"\n## {package}\n\n| name | |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(write_names(), encoding="utf-8")
