"""The page "Every file in one line": the first sentence of each module, and the tests that check it.

A module is tested by the file of ``tests/`` with the same path, by the tests that its docstring or the one of its
package names after "Tested in", or by the tests of its mutants. Standard library only; Catena is not imported.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "catena"
TESTS = ROOT / "tests"


def list_modules() -> list[Path]:
    """All modules with code, in alphabetical order of their paths."""
    return sorted(
        path for path in SOURCES.rglob("*.py") if path.name not in ("__init__.py", "__main__.py", "version.py")
    )


@cache
def read_docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def first_sentence(path: Path) -> str:
    """The first paragraph of a module's docstring on one line, without the tests that it names."""
    paragraph = " ".join(read_docstring(path).split("\n\n")[0].split())
    return re.sub(r" ?Tested in .*", "", paragraph)


@cache
def mutants() -> dict[str, list[str]]:
    """The test files that must detect the mutants of each source file."""
    found: dict[str, list[str]] = {}
    for path in sorted((TESTS / "mutants").glob("*.toml")):
        for mutant in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            found.setdefault(mutant["file"], []).extend(test.split("::")[0] for test in mutant["tests"])
    return found


def named_tests(docstring: str) -> list[str]:
    """The files and folders of tests that a docstring names."""
    said = re.search(r"Tested in (.*?)(?:\.\s|\.$|\Z)", " ".join(docstring.split()))
    return re.findall(r"tests/[\w/]+(?:\.py)?", said[1]) if said else []


def find_tests(path: Path) -> list[str]:
    """The tests of a module, relative to the repository."""
    inside = path.relative_to(SOURCES)
    mirror = TESTS / inside.parent / f"test_{inside.stem}.py"
    if mirror.exists():
        return [mirror.relative_to(ROOT).as_posix()]
    named = named_tests(read_docstring(path)) or named_tests(read_docstring(path.parent / "__init__.py"))
    return named or list(dict.fromkeys(mutants().get(path.relative_to(ROOT).as_posix(), [])))


def write_map() -> str:
    """The page, with one table for each folder."""
    lines = ["# Every file in one line", "", "All modules of `src/catena`, and the tests of each."]
    folder = None
    for path in list_modules():
        if path.parent != folder:
            folder = path.parent
            name = folder.relative_to(SOURCES.parent).as_posix()
            lines += [
                "",
                f"## {name}/",
                "",
                first_sentence(folder / "__init__.py"),
                "",
                "| file | | tests |",
                "|---|---|---|",
            ]
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in find_tests(path)[:3])
        sentence = re.sub(r":math:`([^`]+)`", r"`\1`", first_sentence(path)).replace("|", "\\|").replace("``", "`")
        lines.append(f"| `{path.name}` | {sentence} | {tests} |")
    return "\n".join(lines) + "\n"
