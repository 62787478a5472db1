"""The files in which compiled kernels are kept."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SOURCE = """
from catena.kernels.common.jit import jit


def _double(x, y):
    for i in range(len(x)):
        y[i] = 2 * x[i]


to_reals = jit("1", "1")(_double)
to_integers = jit("1", "i1")(_double)
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with two kernels of one loop."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("numba.config.CACHE_DIR", "")  # numba reads the variable again only while it compiles
    path = tmp_path / "kernels_of_test.py"
    path.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_signature_has_its_own_list_of_compiled_code(kernels: ModuleType, tmp_path: Path) -> None:
    for dtype in (np.float32, np.float64):
        doubled = np.empty(2, dtype)
        kernels.to_reals(np.array([1.5, 2.0], dtype), doubled)
        assert doubled.tolist() == [3.0, 4.0]
    counted = np.empty(2, np.int64)
    kernels.to_integers(np.array([1.5, 2.0], np.float32), counted)
    assert counted.tolist() == [3, 4]
    assert len(list(tmp_path.rglob("*.nbi"))) == len(list(tmp_path.rglob("*.nbc"))) == 3
