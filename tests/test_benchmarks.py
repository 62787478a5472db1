"""Benchmarks are too slow for tests, and some need other libraries; but their imports of Catena must exist."""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import os
import runpy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def load_script(path: str) -> dict[str, Any]:
    """Run a script of the benchmarks as an imported module and return its names."""
    return runpy.run_path(str(SCRIPTS[0].parent / path))


@pytest.mark.parametrize("between", ["\n\n", "\n\t\n", "\n \n\n", "\n\n\t\n\t\n"])
def test_split_examples_white_lines_end_sentences(between: str) -> None:
    split_examples = load_script("auto.py")["split_examples"]
    sentences = ["a\tO\nb\tO", "#c\tB-x", "d\tO"]
    assert split_examples(between.join(sentences) + "\n", "\n\n") == sentences
    assert split_examples("a \n\nb\n", "\n") == ["a ", "", "b"], "lines are examples"


def test_cpu_clock_counts_cpu_seconds_in_catena_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 77.0)
    monkeypatch.setattr(os, "times", lambda: (1.0, 2.0, 4.0, 8.0, 100.0))
    monkeypatch.setattr(multiprocessing, "active_children", list)
    load_script("cpu_clock/sitecustomize.py")
    clock = "import time\nnow = time.monotonic()"
    found: dict[str, dict[str, Any]] = {name: {"__name__": name} for name in ("catena.tasks", "catenary", "selectors")}
    for names in found.values():
        exec(clock, names)
    assert [names["now"] for names in found.values()] == [15.0, 77.0, 77.0]
