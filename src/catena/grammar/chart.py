"""The dynamic program over spans (CKY), on sparse rules and in any semiring.

``values[i, j, a]`` is the log-weight of all derivations, or of the best one, of the words from ``i`` up to but not
including ``j`` from symbol ``a``. A span is filled with the binary rules at all its splits, then with the closure of
unit chains. Symbols that cannot cover these words, or cannot be reached from the top, are dropped beforehand.

Time O(t³ r) for r rules, but only rules that fit both sides of some split are used; memory O(t² s).
Cocke (1969), Younger (1967), Kasami (1965); the sums: Baker (1979), Goodman (1999).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from catena.grammar.binary import HELPER, Leaf
from catena.grammar.closure import NEVER
from catena.grammar.epsilon_removal import EpsilonClosure

Matches = Sequence[Sequence[Leaf]]
"""For each word, the rules that rewrite to it."""


@dataclass(frozen=True, eq=False)
class Chart:
    """A filled chart.

    Args:
        closed: the grammar.
        matches: for each word, the rules that rewrite to it.
        column: ``column[a]`` is the column of symbol ``a`` in ``values``; dropped symbols have the last column, which
            is always -inf.
        values: ``values[i, j, column[a]]`` is the log-weight of symbol ``a`` over the words from ``i`` up to ``j``.
        bars: for spans where only some symbols may be rewritten to words or pairs, whether each symbol may.
    """

    closed: EpsilonClosure
    matches: Matches
    column: Int[np.ndarray, "s"]
    values: Float[np.ndarray, "t u c"]
    bars: Mapping[tuple[int, int], Bool[np.ndarray, "s"]] = field(default_factory=dict)

    def may_branch(self, symbol: int, i: int, j: int) -> bool:
        """Return whether a symbol over a span may be rewritten to words or pairs, not only to a single symbol."""
        return (i, j) not in self.bars or bool(self.bars[i, j][symbol])

    def value(self, symbol: int, i: int, j: int) -> float:
        """Return the log-weight of a symbol over a span, which may be empty."""
        if i == j:
            return float(self.closed.empty[symbol])
        return float(self.values[i, j, self.column[symbol]])

    @property
    def total(self) -> float:
        """The log-weight of the start symbol over the whole sentence."""
        return self.value(self.closed.binary.start, 0, len(self.matches))


def fill(closed: EpsilonClosure, matches: Matches, top: int | None = None) -> Chart:
    """Return the chart of a sentence for all symbols below ``top``, by default the start symbol."""
    used = np.flatnonzero(used_symbols(closed, matches, closed.binary.start if top is None else top))
    column = np.full(len(closed.binary.symbols), len(used), dtype=np.int64)
    column[used] = np.arange(len(used))
    t = len(matches)
    chart = Chart(closed, matches, column, np.full((t, t + 1, len(used) + 1), NEVER))
    rules = _Rules(chart)
    for i, leaves in enumerate(matches):
        for leaf in leaves:
            rules.add(chart.values[i, i + 1], leaf)
        rules.close(chart.values[i, i + 1])
    for width in range(2, t + 1):
        for i in range(t - width + 1):
            rules.combine(chart.values, i, i + width)
            rules.close(chart.values[i, i + width])
    return chart


def join(closed: EpsilonClosure, first: int, second: int) -> Chart:
    """Return the chart of two adjacent phrases, given only their top symbols."""
    s = len(closed.binary.symbols)
    matches = [[Leaf(first, 0.0, HELPER)], [Leaf(second, 0.0, HELPER)]]
    chart = Chart(closed, matches, np.arange(s), np.full((2, 3, s + 1), NEVER))
    rules = _Rules(chart)
    for i, (leaf,) in enumerate(matches):
        rules.add(chart.values[i, i + 1], leaf)
    rules.combine(chart.values, 0, 2)
    rules.close(chart.values[0, 2])
    return chart


class _Rules:
    """The rules of the symbols of a chart, with columns instead of symbols."""

    def __init__(self, chart: Chart) -> None:
        pairs, chains = chart.closed.binary.pairs, chart.closed.chains
        column, absent = chart.column, chart.values.shape[-1] - 1
        self.plus, self.column, self.absent = chart.closed.algebra.plus, column, absent
        kept = (column[pairs.left] < absent) & (column[pairs.first] < absent) & (column[pairs.second] < absent)
        self.left, self.first, self.second = (column[c[kept]] for c in (pairs.left, pairs.first, pairs.second))
        self.weights = pairs.log_weight[kept]
        kept = (column[chains.left] < absent) & (column[chains.below] < absent)
        self.above, self.below, self.chains = (
            column[chains.left[kept]],
            column[chains.below[kept]],
            chains.log_weight[kept],
        )

    def add(self, cell: Float[np.ndarray, "c"], leaf: Leaf) -> None:
        at = self.column[leaf.left]
        if at < self.absent:
            cell[at] = self.plus(cell[at], leaf.log_weight)

    def combine(self, values: Float[np.ndarray, "t u c"], i: int, j: int) -> None:
        """Fill the span from i up to j with the binary rules, at all splits."""
        lefts, rights = values[i, i + 1 : j], values[i + 1 : j, j]  # splits × symbols
        there = np.any(lefts > NEVER, axis=0)[self.first] & np.any(rights > NEVER, axis=0)[self.second]
        at = np.flatnonzero(there)
        if at.size:
            products = lefts[:, self.first[at]] + rights[:, self.second[at]]
            self._put(values[i, j], self.left[at], self.plus.reduce(products, axis=0) + self.weights[at])

    def close(self, cell: Float[np.ndarray, "c"]) -> None:
        """Add the weights that reach the symbols of a cell by unit chains."""
        at = np.flatnonzero(cell[self.below] > NEVER)
        if at.size:
            self._put(cell, self.above[at], cell[self.below[at]] + self.chains[at])

    def _put(self, cell: Float[np.ndarray, "c"], left: Int[np.ndarray, "n"], weights: Float[np.ndarray, "n"]) -> None:
        """Add weights to symbols. Equal symbols must be adjacent."""
        starts = np.flatnonzero(np.concatenate(([True], left[1:] != left[:-1])))
        here = left[starts]
        cell[here] = self.plus(cell[here], self.plus.reduceat(weights, starts))


def used_symbols(closed: EpsilonClosure, matches: Matches, top: int) -> Bool[np.ndarray, "s"]:
    """Return the symbols that can cover some of these words in any order and are reachable from the top."""
    pairs = closed.binary.pairs
    left, below = closed.chains.left, closed.chains.below
    found = np.zeros(len(closed.binary.symbols), dtype=bool)
    found[[leaf.left for leaves in matches for leaf in leaves]] = True
    size = -1
    while size != found.sum():
        size = found.sum()
        found[pairs.left[found[pairs.first] & found[pairs.second]]] = True
        found[left[found[below]]] = True
    reached = np.zeros_like(found)
    reached[top] = found[top]
    fits = found[pairs.first] & found[pairs.second]
    size = -1
    while size != reached.sum():
        size = reached.sum()
        reached[below[reached[left] & found[below]]] = True
        use = fits & reached[pairs.left]
        reached[pairs.first[use]] = reached[pairs.second[use]] = True
    return reached
