"""Attention, one pair at a time. Imports nothing of catena."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray


def softmax(scores: Sequence[float], allowed: Sequence[bool]) -> list[float]:
    """Weights over the allowed places; all 0 where none is allowed."""
    exponentials = [math.exp(s) if ok else 0.0 for s, ok in zip(scores, allowed, strict=True)]
    total = sum(exponentials)
    return [e / total if total else 0.0 for e in exponentials]


def attend(
    query: Array, keys: Array, values: Array, allowed: Array, score: Callable[[Array, Array], float]
) -> tuple[Array, Array]:
    """One sequence: query (t, d), keys (s, d), values (s, e), allowed (t, s)."""
    context, weights = [], []
    for q, row in zip(query, allowed, strict=True):
        w = softmax([score(q, k) for k in keys], list(row))
        weights.append(w)
        context.append(sum((w_j * v for w_j, v in zip(w, values, strict=True)), np.zeros(values.shape[1])))
    return np.array(context), np.array(weights)


def multihead(
    query: Array,
    keys: Array,
    allowed: Array,
    n_heads: int,
    weights: dict[str, Array],
    biases: dict[str, Array],
) -> Array:
    """Head by head: the rows of the matrices q, k, v are shared out among the heads in order."""
    size = weights["q"].shape[0] // n_heads
    heads = []
    for head in range(n_heads):
        rows = slice(head * size, (head + 1) * size)
        q, k, v = (
            np.array([weights[name][rows] @ x + biases[name][rows] for x in inputs])
            for name, inputs in (("q", query), ("k", keys), ("v", keys))
        )
        heads.append(attend(q, k, v, allowed, lambda a, b: float(a @ b) / math.sqrt(size))[0])
    return np.hstack(heads) @ weights["o"].T + biases["o"]
