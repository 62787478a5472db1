"""Looks of several rows at blocks they share, beside the formula in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from catena.engine.cpu_decoder import rows_of_one_source
from catena.engine.cpu_kv_blocks import BLOCK, attend_shared_blocks, pack
from catena.kernels.common.jit import jit
from catena.kernels.common.simd import round_up_to_vector

LAYER = 1


@jit("2", "3", "3", "i2", "i1", "f5", "i2", "2")
def _look(queries, keys, values, entries, begins, blocks, ids, found):  # type: ignore[no-untyped-def]
    n, wide = len(queries), round_up_to_vector(entries.shape[1])
    scores, offsets = np.empty(keys.shape[1] * n * wide, np.float32), np.empty(n * wide, np.int64)
    masses = np.empty(n * keys.shape[1], np.float32)
    attend_shared_blocks(queries, keys, values, entries, begins, blocks, LAYER, ids, scores, offsets, masses, found)


@jit("3", "3", "i1", "3")
def _pack(keys, values, entries, block):  # type: ignore[no-untyped-def]
    pack(keys, values, entries, block)


@jit("1", "i1", "i1", "i", "i", "i1")
def _rows_of_one_source(_, first, sizes, row, high, found):  # type: ignore[no-untyped-def]
    found[0] = rows_of_one_source(first, sizes, row, high)


def looked(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, entries: np.ndarray, begins: np.ndarray
) -> np.ndarray:
    """Whole blocks are packed, each once, and looks taken together; ``queries`` are n h d, keys and values m h d."""
    (n, t), (_, n_heads, d_head) = entries.shape, keys.shape
    ids, kept = np.full((n, t // BLOCK), -1), {}
    for r, begin in enumerate(begins):
        for k in range((t - begin) // BLOCK):
            own = tuple(entries[r, begin + k * BLOCK : begin + (k + 1) * BLOCK])
            ids[r, k] = kept.setdefault(own, len(kept))
    blocks = np.full((len(kept) + 1, LAYER + 1, 2, n_heads, BLOCK * d_head), np.nan, np.float32)
    for own, i in kept.items():
        _pack(keys, values, np.array(own), blocks[i, LAYER])
    found = np.full((n, n_heads * d_head), np.nan, np.float32)
    beside = np.full((n, 3), np.nan, np.float32)  # rows of queries may be wider
    _look(np.hstack((queries.reshape(n, -1), beside)), keys, values, entries, begins, blocks, ids, found)
    return found.reshape(queries.shape)


def expected(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, entries: np.ndarray, begins: np.ndarray
) -> np.ndarray:
    found = []
    for query, row, begin in zip(queries.astype(float), entries, begins, strict=True):
        scores = np.einsum("hd,shd->hs", query, keys[row[begin:]].astype(float)) / np.sqrt(query.shape[1])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        found.append(np.einsum("hs,shd->hd", weights, values[row[begin:]].astype(float)))
    return np.stack(found)


def drawn(n: int, t: int, n_heads: int, d_head: int, shared: list[int], spread: float = 1.0) -> tuple[np.ndarray, ...]:
    """Row ``r`` has ``shared[r]`` positions in common with the row before it."""
    generator = np.random.default_rng([n, t, d_head])
    m = n * t + 3
    queries = spread * generator.normal(size=(n, n_heads, d_head))
    keys, values = generator.normal(size=(2, m, n_heads, d_head))
    entries = generator.permutation(m)[: n * t].reshape(n, t)
    for r in range(1, n):
        entries[r, : shared[r]] = entries[r - 1, : shared[r]]
    return *(x.astype(np.float32) for x in (queries, keys, values)), entries, np.zeros(n, np.int64)


@pytest.mark.parametrize("d_head", [32, 64, 96])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 11, 19])
def test_rows_equal_single_rows(n: int, d_head: int) -> None:
    for t in (1, 31, 32, 33, 64, 71):
        generator = np.random.default_rng(t)
        for shared in ([0] * n, [t - 1] * n, generator.integers(0, t, n).tolist()):
            given = drawn(n, t, 2, d_head, shared)
            assert np.abs(looked(*given) - expected(*given)).max() < 3e-6


def test_rows_may_begin_later_than_others() -> None:
    queries, keys, values, entries, begins = drawn(6, 80, 3, 32, [70] * 6)
    begins[:] = [0, 0, 47, 48, 49, 79]
    given = queries, keys, values, entries, begins
    assert np.abs(looked(*given) - expected(*given)).max() < 3e-6


@pytest.mark.parametrize("d_head", [6, 16, 20])
def test_heads_of_incomplete_panels_attend_without_blocks(d_head: int) -> None:
    queries, keys, values, entries, begins = given = drawn(3, 40, 2, d_head, [30] * 3)
    nothing = np.empty((0, LAYER + 1, 2, 2, BLOCK * d_head), np.float32)
    found = np.full((3, 2 * d_head), np.nan, np.float32)
    _look(queries.reshape(3, -1), keys, values, entries, begins, nothing, np.empty((3, 0), np.int64), found)
    assert np.abs(found.reshape(queries.shape) - expected(*given)).max() < 3e-6


def test_scores_far_apart_neither_overflow_nor_leak() -> None:
    given = drawn(4, 77, 2, 64, [40] * 4, spread=200.0)
    assert np.abs(looked(*given) - expected(*given)).max() < 3e-5


def test_nan_propagates() -> None:
    queries, keys, values, entries, begins = drawn(3, 45, 2, 32, [0] * 3)
    keys[entries[1, 3], 0, 0] = values[entries[2, 40], 1, 5] = np.nan
    found = looked(queries, keys, values, entries, begins)
    assert np.isnan(found[1, 0]).all()
    assert np.isnan(found[2, 1, 5])
    assert np.isnan(found).sum() == 33


def test_rows_of_one_source_attend_together() -> None:
    """A source without positions begins where the next one does."""
    first, sizes, found = np.array([0, 0, 0, 7, 7, 9]), np.array([7, 7, 7, 0, 2, 2]), np.zeros(1, np.int64)
    counted = []
    for row, high in ((0, 6), (0, 2), (3, 6), (5, 6)):
        _rows_of_one_source(np.zeros(1, np.float32), first, sizes, row, high, found)
        counted.append(int(found[0]))
    assert counted == [3, 2, 1, 1]
