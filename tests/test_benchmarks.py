"""Benchmarks are too slow for tests, and some need peers; but what they import of Catena must be there."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


def imported(script: Path) -> Iterator[tuple[str, str | None]]:
    """Modules of Catena that a script imports, also inside functions, each with a name that it takes from there."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "catena":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "catena")


def missing(script: Path) -> list[str]:
    """What a script imports and is not there."""
    found = []
    for module, name in imported(script):
        opened = importlib.import_module(module)
        if name is not None and not hasattr(opened, name):
            try:
                importlib.import_module(f"{module}.{name}")
            except ImportError:
                found.append(f"{module}.{name}")
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    assert missing(script) == []


def test_a_name_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text("from catena.numerics import NEVER, SOMETIMES\nimport catena.errors\n", encoding="utf-8")
    assert missing(script) == ["catena.numerics.SOMETIMES"]


@pytest.mark.parametrize("name", ["lm", "tag_parse", "structure"])
def test_a_benchmark_of_parts_has_a_file_for_each(name: str) -> None:
    text = next(script for script in SCRIPTS if script.stem == name).read_text(encoding="utf-8")
    parts = [script.stem.removeprefix(f"{name}_") for script in SCRIPTS if script.stem.startswith(f"{name}_")]
    assert len(parts) > 2
    assert all(f"[{part}]" in text for part in parts), "the head names every part"
