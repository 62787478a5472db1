"""Sequences of symbols with or without a fixed pattern: keyword spotting without sound.

The negatives are hard: each has the pattern with one symbol changed, at a random position of the pattern. A network
whose receptive field covers f of the k symbols, pooled by the maximum over time, sees the change with probability f / k
and so classifies at most the fraction (1 + f / k) / 2 correctly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from catena.errors import DataError
from catena.randomness import Randomness


class HiddenPatterns(NamedTuple):
    """Symbols, whether each row has the pattern, and where the pattern (or its changed copy) begins."""

    symbols: Int64[np.ndarray, "n t"]
    labels: Bool[np.ndarray, " n"]
    starts: Int64[np.ndarray, " n"]


def hide_patterns(
    n: int, length: int, pattern: tuple[int, ...], n_symbols: int = 8, *, n_after: int | None = None, seed: int = 0
) -> HiddenPatterns:
    """``n`` rows of random symbols with the pattern in every second one, and a changed copy in the others.

    Args:
        n: number of rows.
        length: symbols in a row.
        pattern: the hidden symbols.
        n_symbols: symbols are from 0 to ``n_symbols - 1``.
        n_after: number of symbols after the pattern; random if None.
        seed: the seed.
    """
    k = len(pattern)
    if length < k + (n_after or 0):
        raise DataError(f"length must be at least {k + (n_after or 0)}, got {length}. Use a larger one.")
    rng = Randomness(seed).numpy("hidden patterns")
    labels = np.arange(n) % 2 == 0
    starts = np.full(n, length - k - n_after) if n_after is not None else rng.integers(0, length - k + 1, n)
    symbols = np.stack([_make_row(length, pattern, n_symbols, labels[i], int(starts[i]), rng) for i in range(n)])
    return HiddenPatterns(symbols, labels, starts)


def _make_row(
    length: int, pattern: tuple[int, ...], n_symbols: int, positive: np.bool_, start: int, rng: np.random.Generator
) -> Int64[np.ndarray, " t"]:
    while True:
        row = rng.integers(0, n_symbols, length)
        row[start : start + len(pattern)] = pattern
        if not positive:
            at = start + int(rng.integers(len(pattern)))
            row[at] = (row[at] + rng.integers(1, n_symbols)) % n_symbols
        if _count(row, pattern) == int(positive):
            return row


def _count(row: Int64[np.ndarray, " t"], pattern: tuple[int, ...]) -> int:
    windows = np.lib.stride_tricks.sliding_window_view(row, len(pattern))
    return int((windows == pattern).all(axis=1).sum())
