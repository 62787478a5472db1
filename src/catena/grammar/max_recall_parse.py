r"""The tree with the largest expected number of correct brackets, an alternative to the most probable parse.

.. math::  \hat y = \arg\max_y \sum_{(q, i, j) \in y} \left(E[q, i, j] - \theta\right)

over all sets of non-crossing brackets (Goodman 1996, "labeled recall"; the price ``θ`` of a bracket trades recall for
precision). A span may have several labels, one above the other, or none: then its children attach to its parent.

Independent of rules and words.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from catena.errors import DataError, ShapeError

_Bracket = tuple[int, int, int]
"""First word, the word after the last, and label."""


def expected_brackets(counts: Float[np.ndarray, "t u q"], price: float = 0.5) -> list[_Bracket]:
    """Return the brackets of the best tree, outer before inner, those of one span by decreasing expectation.

    Args:
        counts: ``counts[i, j, q]`` is the expected number of labels ``q`` over the words from ``i`` up to ``j``.
        price: least value of a bracket, from 0 to 1. Low prices favor recall, high prices precision.
    """
    t = counts.shape[0]
    if counts.shape[1] != t + 1:
        raise ShapeError(f"counts must have axes [t, t + 1, q], got shape {list(counts.shape)}. Reshape it.")
    if not 0 <= price <= 1:
        raise DataError(f"price must be between 0 and 1, got {price}. Use 0.5.")
    if t == 0:
        return []
    gains = np.maximum(counts - price, 0.0).sum(-1)
    splits = _splits(gains)
    found: list[_Bracket] = []
    waiting = [(0, t)]
    while waiting:
        i, j = waiting.pop()
        here = [q for q in np.argsort(-counts[i, j], kind="stable").tolist() if counts[i, j, q] > price]
        found += [(i, j, q) for q in here]
        if j > i + 1:
            k = int(splits[i, j])
            waiting += [(k, j), (i, k)]
    return found


def _splits(gains: Float[np.ndarray, "t u"]) -> np.ndarray:
    """Return the split of the best tree over each span. Time O(t³)."""
    t = gains.shape[0]
    best, splits = gains.copy(), np.zeros((t, t + 1), np.int64)
    for width in range(2, t + 1):
        for i in range(t - width + 1):
            j = i + width
            parts = best[i, i + 1 : j] + best[i + 1 : j, j]
            k = int(np.argmax(parts))
            splits[i, j] = i + 1 + k
            best[i, j] += parts[k]
    return splits


def stack_labels(brackets: list[_Bracket], above: Callable[[int, int], float]) -> list[_Bracket]:
    """Return the brackets with the labels of each span in their most frequent order from top to bottom.

    Args:
        brackets: the result of :func:`expected_brackets`.
        above: ``above(p, q)`` is how often label ``p`` is directly above ``q`` over the same words.
    """
    result: list[_Bracket] = []
    at = 0
    while at < len(brackets):
        end = at
        while end < len(brackets) and brackets[end][:2] == brackets[at][:2]:
            end += 1
        labels = [q for _, _, q in brackets[at:end]]
        while labels:
            top = max(labels, key=lambda p: sum(above(p, q) - above(q, p) for q in labels))
            labels.remove(top)
            result.append((*brackets[at][:2], top))
        at = end
    return result
