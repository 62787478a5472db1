"""Looks of the heads of a row, beside the formula in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from catena.kernels.compiled import compiled
from catena.kernels.looks import look, rounded_up


@compiled("1", "1", "1", "i1", "i", "i", "i", "i", "1")
def _look(queries, keys, values, offsets, n_kv_heads, d_head, apart, size, found):  # type: ignore[no-untyped-def]
    heads = queries.shape[0] // d_head, n_kv_heads, d_head, apart
    room, places = np.empty(rounded_up(size), np.float32), np.empty(rounded_up(size), np.int64)
    places[:size] = offsets
    look(queries, keys, values, places, size, heads, room, found)


def looked(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """``queries`` are h d, keys and values m g d for g heads, and ``order`` says which of m positions are looked at."""
    n_kv_heads, d_head = keys.shape[1:]
    found = np.full(queries.size, np.nan, np.float32)
    offsets = order * n_kv_heads * d_head
    _look(queries.ravel(), keys.ravel(), values.ravel(), offsets, n_kv_heads, d_head, d_head, len(order), found)
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
def test_a_look_is_a_softmax_over_the_positions_it_was_given(d_head: int) -> None:
    for size in (1, 2, 7, 8, 9, 15, 16, 17, 40):
        given = drawn(d_head, size)
        assert np.abs(looked(*given) - expected(*given)).max() < 3e-6


@pytest.mark.parametrize("d_head", [6, 64])
def test_scores_far_apart_neither_overflow_nor_leak(d_head: int) -> None:
    given = drawn(d_head, 19, spread=200.0)
    assert np.abs(looked(*given) - expected(*given)).max() < 3e-5


def test_what_is_no_number_is_not_hidden() -> None:
    queries, keys, values, order = drawn(64, 9)
    keys[order[3], 0, 0] = np.nan
    assert np.isnan(looked(queries, keys, values, order)[:2]).all()
    assert np.isfinite(looked(queries, keys, values, order)[2:]).all()
