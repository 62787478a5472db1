"""Properties of the subpackage: docstring examples run, and torch is not imported."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import catena.grammar

MODULES = sorted(path.stem for path in Path(catena.grammar.__file__).parent.glob("*.py") if path.stem != "__init__")


def test_examples_in_docstrings_run() -> None:
    tried = 0
    for name in MODULES:
        result = doctest.testmod(importlib.import_module(f"catena.grammar.{name}"))
        assert result.failed == 0, name
        tried += result.attempted
    assert tried >= 8


def test_only_dense_imports_torch() -> None:
    modules = ", ".join(f"catena.grammar.{name}" for name in MODULES if name != "dense")
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_docstring_lists_all_modules() -> None:
    listed = catena.grammar.__doc__ or ""
    assert [name for name in MODULES if f"``{name}``" not in listed] == []
