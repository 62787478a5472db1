"""Dense rules: products of pairs of symbols, summed over splits, times a matrix of all rules.

A split with a single word on one side needs no pairs. Its preterminals are multiplied into the rules once for
each word, not once for each span, and what remains is a small matrix for each word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.pcfg_chart import ChartLayout, PCFGChart, PCFGProblem, PCFGRules, scale_by_max
from catena.kernels.pcfg_loops import add_words, backward_words, pair_spans, pairs_back


class DenseRules(PCFGRules):
    """``rules[g, a, b, c]``; all the matrices here have the parent ``a`` on their last axis."""

    def __init__(self, problem: PCFGProblem, layout: ChartLayout, signs_only: bool = False) -> None:
        (rules,) = problem.rules
        g, self.n, self.s = rules.shape[:3]
        self.layout, self.p = layout, self.s - self.n
        if signs_only:
            weights, self.steepest = (rules > -torch.inf).double().flatten(2), torch.zeros(rules.shape[:2]).double()
        else:
            weights, self.steepest = scale_by_max(rules.flatten(2))
        self.weights, n = weights.view(rules.shape), self.n
        by_parts = self.weights.permute(0, 2, 3, 1)
        self.spans = by_parts[:, :n, :n].reshape(g, n * n, n)
        self.left = by_parts[:, n:, :n].reshape(g, self.p, n * n)
        self.right = by_parts[:, :n, n:].transpose(1, 2).reshape(g, self.p, n * n)
        self.both = by_parts[:, n:, n:].reshape(g, self.p, self.p * n)

    def begin(self, chart: PCFGChart) -> None:
        words, n, layout = chart.words, self.n, self.layout
        self.word_left = layout.times(0, words, self.left).view(-1, n, n)
        self.word_right = layout.times(0, words, self.right).view(-1, n, n)
        self.word_both = layout.times(0, words, self.both).view(-1, self.p, n)
        tensors = (chart.chart, words, chart.e, self.word_left, self.word_right, self.word_both)
        arrays = [x.numpy() for x in tensors]
        self.for_words = (*arrays, layout.place, layout.lengths)
        self.for_spans = (arrays[0], arrays[2], layout.place, layout.lengths)

    def sums(self, chart: PCFGChart, w: int) -> tuple[Tensor, Any]:
        pairs, most = self._pairs(w)
        rows = self.layout.blocks[w][1]
        sums = self.layout.times(w, pairs, self.spans) if w >= 3 else torch.zeros(rows, self.n, dtype=torch.float64)
        fixed, result = self.for_words, sums.numpy()
        self.layout.each(lambda low, high: add_words(*fixed, w, low, high, most, result), rows * self.n**2 * 2)
        return sums, most

    def closed(self, chart: PCFGChart, w: int) -> None:
        """Nothing is kept of a span but its weights."""

    def begin_back(self, chart: PCFGChart) -> None:
        self.begin(chart)
        self.by_spans, self.spans_back = torch.zeros_like(self.spans), self.spans.transpose(1, 2)
        self.by_word_left, self.by_word_right = torch.zeros_like(self.word_left), torch.zeros_like(self.word_right)
        self.by_word_both = torch.zeros_like(self.word_both)
        tensors = (chart.gradients, chart.by_words, self.by_word_left, self.by_word_right, self.by_word_both)
        self.results = [x.numpy() for x in tensors]

    def exponents(self, chart: PCFGChart, w: int) -> Any:
        self.pairs, self.most = self._pairs(w)
        return self.most

    def back(self, chart: PCFGChart, w: int, onward: Tensor) -> None:
        layout, rows, n, most, gradients = self.layout, self.layout.blocks[w][1], self.n, self.most, self.results[0]
        if w >= 3:
            layout.add_product(w, self.pairs, onward, self.by_spans)
            by_pairs = layout.times(w, onward, self.spans_back).view(rows, n, n).numpy()
            spans = self.for_spans
            layout.each(
                lambda low, high: pairs_back(*spans, w, low, high, most, by_pairs, gradients), rows * w * n**2 * 2
            )
        fixed, given, results = self.for_words, onward.numpy(), self.results
        layout.each(lambda low, high: backward_words(*fixed, w, low, high, most, given, *results), rows * n**2 * 4)

    def words_back(self, chart: PCFGChart) -> None:
        layout, words = self.layout, chart.words
        self.by_left, self.by_right, self.by_both = (torch.zeros_like(x) for x in (self.left, self.right, self.both))
        pieces = (
            (self.by_word_left, self.left, self.by_left),
            (self.by_word_right, self.right, self.by_right),
            (self.by_word_both, self.both, self.by_both),
        )
        for by_word, matrix, by_matrix in pieces:
            chart.by_words += layout.times(0, by_word.flatten(1), matrix.transpose(1, 2))
            layout.add_product(0, words, by_word.flatten(1), by_matrix)

    def gradients(self) -> tuple[Tensor, ...]:
        n, p = self.n, self.p
        found = self.weights.new_empty(len(self.weights), self.s, self.s, n)
        found[:, :n, :n] = self.by_spans.view(-1, n, n, n)
        found[:, n:, :n] = self.by_left.view(-1, p, n, n)
        found[:, :n, n:] = self.by_right.view(-1, p, n, n).transpose(1, 2)
        found[:, n:, n:] = self.by_both.view(-1, p, p, n)
        return (found.permute(0, 3, 1, 2) * self.weights,)

    def _pairs(self, w: int) -> tuple[Tensor, Any]:
        """Sums of products of symbols for each span, ``[rows, n × n]``, and their exponents."""
        rows, size = self.layout.blocks[w][1], self.n**2 if w >= 3 else 1
        pairs = torch.empty(rows, size, dtype=torch.float64)
        most, result, fixed = np.empty(rows, np.int64), pairs.numpy(), self.for_spans
        self.layout.each(lambda low, high: pair_spans(*fixed, w, low, high, most, result), rows * w * size)
        return pairs, most
