"""Reference implementation of the kernels in numpy, which is also faster for a few texts: Numba is not imported."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CROSS_ENTROPY, HINGE, SQUARED_ERROR, PERCEPTRON = 0, 1, 2, 3
BINARY, COUNTS, LOG = 0, 1, 2
_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def trie_keys(parents: np.ndarray, lasts: np.ndarray) -> np.ndarray:
    """The keys of n-grams: the id of the first n - 1 symbols and the last symbol, both plus 1."""
    high, low = (array.astype(np.int64) + 1 for array in (parents, lasts))
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def look_up_ngrams(
    rows: Sequence[np.ndarray], singles: Sequence[np.ndarray], order: int, keys: np.ndarray, ids: np.ndarray
) -> list[list[int]]:
    """The ids of the listed n-grams of each text, ascending, as often as they occur.

    Args:
        rows, singles: the symbols of each text, and further ones that form no n-grams. Symbols below 0 are unknown.
        order: maximum length of n-grams.
        keys: the keys of the n-grams, ascending.
        ids: the id of each key.
    """

    def find(parent: int, symbol: int) -> int:
        key = np.uint64((parent + 1) << 32 | symbol + 1)
        at = int(np.searchsorted(keys, key))
        return int(ids[at]) if symbol >= 0 and at < len(keys) and keys[at] == key else -1

    found = []
    for symbols, more in zip(rows, singles, strict=True):
        own = [node for symbol in more.tolist() if (node := find(-1, symbol)) >= 0]
        for start in range(len(symbols)):
            node = -1
            for symbol in symbols[start : start + order].tolist():
                if (node := find(node, symbol)) < 0:
                    break
                own.append(node)
        found.append(sorted(own))
    return found


def mix(value: int) -> int:
    """The hash of an integer of 64 bits: the output function of splitmix64 (Steele et al. 2014)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return value ^ (value >> 31)


def hash_ngrams(rows: Sequence[np.ndarray], singles: Sequence[np.ndarray], order: int, buckets: int) -> list[list[int]]:
    """As :func:`look_up_ngrams`, where the id of an n-gram is its hash modulo ``buckets``."""
    found = []
    for symbols, more in zip(rows, singles, strict=True):
        own = [mix(_GOLDEN ^ (symbol & 0xFFFFFFFF)) % buckets for symbol in more.tolist()]
        for start in range(len(symbols)):
            key = 0
            for symbol in symbols[start : start + order].tolist():
                key = mix(key ^ (symbol & 0xFFFFFFFF))
                own.append(key % buckets)
        found.append(sorted(own))
    return found


def count_values(row: np.ndarray, values: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct features of a row, and the value of each."""
    ids, counts = np.unique(row, return_counts=True)
    return ids, {BINARY: np.ones(len(ids)), COUNTS: counts.astype(float), LOG: np.log1p(counts)}[values]


def score_texts(
    ids: np.ndarray, first: np.ndarray, values: int, weights: np.ndarray, bias: np.ndarray, scores: np.ndarray
) -> None:
    """``scores[i, q]`` is the score of class q for row i."""
    for i in range(len(first) - 1):
        own, x = count_values(ids[first[i] : first[i + 1]], values)
        scores[i] = bias + x.astype(weights.dtype) @ weights[own]


def add_products(
    ids: np.ndarray, first: np.ndarray, values: np.ndarray, weights: np.ndarray, scores: np.ndarray
) -> None:
    """Add X W to ``scores``; row i of X has ``values[j]`` at ``ids[j]`` for j from ``first[i]`` to ``first[i + 1]``."""
    for i in range(len(first) - 1):
        own = slice(first[i], first[i + 1])
        scores[i] += values[own].astype(weights.dtype) @ weights[ids[own]]


def loss_gradient(loss: int, scores: np.ndarray, gold: int, smoothing: float) -> tuple[float, np.ndarray]:
    """The loss of a text with one gold class, and its gradient with respect to the scores."""
    k = len(scores)
    one = np.eye(k)
    if loss == HINGE:
        rival = max((j for j in range(k) if j != gold), key=lambda j: scores[j])
        gap = 1 + scores[rival] - scores[gold]
        return max(0.0, gap), (one[rival] - one[gold]) * (gap > 0)
    if loss == PERCEPTRON:
        guess = int(np.argmax(scores))
        return scores[guess] - scores[gold], one[guess] - one[gold]
    target = (1 - smoothing) * one[gold] + smoothing / k
    log_probs = scores - scores.max() - math.log(np.exp(scores - scores.max()).sum())
    p = np.exp(log_probs)
    if loss == CROSS_ENTROPY:
        return float(-target @ log_probs), p - target
    return float(0.5 * ((p - target) ** 2).sum()), p * ((p - target) - p @ (p - target))


def multilabel_gradient(loss: int, scores: np.ndarray, marks: np.ndarray) -> tuple[float, np.ndarray]:
    """As :func:`loss_gradient` for a binary decision for each class; ``marks`` is 1 for gold classes."""
    sign = np.where(marks > 0, 1.0, -1.0)
    if loss == HINGE:
        gap = np.maximum(0, 1 - sign * scores)
        return float(gap.sum()), -sign * (gap > 0)
    if loss == PERCEPTRON:
        wrong = (scores > 0) != (marks > 0)
        return float((-sign * scores * wrong).sum()), -sign * wrong
    p = 1 / (1 + np.exp(-scores))
    if loss == CROSS_ENTROPY:
        return float(np.logaddexp(0, -sign * scores).sum()), p - marks
    return float(0.5 * ((p - marks) ** 2).sum()), (p - marks) * p * (1 - p)
