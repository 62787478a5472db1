"""Four rows times a matrix, at every size at which its blocks are laid another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catena.kernels.chain.cpu_matvec import LONG, TOGETHER, four_times_matrix
from catena.kernels.common.jit import jit


@jit("2", "3", "i", "2")
def multiply(v: Any, matrices: Any, w: int, result: Any) -> None:
    four_times_matrix(v, matrices, w, result)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_product_at_every_size(dtype: type) -> None:
    rng = np.random.default_rng(0)
    longest = LONG // dtype(0).itemsize
    for k in (*range(1, 50), longest, longest + 1):
        v, matrices = rng.random((TOGETHER, k)).astype(dtype), rng.random((3, k, k)).astype(dtype)
        guarded = np.full((TOGETHER + 2, k), -1, dtype)
        multiply(v, matrices, 2, guarded[1:-1])
        wanted, rtol = v.astype(np.float64) @ matrices[2], 1e-5 if dtype is np.float32 else 1e-12
        assert np.allclose(guarded[1:-1], wanted, rtol=rtol)
        assert (guarded[[0, -1]] == -1).all(), "nothing is written beside the result"
