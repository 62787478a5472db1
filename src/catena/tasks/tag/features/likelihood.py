r"""The penalized log-likelihood of a tagger on features, and its gradient, over all sentences.

.. math::  L(w) = \sum_s \big( \log Z_s(w) - w \cdot \phi(x_s, y_s) \big) + \lambda_2 \|w\|_2^2

Z is over all tag sequences (``crf``), or a product over tokens of sums over tags, where each token is independent
(``softmax``) or follows the gold tag of the previous token (``memm``; McCallum et al. 2000). If some tags of a sentence
are not known, a CRF's second term is the log of the sum over all sequences that agree with the known tags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64, Int32, Int64

from catena.errors import DataError
from catena.kernels.chain.cpu import normalize_transitions
from catena.kernels.chain.cpu_logs import log_rows
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.common.vector_math import add_times, dot
from catena.kernels.features.cpu_sums import (
    count_tags,
    score_tokens,
    spread_tokens,
    sum_chains,
    sum_stepped_chains,
    sum_tokens,
)
from catena.tasks.tag.features.dictionary import FeatureIds
from catena.tasks.tag.features.model import WeightLayout, pair_counts

_SummedOver = Literal["crf", "softmax", "memm"]

_MOST_COUNTS = 1 << 27
"""Maximum number of floats in the counts of all threads together; above it, fewer threads are used."""
_ALWAYS_A_THREAD = 1 << 60


@dataclass(eq=False)
class Sums:
    """Sums of log Z over sentences, and expected counts laid out like the weights."""

    total: float
    counts: Float64[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class _Table:
    """Transition scores in the layout of the loops."""

    entry: np.ndarray
    end: np.ndarray
    moves: np.ndarray
    matrix: np.ndarray
    matrix_t: np.ndarray

    @classmethod
    def of(cls, transitions: np.ndarray, start: np.ndarray, end: np.ndarray) -> _Table:
        k = len(start)
        entry = np.empty((2, k))
        entry[1] = start
        moves, matrix, matrix_t = (np.empty((1, k, k)) for _ in range(3))
        normalize_transitions(np.ascontiguousarray(transitions)[None], entry, moves, matrix, matrix_t)
        return cls(entry, end[None].copy(), moves, matrix, matrix_t)


def expectations(
    data: FeatureIds,
    tags: Int32[np.ndarray, " m"],
    layout: WeightLayout,
    vector: Float64[np.ndarray, " n"],
    over: _SummedOver,
    shards: list[Int64[np.ndarray, "..."]],
    held: bool = False,
) -> Sums:
    """Sums of log Z and expected counts of sentences.

    Args:
        data: the features of the sentences.
        tags: the tag of each token, -1 if it is not known.
        layout: the layout of the weights.
        vector: the weights.
        over: the structure, which defines Z.
        shards: the sentences of each thread.
        held: sum only over sequences with the known tags; for ``crf``.
    """
    weights, transitions = layout.features(vector), layout.transitions(vector)
    start, end = layout.start(vector).copy(), layout.end(vector).copy()
    counts = [np.zeros(layout.size) for _ in shards]
    log_z, exact = np.zeros(data.sentences), np.ones(data.sentences, bool)
    given = (data.token_first, data.ids, data.first)
    pairs = (layout.pair_first, layout.pair_tag, weights)
    table = _Table.of(transitions, start, end)

    def sum_shard(number: int) -> None:
        order, into = shards[number], counts[number]
        parts = (layout.features(into), layout.transitions(into), layout.start(into))
        if over == "crf" and layout.stepped:
            edges = (transitions, start, end[None].copy())
            sum_stepped_chains(
                *given, order, 0, len(order), tags, held, *pairs, *edges, log_z, exact, *parts, layout.end(into)
            )
        elif over == "crf":
            matrices = (table.entry, table.end, table.moves, table.matrix, table.matrix_t)
            sum_chains(
                *given, order, 0, len(order), tags, held, *pairs, *matrices, log_z, exact, *parts, layout.end(into)
            )
        else:
            sum_tokens(*given, order, 0, len(order), tags, over == "memm", *pairs, transitions, start, log_z, *parts)

    def sum_shards(low: int, high: int) -> None:
        for number in range(low, high):
            sum_shard(number)

    in_row_blocks(sum_shards, len(shards), _ALWAYS_A_THREAD)
    for s in np.flatnonzero(~exact):
        _sum_in_logs(data, tags, layout, vector, int(s), held, log_z, counts[0])
    for more in counts[1:]:
        counts[0] += more
    chosen = np.concatenate(shards) if shards else np.zeros(0, np.int64)
    return Sums(float(log_z[chosen].sum()), counts[0])


def _sum_in_logs(
    data: FeatureIds,
    tags: Int32[np.ndarray, " m"],
    layout: WeightLayout,
    vector: Float64[np.ndarray, " n"],
    s: int,
    held: bool,
    log_z: Float64[np.ndarray, " s"],
    counts: Float64[np.ndarray, " n"],
) -> None:
    """Add one sentence in log space, for scores whose exponentials overflow."""
    low, high, k = int(data.first[s]), int(data.first[s + 1]), layout.k
    n = high - low
    wide = np.zeros((1, n, layout.width))
    pairs = (layout.pair_first, layout.pair_tag)
    score_tokens(data.token_first[low : high + 1].copy(), data.ids, *pairs, layout.features(vector), wide[0])
    scores = wide[..., :k].copy()
    if held:
        known = tags[low:high] >= 0
        others = np.arange(k) != tags[low:high, None]
        scores[0][known[:, None] & others] = -np.inf
    total, chances, alpha = np.zeros(1), np.zeros((1, n, k)), np.zeros((1, n, k))
    edges = (layout.start(vector)[None].copy(), layout.end(vector)[None].copy())
    tables = (
        layout.transitions(vector) + wide[0, :, k:].reshape(-1, k, k)
        if layout.stepped
        else (layout.transitions(vector)[None].copy())
    )
    expected = np.zeros(tables.shape)
    each = (1, int(layout.stepped), 1)
    log_rows(scores, *edges, tables, *each, np.array([n]), np.ones(1), total, alpha, chances, expected)
    log_z[s] = total[0]
    use = np.concatenate((chances, expected.reshape(1, n, -1)), axis=2) if layout.stepped else chances
    spread_tokens(data.token_first, data.ids, *pairs, low, use, layout.features(counts))
    layout.transitions(counts)[:] += expected.sum(0)
    if n:
        layout.start(counts)[:] += chances[0, 0]
        layout.end(counts)[:] += chances[0, -1]


def split_shards(data: FeatureIds, sentences: Int64[np.ndarray, " c"], n: int) -> list[Int64[np.ndarray, "..."]]:
    """Split sentences among ``n`` threads, long and short ones for each, with four of similar length together."""
    order = sentences[np.argsort(-data.lengths[sentences], kind="stable")]
    groups = np.arange(len(order)) // 4
    return [order[groups % n == number] for number in range(n)]


@dataclass(eq=False)
class Likelihood:
    """Negative log-likelihood of tags given features, with an L2 penalty.

    Called with weights, it returns the value and the gradient.

    Args:
        data: the features of the sentences.
        tags: the tag of each token, -1 if it is not known.
        layout: the layout of the weights.
        over: the structure, which defines the normalization.
        l2: weight of the sum of the squared weights.
    """

    data: FeatureIds
    tags: Int32[np.ndarray, " m"]
    layout: WeightLayout
    over: _SummedOver = "crf"
    l2: float = 0.0
    threads: int = field(default_factory=torch.get_num_threads)

    def __post_init__(self) -> None:
        data, n = self.data, max(1, min(self.threads, _MOST_COUNTS // max(1, self.layout.size)))
        sentence_of = np.repeat(np.arange(data.sentences), data.lengths)
        known = np.bincount(sentence_of[self.tags >= 0], minlength=data.sentences)
        chosen = np.flatnonzero(known > 0)
        if not len(chosen):
            raise DataError("No token of the training sentences has a tag. Add tags to the training file.")
        partly = np.flatnonzero((known > 0) & (known < data.lengths)) if self.over == "crf" else chosen[:0]
        self.items = len(chosen)
        self._shards = split_shards(data, chosen, n)
        self._partly = split_shards(data, partly, n) if len(partly) else []
        self._unused = np.flatnonzero(~self.layout.in_use)
        self._observed = self._count(np.setdiff1d(chosen, partly))

    def _count(self, sentences: Int64[np.ndarray, " c"]) -> Float64[np.ndarray, " n"]:
        """The count of each weight under the gold tags of fully tagged sentences, or of single tokens."""
        data, layout = self.data, self.layout
        tags = self.tags
        if len(sentences) < data.sentences:
            wanted = np.zeros(data.sentences, bool)
            wanted[sentences] = True
            tags = np.where(np.repeat(wanted, data.lengths), tags, -1).astype(np.int32)
        counts = np.zeros(layout.size)
        count_tags(
            data.token_first, data.ids, tags, layout.pair_first, layout.pair_tag, data.first, layout.k,
            self.over == "memm",
            layout.features(counts),
        )  # fmt: skip
        if self.over == "softmax":
            return counts
        layout.transitions(counts)[:] = pair_counts(data.first, tags, layout.k)
        some = sentences[data.lengths[sentences] > 0]
        firsts, lasts = tags[data.first[some]], tags[data.first[some + 1] - 1]
        np.add.at(layout.start(counts), firsts[firsts >= 0], 1.0)
        if self.over == "crf":
            np.add.at(layout.end(counts), lasts[lasts >= 0], 1.0)
        return counts

    def __call__(self, vector: Float64[np.ndarray, " n"]) -> tuple[float, Float64[np.ndarray, " n"]]:
        given = (self.data, self.tags, self.layout, vector, self.over)
        summed = expectations(*given, self._shards)
        value = summed.total - dot(self._observed, vector) + self.l2 * dot(vector, vector)
        gradient = summed.counts
        gradient -= self._observed
        if self._partly:
            held = expectations(*given, self._partly, held=True)
            value -= held.total
            gradient -= held.counts
        add_times(gradient, 2 * self.l2, vector)
        gradient[self._unused] = 0.0
        return value, gradient
