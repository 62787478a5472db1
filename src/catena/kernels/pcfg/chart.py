"""Inside and outside over a batch of sentences, width by width: the chart, whatever the rules are.

:class:`PCFGChart` is the common part of dense and low-rank rules, and :class:`PCFGRules` is their interface. Rows
of all tables are spans, in the order that :mod:`catena.kernels.pcfg.cpu` describes. All numbers are float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.common.floats import LN2, LN2_HIGH, LN2_LOW, LOG2_E
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.pcfg.cpu import LEAST, open_spans, rescale_spans
from catena.kernels.tree.floats import NOWHERE

_FLOOR = 1e-300
"""Weights of words below this, beside the greatest of the word, are taken as 0."""


@dataclass(frozen=True)
class PCFGProblem:
    """Sentences and their grammars, with rules and roots for all (``[1, ...]``) or each sentence (``[b, ...]``)."""

    words: Tensor
    rules: tuple[Tensor, ...]
    roots: Tensor
    spans: Tensor | None
    lengths: Tensor

    def take(self, rows: Tensor) -> PCFGProblem:
        """These sentences alone."""
        rules = (x if len(x) == 1 else x[rows] for x in self.rules)
        roots = self.roots
        spans = None if self.spans is None else self.spans[rows]
        return PCFGProblem(
            self.words[rows], tuple(rules), roots if len(roots) == 1 else roots[rows], spans, self.lengths[rows]
        )


class ChartLayout:
    """Where each span of each sentence lies."""

    def __init__(self, lengths: Tensor, t: int) -> None:
        self.lengths = lengths.numpy()
        self.b = len(lengths)
        self.t = t
        self.counts = np.maximum(self.lengths[None, :] - np.arange(t)[:, None], 0)  # spans of w + 1 words in sentence r
        flat = self.counts.ravel()
        ends = np.cumsum(flat)
        self.place = (ends - flat).reshape(self.counts.shape)
        self.rows = int(ends[-1])
        self.n_words = int(self.lengths.sum())
        self.blocks = [(int(self.place[w, 0]), int(n)) for w, n in enumerate(self.counts.sum(1)) if n > 0]
        self.even = bool((self.lengths == self.lengths[0]).all())

    @cached_property
    def spans(self) -> tuple[Tensor, Tensor, Tensor]:
        """The sentence, the first and the last word of each row."""
        flat = self.counts.ravel()
        w = np.repeat(np.arange(self.t), self.b)
        r = np.tile(np.arange(self.b), self.t)
        first = np.arange(self.rows) - np.repeat(self.place.ravel(), flat)
        found = np.repeat(r, flat), first, first + np.repeat(w, flat)
        sentence, start, end = (torch.from_numpy(x) for x in found)
        return sentence, start, end

    @cached_property
    def padded(self) -> Tensor:
        """The number of each row in a table of ``t (t + 1) / 2`` spans for every sentence."""
        sentence, first, last = self.spans
        w = last - first
        return sentence * (self.t * (self.t + 1) // 2) + w * self.t - w * (w - 1) // 2 + first

    @cached_property
    def tops(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(sentences of two words or more, the rows of them as a whole, sentences of one word, their rows)."""
        rows = self.place[np.maximum(self.lengths, 1) - 1, np.arange(self.b)]
        long = np.nonzero(self.lengths > 1)[0]
        alone = np.nonzero(self.lengths == 1)[0]
        found = (torch.from_numpy(x) for x in (long, rows[long], alone, rows[alone]))
        return tuple(found)  # type: ignore[return-value]

    def each(self, run: Callable[[int, int], None], work: int) -> None:
        in_row_blocks(run, self.b, work)

    def times(self, w: int, x: Tensor, matrices: Tensor) -> Tensor:
        """Each row of a block times the matrix of its sentence."""
        if len(matrices) == 1:
            return x @ matrices[0]
        if self.even:
            return (x.view(self.b, -1, x.shape[1]) @ matrices).flatten(0, 1)
        return torch.cat([part @ matrix for part, matrix in zip(self._parts(w, x), matrices, strict=True)])

    def add_product(self, w: int, x: Tensor, y: Tensor, total: Tensor) -> None:
        """total += xᵀ y over the rows of each sentence, or of all."""
        if len(total) == 1:
            total[0].addmm_(x.T, y)
        elif self.even:
            total.baddbmm_(x.view(self.b, -1, x.shape[1]).transpose(1, 2), y.view(self.b, -1, y.shape[1]))
        else:
            for one, left, right in zip(total, self._parts(w, x), self._parts(w, y), strict=True):
                one.addmm_(left.T, right)

    def _parts(self, w: int, x: Tensor) -> tuple[Tensor, ...]:
        return x.split(self.counts[w].tolist())


