"""Benchmarks are too slow for tests, and some need other libraries; but their imports of Catena must exist."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


def imported(script: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the Catena modules that a script imports, also inside functions, each with an imported name."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "catena":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "catena")


def missing(script: Path) -> list[str]:
    """Return the imports of a script that do not exist."""
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
def test_benchmark_imports_exist(script: Path) -> None:
    assert missing(script) == []


def test_missing_name_is_found(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text("from catena.numerics import NEG_INF, SOMETIMES\nimport catena.errors\n", encoding="utf-8")
    assert missing(script) == ["catena.numerics.SOMETIMES"]


@pytest.mark.parametrize("name", ["lm", "tag_parse", "structure"])
def test_benchmark_with_parts_has_file_for_each(name: str) -> None:
    text = next(script for script in SCRIPTS if script.stem == name).read_text(encoding="utf-8")
    parts = [script.stem.removeprefix(f"{name}_") for script in SCRIPTS if script.stem.startswith(f"{name}_")]
    assert len(parts) > 2
    assert all(f"[{part}]" in text for part in parts), "the head names every part"
