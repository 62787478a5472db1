"""The k best trees over scores of spans, ranked by their best binary forms.

The binary forms of a tree differ only in spans without a phrase, and a flat tree of many words has too many of them to
list. So every span keeps its k best *sets of phrases*, each with its best form: equal sets are merged when two parts
are joined. A set is identified by the sum of random keys of its phrases.

Time O(n³ k log k) for n words, with one numpy call per span.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from catena.numerics import NEG_INF
from catena.tasks.parse.constituency.span.trees import NO_PHRASE

_Spans = list[tuple[int, int, int]]
"""(first, last, label) of the phrases of a tree."""


def best_trees(scores: Float[np.ndarray, "n n q"], k: int) -> list[_Spans]:
    """The ``k`` trees whose best binary forms score highest, best first; fewer if there are not as many.

    ``scores[i, j, q]`` is the score of label ``q`` over the words ``i`` to ``j``, where label 0 means no phrase.
    """
    chart = _Chart(np.asarray(scores, np.float64), k)
    n = len(scores)
    for width in range(n):
        for first in range(n - width):
            chart.fill(first, first + width)
    return [list(chart.phrases(0, n - 1, rank)) for rank in range(k) if chart.scores[0, n - 1, rank] > NEG_INF]


class _Chart:
    """For each span, its k best sets of phrases: their scores, their keys, and their backpointers."""

    def __init__(self, labels: Float[np.ndarray, "n n q"], k: int) -> None:
        n = len(labels)
        self.labels, self.k = labels, k
        self.marks = np.random.default_rng(0).integers(1, 1 << 63, labels.shape, dtype=np.uint64)
        self.marks[..., NO_PHRASE] = 0
        self.scores = np.full((n, n, k), NEG_INF)
        self.keys = np.zeros((n, n, k), np.uint64)
        self.ways = np.full((n, n, k, 4), -1, np.int32)
        """The label, the last word of the left part, and the ranks of both parts; -1 for the parts of a word."""
        # In two sorted lists, the pair of ranks (a, b) has (a + 1)(b + 1) - 1 pairs before it, all of other sets.
        fitting = k // (np.arange(k) + 1)
        self.first = np.repeat(np.arange(k), fitting)
        self.second = np.concatenate([np.arange(count) for count in fitting])

    def fill(self, i: int, j: int) -> None:
        """Choose the best sets of the span from ``i`` to ``j``, whose parts are filled already."""
        word = np.zeros(1), np.zeros(1, np.uint64), np.full((1, 3), -1)
        scores, keys, parts = self._joined(i, j) if j > i else word
        labels = np.argsort(-self.labels[i, j], kind="stable")
        fits = (self.first < len(scores)) & (self.second < len(labels))
        inner, label = self.first[fits], labels[self.second[fits]]
        totals = scores[inner] + self.labels[i, j, label]
        best = np.argsort(-totals, kind="stable")[: self.k]
        m = len(best)
        self.scores[i, j, :m] = totals[best]
        self.keys[i, j, :m] = keys[inner[best]] + self.marks[i, j, label[best]]
        self.ways[i, j, :m] = np.concatenate((label[best, None], parts[inner[best]]), axis=1)

    def _joined(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray, Int[np.ndarray, "m 3"]]:
        """The best sets of two adjacent parts, without duplicates: scores, keys, and the parts."""
        left, right = slice(i, j), slice(i + 1, j + 1)
        totals = (self.scores[i, left][:, self.first] + self.scores[right, j][:, self.second]).ravel()
        keys = (self.keys[i, left][:, self.first] + self.keys[right, j][:, self.second]).ravel()
        order = np.argsort(-totals, kind="stable")
        once = np.sort(np.unique(keys[order], return_index=True)[1])[: self.k]
        best = order[once]
        split, pair = np.divmod(best, len(self.first))
        return totals[best], keys[best], np.stack((i + split, self.first[pair], self.second[pair]), axis=1)

    def phrases(self, i: int, j: int, rank: int) -> Iterator[tuple[int, int, int]]:
        """The phrases of a set."""
        waiting = [(i, j, rank)]
        while waiting:
            first, last, rank = waiting.pop()
            label, split, left, right = self.ways[first, last, rank].tolist()
            if label != NO_PHRASE:
                yield first, last, label
            if split >= 0:
                waiting += [(split + 1, last, right), (first, split, left)]