class PCFGRules(ABC):
    """What a grammar does between the weights of parts and the sums over rules, on the way up and down.

    ``steepest`` is ``[g, n]``: for each nonterminal the log-weight that was taken out of its rules.
    """

    layout: ChartLayout
    n: int
    steepest: Tensor

    @abstractmethod
    def begin(self, chart: PCFGChart) -> None:
        """The weights of words are known."""

    @abstractmethod
    def sums(self, chart: PCFGChart, w: int) -> tuple[Tensor, Any]:
        """The sums over rules and splits for the spans of ``w + 1`` words, and the exponents that go with them."""

    @abstractmethod
    def closed(self, chart: PCFGChart, w: int) -> None:
        """The weights of the spans of ``w + 1`` words are known."""

    @abstractmethod
    def begin_back(self, chart: PCFGChart) -> None:
        """The chart is whole; the way down begins."""

    @abstractmethod
    def exponents(self, chart: PCFGChart, w: int) -> Any:
        """The gradients by the spans of ``w + 1`` words are to be made whole; returns the exponents of their sums."""

    @abstractmethod
    def back(self, chart: PCFGChart, w: int, onward: Tensor) -> None:
        """Hand the gradient by the sums on to the parts and to the rules."""

    @abstractmethod
    def words_back(self, chart: PCFGChart) -> None:
        """Make the gradient by the weights of words whole."""

    @abstractmethod
    def gradients(self) -> tuple[Tensor, ...]:
        """By the scores of rules."""


