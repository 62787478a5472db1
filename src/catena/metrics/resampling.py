"""Sums of statistics over resampled or swapped examples, in blocks of resamples to bound memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError

BLOCK = 4_000_000
"""Maximum number of values in memory."""


def drawn_examples(n: int, resamples: int, rng: np.random.Generator) -> Iterator[Int[np.ndarray, "r n"]]:
    """Blocks of resamples: ``ids[i]`` are n of n examples, sampled with replacement."""
    rows = max(1, BLOCK // n)
    for start in range(0, resamples, rows):
        yield rng.integers(0, n, size=(min(rows, resamples - start), n))


def bootstrap_sums(
    statistics: Float[np.ndarray, "n s"], resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "r s"]:
    """``sums[i]`` is the sum of the statistics over the i-th resample. Time O(resamples n s)."""
    n = len(statistics)
    blocks = []
    for ids in drawn_examples(n, resamples, rng):
        flat = (ids + n * np.arange(len(ids))[:, None]).ravel()
        times = np.bincount(flat, minlength=ids.size).reshape(ids.shape)  # how often each example was sampled
        blocks.append(times.astype(np.float64) @ statistics)
    return np.concatenate(blocks)


def swapped_sums(
    first: Float[np.ndarray, "n s"],
    second: Float[np.ndarray, "n s"],
    shuffles: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "r s"]:
    """The change of the first system's sums if the statistics of each example are swapped with probability 1/2."""
    n = len(first)
    rows = max(1, BLOCK // max(n, 1))
    blocks = []
    for start in range(0, shuffles, rows):
        coins = rng.random((min(rows, shuffles - start), n)) < 0.5
        blocks.append(coins.astype(np.float64) @ (second - first))
    return np.concatenate(blocks)


def all_swapped_sums(first: Float[np.ndarray, "n s"], second: Float[np.ndarray, "n s"]) -> Float[np.ndarray, "r s"]:
    """The change of the first system's sums for each of the 2^n swaps. The first one swaps nothing."""
    n = len(first)
    coins = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return coins.astype(np.float64) @ (second - first)


def check_draws(n: int, draws: int, level: float) -> None:
    """Raise an error if there are no examples, too few draws, or an invalid level."""
    if n < 1:
        raise DataError("Resampling needs at least one example, got none. Pass an example.")
    if draws < 1:
        raise ValueError(f"The number of resamples must be at least 1, got {draws}. Use 1000.")
    check_level(level)


def check_level(level: float) -> None:
    """Raise ValueError for a level that is not between 0 and 1, such as 95."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}. Use 0.95.")
