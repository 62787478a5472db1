"""Looks of the heads of a row, beside the formula in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from catena.engine.cpu_attention import attend_rows
from catena.kernels.common.jit import jit
from catena.kernels.common.simd import round_up_to_vector


@jit("2", "1", "1", "i1", "i", "i", "i", "i", "2")
def _look(queries, keys, values, offsets, n_kv_heads, d_head, apart, size, found):  # type: ignore[no-untyped-def]
    heads = found.shape[1] // d_head, n_kv_heads, d_head, apart
    room, places = (
        np.empty(len(found) * round_up_to_vector(size), np.float32),
        np.empty(round_up_to_vector(size), np.int64),
    )
    places[:size] = offsets
    attend_rows(queries, keys, values, places, size, heads, room, found)


def looked(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """``queries`` are h d, keys and values m g d for g heads, and ``order`` says which of m positions are looked at."""
    return looked_together(queries[None], keys, values, order)[0]


def looked_together(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The same for queries of n rows."""
    n, (n_kv_heads, d_head) = len(queries), keys.shape[1:]
    rows = queries.reshape(n, -1)
    found, beside = np.full(rows.shape, np.nan, np.float32), np.full((n, 3), np.nan, np.float32)
    offsets = order * n_kv_heads * d_head
    _look(
        np.hstack((rows, beside)), keys.ravel(), values.ravel(), offsets, n_kv_heads, d_head, d_head, len(order), found
    )
    return found.reshape(queries.shape)


def expected(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    each = len(queries) // keys.shape[1]
    keys, values = (np.repeat(x[order].astype(float), each, axis=1) for x in (keys, values))
    scores = np.einsum("hd,shd->hs", queries.astype(float), keys) / np.sqrt(queries.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.einsum("hs,shd->hd", weights / weights.sum(axis=1, keepdims=True), values)


def drawn(d_head: int, size: int, spread: float = 1.0) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(size)
    queries = generator.normal(size=(4, d_head)) * spread
    keys, values = generator.normal(size=(2, size + 5, 2, d_head))
    order = generator.permutation(size + 5)[:size]
    return *(x.astype(np.float32) for x in (queries, keys, values)), order


@pytest.mark.parametrize("d_head", [1, 6, 16, 20, 32, 64, 80])
def test_attention_equals_a_softmax_over_the_given_positions(d_head: int) -> None:
    for size in (1, 2, 7, 8, 9, 15, 16, 17, 40):
        given = drawn(d_head, size)
        assert np.abs(looked(*given) - expected(*given)).max() < 3e-6


@pytest.mark.parametrize("d_head", [6, 64])
def test_rows_with_the_same_positions_equal_single_rows(d_head: int) -> None:
    for size in (1, 9, 17):
        queries, keys, values, order = drawn(d_head, size)
        rows = np.stack([queries, -queries, 2 * queries])
        alone = [looked(one, keys, values, order) for one in rows]
        assert (looked_together(rows, keys, values, order) == np.stack(alone)).all()


@pytest.mark.parametrize("d_head", [6, 64])
def test_scores_far_apart_neither_overflow_nor_leak(d_head: int) -> None:
    given = drawn(d_head, 19, spread=200.0)
    assert np.abs(looked(*given) - expected(*given)).max() < 3e-5


def test_nan_propagates() -> None:
    queries, keys, values, order = drawn(64, 9)
    keys[order[3], 0, 0] = np.nan
    assert np.isnan(looked(queries, keys, values, order)[:2]).all()
    assert np.isfinite(looked(queries, keys, values, order)[2:]).all()
