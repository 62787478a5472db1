"""The kernels that a trained tagger uses, in numpy: slow for many tokens, but without Numba."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int32, Int64, UInt64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BEFORE, _BEHIND = np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F)
_NOTHING, _ONE = np.uint64(0), np.uint64(1)


def splitmix64(z: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """64 random bits from each counter."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fill_keys(
    values: UInt64[np.ndarray, "f n"],
    first: Int64[np.ndarray, " s"],
    seeds: UInt64[np.ndarray, " j"],
    atom_first: Int64[np.ndarray, " j1"],
    atom_function: Int64[np.ndarray, " a"],
    atom_offset: Int64[np.ndarray, " a"],
    keys: UInt64[np.ndarray, "n j"],
) -> None:
    """Set the key of each template at each token, as :func:`catena.kernels.features.cpu_keys.fill_keys` does."""
    lengths = np.diff(first)
    low, high = (np.repeat(edge, lengths) for edge in (first[:-1], first[1:]))
    here = np.arange(len(keys))
    for j, seed in enumerate(seeds):
        key = np.full(len(keys), seed)
        for a in range(atom_first[j], atom_first[j + 1]):
            at = here + atom_offset[a]
            value = values[atom_function[a], np.clip(at, 0, max(0, len(keys) - 1))]
            value = np.where(at < low, splitmix64(_BEFORE + (low - at).astype(np.uint64) * _GOLDEN), value)
            value = np.where(at >= high, splitmix64(_BEHIND + (at - high + 1).astype(np.uint64) * _GOLDEN), value)
            is_there = (key != _NOTHING) & (value != _NOTHING)
            key = np.where(is_there, np.maximum(splitmix64(key ^ value), _ONE), _NOTHING)
        keys[:, j] = key


def look_up_keys(keys: UInt64[np.ndarray, "n j"], known: UInt64[np.ndarray, " f"]) -> Int32[np.ndarray, "n j"]:
    """The index of each key among the known ones, -1 if it is not one of them. Time O(f log(n j)), without a table."""
    distinct, places = np.unique(keys, return_inverse=True)
    slots = np.minimum(np.searchsorted(distinct, known), max(0, len(distinct) - 1))
    found = np.flatnonzero(distinct[slots] == known) if len(distinct) else np.zeros(0, np.int64)
    ids = np.full(len(distinct), -1, np.int32)
    ids[slots[found]] = found
    ids[distinct == _NOTHING] = -1
    return ids[places].reshape(keys.shape)


def score_tokens(
    token_first: Int64[np.ndarray, " n1"],
    ids: Int32[np.ndarray, " i"],
    pair_first: Int64[np.ndarray, " f1"],
    pair_tag: Int32[np.ndarray, " p"],
    weights: Float64[np.ndarray, " p"],
    scores: Float64[np.ndarray, "n k"],
) -> None:
    """Set the score of each tag at each token, as :func:`catena.kernels.features.cpu_sums.score_tokens` does."""
    scores[:] = 0.0
    counts = pair_first[ids + 1] - pair_first[ids]
    ends = np.cumsum(counts)
    places = np.repeat(pair_first[ids] - (ends - counts), counts) + np.arange(counts.sum())
    tokens = np.repeat(np.repeat(np.arange(len(scores)), np.diff(token_first)), counts)
    np.add.at(scores, (tokens, pair_tag[places]), weights[places])  # in the order of the kernel
