"""Products of chart weights with dense and with low-rank rules, width by width."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.pcfg.chart import ChartLayout, PCFGChart, PCFGProblem, PCFGRules, scale_by_max
from catena.kernels.pcfg.cpu import add_words, backward_words, merge_back, merge_spans, pair_spans, pairs_back


class DenseRules(PCFGRules):
    """``rules[g, a, b, c]``; all the matrices here have the parent ``a`` on their last axis."""

    def __init__(self, problem: PCFGProblem, layout: ChartLayout, signs_only: bool = False, keep: bool = False) -> None:
        (rules,) = problem.rules
        g, self.n, self.s = rules.shape[:3]
        self.layout = layout
        self.p = self.s - self.n
        if signs_only:
            weights = (rules > -torch.inf).double().flatten(2)
            self.steepest = torch.zeros(rules.shape[:2]).double()
        else:
            weights, self.steepest = scale_by_max(rules.flatten(2))
        self.weights = weights.view(rules.shape)
        n = self.n
        by_parts = self.weights.permute(0, 2, 3, 1)
        self.spans = by_parts[:, :n, :n].reshape(g, n * n, n)
        self.left = by_parts[:, n:, :n].reshape(g, self.p, n * n)
        self.right = by_parts[:, :n, n:].transpose(1, 2).reshape(g, self.p, n * n)
        self.both = by_parts[:, n:, n:].reshape(g, self.p, self.p * n)

    def begin(self, chart: PCFGChart) -> None:
        words = chart.words
        n = self.n
        layout = self.layout
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
        fixed = self.for_words
        result = sums.numpy()
        self.layout.each(lambda low, high: add_words(*fixed, w, low, high, most, result), rows * self.n**2 * 2)
        return sums, most

    def closed(self, chart: PCFGChart, w: int) -> None:
        """Nothing is kept of a span but its weights."""

    def begin_back(self, chart: PCFGChart) -> None:
        self.begin(chart)
        self.by_spans = torch.zeros_like(self.spans)
        self.spans_back = self.spans.transpose(1, 2)
        self.by_word_left = torch.zeros_like(self.word_left)
        self.by_word_right = torch.zeros_like(self.word_right)
        self.by_word_both = torch.zeros_like(self.word_both)
        tensors = (chart.gradients, chart.by_words, self.by_word_left, self.by_word_right, self.by_word_both)
        self.results = [x.numpy() for x in tensors]

    def exponents(self, chart: PCFGChart, w: int) -> Any:
        self.pairs, self.most = self._pairs(w)
        return self.most

    def back(self, chart: PCFGChart, w: int, onward: Tensor) -> None:
        layout = self.layout
        rows = self.layout.blocks[w][1]
        n = self.n
        most = self.most
        gradients = self.results[0]
        if w >= 3:
            layout.add_product(w, self.pairs, onward, self.by_spans)
            by_pairs = layout.times(w, onward, self.spans_back).view(rows, n, n).numpy()
            spans = self.for_spans
            layout.each(
                lambda low, high: pairs_back(*spans, w, low, high, most, by_pairs, gradients), rows * w * n**2 * 2
            )
        fixed = self.for_words
        given = onward.numpy()
        results = self.results
        layout.each(lambda low, high: backward_words(*fixed, w, low, high, most, given, *results), rows * n**2 * 4)

    def words_back(self, chart: PCFGChart) -> None:
        layout = self.layout
        words = chart.words
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
        n = self.n
        p = self.p
        found = self.weights.new_empty(len(self.weights), self.s, self.s, n)
        found[:, :n, :n] = self.by_spans.view(-1, n, n, n)
        found[:, n:, :n] = self.by_left.view(-1, p, n, n)
        found[:, :n, n:] = self.by_right.view(-1, p, n, n).transpose(1, 2)
        found[:, n:, n:] = self.by_both.view(-1, p, p, n)
        return (found.permute(0, 3, 1, 2) * self.weights,)

    def _pairs(self, w: int) -> tuple[Tensor, Any]:
        """Sums of products of symbols for each span, ``[rows, n × n]``, and their exponents."""
        rows = self.layout.blocks[w][1]
        size = self.n**2 if w >= 3 else 1
        pairs = torch.empty(rows, size, dtype=torch.float64)
        most = np.empty(rows, np.int64)
        result = pairs.numpy()
        fixed = self.for_spans
        self.layout.each(lambda low, high: pair_spans(*fixed, w, low, high, most, result), rows * w * size)
        return pairs, most


class LowRankRules(PCFGRules):
    """What each rank finds in a span, as a left and as a right part, is kept beside the weights of its symbols."""

    def __init__(self, problem: PCFGProblem, layout: ChartLayout, signs_only: bool = False, keep: bool = False) -> None:
        parents, lefts, rights = problem.rules
        self.layout = layout
        self.keep = keep
        self.n = parents.shape[1]
        self.r = parents.shape[2]
        if signs_only:
            self.parents, self.lefts, self.rights = ((x > -torch.inf).double() for x in problem.rules)
            self.steepest = torch.zeros(parents.shape[:2], dtype=torch.float64)
        else:
            self.lefts, left_top = scale_by_max(lefts)
            self.rights, right_top = scale_by_max(rights)
            self.parents, self.steepest = scale_by_max(parents + (left_top + right_top)[:, None])
        self.up = self.parents.transpose(1, 2).contiguous()
        self.down = self.parents
        self.from_left = self.lefts.transpose(1, 2)  # g s r
        self.from_right = self.rights.transpose(1, 2)  # g s r

    def begin(self, chart: PCFGChart) -> None:
        size = (self.layout.rows, self.r)
        self.found_left, self.found_right = (torch.zeros(size, dtype=torch.float64) for _ in range(2))
        tensors = (self.found_left, self.found_right, chart.e)
        self.fixed = (*(x.numpy() for x in tensors), self.layout.place, self.layout.lengths)
        self._project(0, chart.words, slice(self.n, None))

    def sums(self, chart: PCFGChart, w: int) -> tuple[Tensor, Any]:
        merged, most = self._merge(w)
        return self.layout.times(w, merged, self.up), most

    def closed(self, chart: PCFGChart, w: int) -> None:
        low, rows = self.layout.blocks[w]
        self._project(w, chart.chart[low : low + rows], slice(self.n))

    def begin_back(self, chart: PCFGChart) -> None:
        if not self.keep:
            self.begin(chart)
            for w in range(1, len(self.layout.blocks)):
                self.closed(chart, w)
        self.by_left = torch.zeros_like(self.found_left)
        self.by_right = torch.zeros_like(self.found_right)
        self.by_from_left = torch.zeros_like(self.from_left)
        self.by_from_right = torch.zeros_like(self.from_right)
        self.by_up = torch.zeros_like(self.up)

    def exponents(self, chart: PCFGChart, w: int) -> Any:
        low, rows = self.layout.blocks[w]
        here = slice(low, low + rows)
        chart.gradients[here] += self._project_back(w, chart.chart[here], slice(self.n))
        self.merged, self.most = self._merge(w)
        return self.most

    def back(self, chart: PCFGChart, w: int, onward: Tensor) -> None:
        layout = self.layout
        most = self.most
        layout.add_product(w, self.merged, onward, self.by_up)
        given = layout.times(w, onward, self.down).numpy()
        fixed = self.fixed
        results = (self.by_left.numpy(), self.by_right.numpy())
        layout.each(lambda low, high: merge_back(*fixed, w, low, high, most, given, *results), given.size * w * 4)

    def words_back(self, chart: PCFGChart) -> None:
        chart.by_words += self._project_back(0, chart.words, slice(self.n, None))

    def gradients(self) -> tuple[Tensor, ...]:
        by_left = self.by_from_left.transpose(1, 2)
        by_right = self.by_from_right.transpose(1, 2)
        return self.by_up.transpose(1, 2) * self.parents, by_left * self.lefts, by_right * self.rights

    def _project(self, w: int, weights: Tensor, symbols: slice) -> None:
        """What each rank finds in the spans of ``w + 1`` words, of which these symbols have weights."""
        low, rows = self.layout.blocks[w] if self.layout.blocks else (0, 0)
        if rows:
            self.found_left[low : low + rows] = self.layout.times(w, weights, self.from_left[:, symbols])
            self.found_right[low : low + rows] = self.layout.times(w, weights, self.from_right[:, symbols])

    def _project_back(self, w: int, weights: Tensor, symbols: slice) -> Tensor:
        low, rows = self.layout.blocks[w] if self.layout.blocks else (0, 0)
        by_left = self.by_left[low : low + rows]
        by_right = self.by_right[low : low + rows]
        if not rows:
            return torch.zeros_like(weights)
        self.layout.add_product(w, weights, by_left, self.by_from_left[:, symbols])
        self.layout.add_product(w, weights, by_right, self.by_from_right[:, symbols])
        back = self.layout.times(w, by_left, self.lefts[:, :, symbols])
        return back + self.layout.times(w, by_right, self.rights[:, :, symbols])

    def _merge(self, w: int) -> tuple[Tensor, Any]:
        rows = self.layout.blocks[w][1]
        fixed = self.fixed
        merged = torch.empty(rows, self.r, dtype=torch.float64)
        most = np.empty(rows, np.int64)
        result = merged.numpy()
        self.layout.each(lambda low, high: merge_spans(*fixed, w, low, high, most, result), rows * w * self.r * 2)
        return merged, most