@dataclass
class PCFGChart:
    """The weights of all spans of a batch of sentences, as they become known."""

    problem: PCFGProblem
    rules: PCFGRules
    signs_only: bool = False
    """Only compute whether weights are above 0."""

    chart: Tensor = field(init=False)
    e: Tensor = field(init=False)
    gradients: Tensor = field(init=False)
    by_words: Tensor = field(init=False)

    def __post_init__(self) -> None:
        layout = self.layout
        problem = self.problem
        sentence, first, last = layout.spans
        in_words = sentence[: layout.n_words]
        words = problem.words[in_words, first[: layout.n_words]]
        spans = None if problem.spans is None else problem.spans[sentence, first, last]
        if self.signs_only:
            self._weigh_signs(words, spans)
            return
        self.words, tops = scale_by_max(words)
        self.words[self.words < _FLOOR] = 0.0
        self.roots, shift = scale_by_max(problem.roots)
        self.shift = shift.expand(layout.b).index_add(0, in_words, tops)
        steepest = self.rules.steepest
        if spans is None:
            own, own_e = in_powers(steepest)
            group = sentence if len(steepest) > 1 else torch.zeros_like(sentence)
            self.own = own[group]
            self.own_e = own_e[group]
        else:
            self.own, self.own_e = in_powers(spans + (steepest[sentence] if len(steepest) > 1 else steepest))

    def _weigh_signs(self, words: Tensor, spans: Tensor | None) -> None:
        self.words, self.roots = ((x > -torch.inf).double() for x in (words, self.problem.roots))
        own = torch.ones(self.layout.rows, self.rules.n, dtype=torch.float64)
        self.own = own if spans is None else (spans > -torch.inf).double()
        self.own_e = torch.zeros(self.layout.rows, dtype=torch.int64)
        self.shift = torch.zeros(self.layout.b, dtype=torch.float64)

    @property
    def layout(self) -> ChartLayout:
        return self.rules.layout

    def inside(self) -> tuple[Tensor, Tensor]:
        """Fill the chart from the bottom up. Returns (log Z, whether a weight may have been lost) of each sentence."""
        layout = self.layout
        rules = self.rules
        self.chart = torch.zeros(layout.rows, rules.n, dtype=torch.float64)
        self.e = torch.full((layout.rows,), NOWHERE)
        self.e[: layout.n_words] = torch.where((self.words > 0).any(-1), 0, NOWHERE)
        suspect = torch.zeros(layout.b, dtype=torch.bool)
        suspect[layout.spans[0][: layout.n_words][(self.words == 0).any(-1)]] = True
        rules.begin(self)
        fixed = (self.own.numpy(), self.own_e.numpy(), layout.place, layout.lengths)
        results = (self.chart.numpy(), self.e.numpy(), suspect.numpy())
        for w in range(1, len(layout.blocks)):
            sums, most = rules.sums(self, w)
            self._close(w, sums.numpy(), most, fixed, results)
            rules.closed(self, w)
        total = (self.roots * self.on_top()).sum(-1)
        long, rows, _, _ = layout.tops
        log_z = total.log() + self.shift
        log_z[long] += self.e[rows].double() * LN2
        return log_z, suspect | (total < LEAST)

    def _close(self, w: int, sums: Any, most: Any, fixed: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        def run(low: int, high: int) -> None:
            rescale_spans(sums, most, *fixed, w, low, high, self.signs_only, *results)

        self.layout.each(run, sums.size * 8)

    def outside(self, scale: Tensor) -> Tensor:
        """Compute the gradients, times ``scale``, from the top down; returns the gradient of the roots, ``[b, s]``."""
        layout = self.layout
        rules = self.rules
        n = self.rules.n
        self.gradients = torch.zeros_like(self.chart)
        self.by_words = torch.zeros_like(self.words)
        on_top = self.on_top()
        total = (self.roots * on_top).sum(-1)
        by_top = torch.where(total > 0, scale / torch.where(total > 0, total, 1.0), 0.0)[:, None] * self.roots
        long, rows, alone, words = layout.tops
        self.gradients[rows] = by_top[long, :n]
        self.by_words[words] = by_top[alone, n:]
        rules.begin_back(self)
        fixed = [x.numpy() for x in (self.gradients, self.chart, self.e, self.own, self.own_e)]
        for w in range(len(layout.blocks) - 1, 0, -1):
            onward = self._open(w, rules.exponents(self, w), fixed)
            rules.back(self, w, onward)
        rules.words_back(self)
        return by_top * on_top

    def _open(self, w: int, most: Any, fixed: list[Any]) -> Tensor:
        onward = torch.empty(self.layout.blocks[w][1], self.rules.n, dtype=torch.float64)
        place = self.layout.place
        lengths = self.layout.lengths
        result = onward.numpy()
        self.layout.each(
            lambda low, high: open_spans(*fixed, most, place, lengths, w, low, high, result), onward.numel() * 4
        )
        return onward

    def on_top(self) -> Tensor:
        """``[b, s]``: the weights of all symbols over the whole of each sentence."""
        long, rows, alone, words = self.layout.tops
        found = torch.zeros(self.layout.b, self.roots.shape[1], dtype=torch.float64)
        found[long, : self.rules.n] = self.chart[rows]
        found[alone, self.rules.n :] = self.words[words]
        return found

    def lost(self, signs: PCFGChart) -> Tensor:
        """For each sentence whether a weight is missing that ought to be there, given the chart of signs."""
        sentence = self.layout.spans[0]
        n_words = self.layout.n_words
        missing = ((signs.chart > 0) & (self.chart == 0)).any(-1)
        missing[:n_words] |= ((signs.words > 0) & (self.words == 0)).any(-1)
        found = ((signs.roots * signs.on_top()).sum(-1) > 0) & ((self.roots * self.on_top()).sum(-1) < LEAST)
        found[sentence[missing]] = True
        return found


def scale_by_max(x: Tensor) -> tuple[Tensor, Tensor]:
    """exp(x) over its greatest entry on the last axis, and the log of that, as 0 where all are -inf."""
    top = x.amax(-1)
    top = torch.where(top == -torch.inf, 0.0, top)
    return (x - top[..., None]).exp(), top


def in_powers(x: Tensor) -> tuple[Tensor, Tensor]:
    """exp(x) as weights of at most 2 and exponents of 2, one for the whole of the last axis."""
    top = x.amax(-1)
    e = torch.where(top == -torch.inf, 0.0, (top * LOG2_E).floor())
    return ((x - e[..., None] * LN2_HIGH) - e[..., None] * LN2_LOW).exp(), e.long()
