"""A small batch with the same dense rules for all sentences, up and down with little Python between the loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catena.kernels.common.threads import in_row_blocks
from catena.kernels.common.tiles import round_up
from catena.kernels.pcfg.cpu_small import (
    chart_gradients,
    fill_chart,
    gather_gradients,
    weigh_back,
    weigh_scores,
    weigh_spans,
)

_NO_SPANS = {dtype: np.zeros((1, 1, 1, 1), dtype) for dtype in (np.float32, np.float64)}


@dataclass(frozen=True)
class SmallChart:
    """A small batch after the way up: its scores, and the tables that the way down needs.

    Args:
        scores: words, rules, roots and spans as arrays of one dtype; spans may be a placeholder.
        has_spans: whether spans have scores.
        weights: the weights of words, of rules, and of what spans multiply their sums with, and the exponents of these.
        roots: the weights of roots, and for each sentence its row of them.
        extent: the row of the first span of each width and sentence, and the lengths of the sentences.
        tables: the weights of spans and their exponents, the sums over pairs, and the exponents of these.
    """

    scores: tuple[NDArray[Any], ...]
    has_spans: bool
    weights: tuple[NDArray[Any], ...]
    roots: tuple[NDArray[Any], ...]
    extent: tuple[NDArray[np.int64], NDArray[np.int64]]
    tables: tuple[NDArray[Any], ...]
    log_z: Tensor

    @classmethod
    def solve(
        cls,
        words: Tensor,
        rules: Tensor,
        roots: Tensor,
        spans: Tensor | None,
        lengths: NDArray[np.int64],
    ) -> SmallChart | None:
        """The batch with its log Z; None if it has a weight of 0, or a score of nan or +inf.

        Args:
            words: scores, ``[b, t, p]``.
            rules: scores, ``[1, n, s, s]``.
            roots: scores, ``[1, s]`` or ``[b, s]``.
            spans: scores, ``[b, t, t, n]``.
            lengths: number of words of each sentence, from 0 to ``t``, as an array.
        """
        given = [x.detach() for x in (words, rules[0], roots)]
        given += [] if spans is None else [spans.detach()]
        if words.dtype not in (torch.float32, torch.float64) or any(x.dtype != words.dtype for x in given):
            given = [x.double() for x in given]
        scores = [np.ascontiguousarray(x.numpy()) for x in given]
        if spans is None:
            scores.append(_NO_SPANS[scores[0].dtype.type])
        b, t, p = words.shape
        n, s = rules.shape[1:3]
        m = round_up(n)
        part = round_up(n * max(n, p) + round_up(max(n, p)))
        sizes = lengths.tolist()
        rows = sum(x * (x + 1) // 2 for x in sizes)
        n_words = sum(sizes)
        extent = (np.empty((t, b), np.int64), lengths)
        place = extent[0]
        failed = np.zeros(b, np.bool_)
        word_weights = np.empty((n_words, round_up(p)))
        shift = np.empty(b)
        weights = np.empty((n, s * s))
        steepest = np.empty(n)
        root_weights = np.empty(scores[2].shape)
        by_pairs = np.empty((n * n, m))
        by_words = np.zeros((p, 3 * part))
        weigh_scores(
            *scores[:3], extent[1], place, word_weights, shift, weights, steepest, root_weights, by_pairs, by_words,
            failed,
        )  # fmt: skip
        own = np.empty((1 if spans is None else rows, n))
        own_e = np.empty(len(own), np.int64)
        weigh_spans(scores[3], spans is not None, steepest, extent[1], place, own, own_e, failed)
        if failed[0]:
            return None
        root_rows = np.arange(b) if len(root_weights) > 1 else np.zeros(b, np.int64)
        longer = sum(max(x - 3, 0) * (x - 2) // 2 for x in sizes)
        chart = np.empty((rows, m))
        e = np.empty(rows, np.int64)
        pairs = np.empty((longer, round_up(n * n + m - n)))
        most = np.empty(rows, np.int64)
        products = np.empty((n_words, 3 * part))
        log_z = np.empty(b)
        fixed = (word_weights, by_pairs, by_words, own, own_e, root_weights, root_rows, shift, *extent)
        results = (chart, e, pairs, most, products, log_z, failed)
        in_row_blocks(lambda low, high: fill_chart(*fixed, low, high, *results), b, rows * n**2 * (n + t))
        if failed.any():
            return None
        return cls(
            tuple(scores), spans is not None, (word_weights, weights, own, own_e), (root_weights, root_rows), extent,
            (chart, e, pairs, most), torch.from_numpy(log_z),
        )  # fmt: skip

    def gradients(self, scale: Tensor) -> list[Tensor | None]:
        """The gradients of log Z by words, rules, roots and spans, times ``scale`` for each sentence."""
        word_weights, weights, own, own_e = self.weights
        chart, e, pairs, most = self.tables
        n = len(weights)
        b, _, p = self.scores[0].shape
        word_row = word_weights.shape[1]
        size = 3 * round_up(n * max(n, p) + round_up(max(n, p)))
        pair_row = pairs.shape[1]
        down_left = np.zeros((n, pair_row))
        down_right = np.zeros((n, pair_row))
        down_words = np.zeros((p, size))
        back_words = np.zeros((size, word_row))
        weigh_back(weights, down_left, down_right, down_words, back_words)
        scales = np.ascontiguousarray(scale.detach().double().numpy())
        gradients = np.zeros(chart.shape)
        onward = np.zeros(chart.shape)
        by_words = np.zeros(word_weights.shape)
        by_products = np.zeros((len(word_weights), size))
        by_roots = np.empty((b, self.roots[0].shape[1]))
        fixed = (word_weights, down_left, down_right, down_words, back_words, own, own_e, *self.roots, scales)
        results = (chart, e, most, gradients, onward, by_words, by_products, by_roots)
        extent = self.extent
        in_row_blocks(
            lambda low, high: chart_gradients(*fixed, *extent, low, high, *results),
            b,
            2 * len(chart) * n**2 * len(extent[0]),
        )
        found = [np.empty_like(x) for x in self.scores[:3]]
        found.append(np.zeros_like(self.scores[3]))
        gather_gradients(
            *found, self.has_spans, word_weights, weights, chart, pairs, gradients, onward, by_words, by_products,
            by_roots, *extent,
        )  # fmt: skip
        words, rules, roots, spans = (torch.from_numpy(x) for x in found)
        return [words, rules[None], roots, spans if self.has_spans else None]
