"""The parses in a chart, expanded lazily node by node, and their number.

A node is a symbol over a span; its hyperedges are the rules that can rewrite it, with nodes and words as children.
Cycles of unit rules make the number of parses infinite: then counting raises an error, but
:mod:`catena.grammar.ranking` works.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from catena.errors import DivergentSumError
from catena.grammar.chart import Chart
from catena.grammar.closure import NEVER
from catena.grammar.derivation import Derivation

WORD = -1

Parts = tuple[Derivation | str, ...]
"""The expansion of the right side of a rule; a symbol created by splitting expands to several parts."""


class ForestNode(NamedTuple):
    """A symbol over the words from ``i`` up to ``j``, or an empty phrase with ``i = j = 0``. Symbol -1 is a word."""

    symbol: int
    i: int
    j: int


class HyperEdge(NamedTuple):
    """A rule that can rewrite a node: its log-weight, its index in the grammar, and the children."""

    log_weight: float
    origin: int
    children: tuple[ForestNode, ...]


class Forest:
    """All parses in a chart.

    Args:
        chart: which symbols cover which spans; ranking uses its values as those of the best parses.
        leaves: the word, or the parts of a phrase, at each position.
        top: the root symbol, by default the start symbol.
    """

    def __init__(self, chart: Chart, leaves: Sequence[Parts], top: int | None = None) -> None:
        self.chart, self.leaves, self.binary = chart, leaves, chart.closed.binary
        self.root = ForestNode(self.binary.start if top is None else top, 0, len(leaves))
        self._ways: dict[ForestNode, list[HyperEdge]] = {}

    def value(self, node: ForestNode) -> float:
        """Return the log-weight of a node in the chart."""
        return 0.0 if node.symbol == WORD else self.chart.value(*node)

    def ways(self, node: ForestNode) -> list[HyperEdge]:
        """Return every hyperedge of a node that leads to the words below it."""
        if node not in self._ways:
            find = self._ways_of_nothing if node.i == node.j else self._ways_of_words
            self._ways[node] = [] if node.symbol == WORD else list(find(node))
        return self._ways[node]

    def _ways_of_nothing(self, node: ForestNode) -> Iterator[HyperEdge]:
        for leaf in self.binary.empties:
            if leaf.left == node.symbol:
                yield HyperEdge(leaf.log_weight, leaf.origin, ())
        yield from self._units(node)
        pairs = self.binary.pairs
        for at in range(*self.binary.pairs_of(node.symbol).indices(len(pairs.left))):
            children = (ForestNode(int(pairs.first[at]), 0, 0), ForestNode(int(pairs.second[at]), 0, 0))
            if all(self.value(child) > NEVER for child in children):
                yield HyperEdge(float(pairs.log_weight[at]), int(pairs.origin[at]), children)

    def _ways_of_words(self, node: ForestNode) -> Iterator[HyperEdge]:
        symbol, i, j = node
        yield from self._units(node)
        if not self.chart.may_branch(symbol, i, j):
            return
        if j == i + 1:
            for leaf in self.chart.matches[i]:
                if leaf.left == symbol:
                    yield HyperEdge(leaf.log_weight, leaf.origin, (ForestNode(WORD, i, j),))
        rows = self.binary.pairs_of(symbol)
        first, second, weights, origins = (c[rows] for c in self.binary.pairs[1:])
        values, column = self.chart.values, self.chart.column
        lefts, rights = values[i, i + 1 : j][:, column[first]], values[i + 1 : j, j][:, column[second]]
        for split, at in zip(*np.nonzero((lefts > NEVER) & (rights > NEVER)), strict=True):
            k = i + 1 + int(split)
            children = (ForestNode(int(first[at]), i, k), ForestNode(int(second[at]), k, j))
            yield HyperEdge(float(weights[at]), int(origins[at]), children)
        empty = self.chart.closed.empty
        for at in np.flatnonzero((empty[first] > NEVER) | (empty[second] > NEVER)):
            nothing, all_words = ForestNode(int(first[at]), 0, 0), ForestNode(int(second[at]), i, j)
            for children in (
                (nothing, all_words),
                (ForestNode(int(first[at]), i, j), ForestNode(int(second[at]), 0, 0)),
            ):
                if all(self.value(child) > NEVER for child in children):
                    yield HyperEdge(float(weights[at]), int(origins[at]), children)

    def _units(self, node: ForestNode) -> Iterator[HyperEdge]:
        for unit in self.binary.units_by_left.get(node.symbol, ()):
            child = ForestNode(unit.below, node.i, node.j)
            if self.value(child) > NEVER:
                yield HyperEdge(unit.log_weight, unit.origin, (child,))

    # --- counting -------------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return the exact number of parses. Raise DivergentSumError if it is infinite."""
        if self.value(self.root) == NEVER:
            return 0
        counts: dict[ForestNode, int] = {}
        open_nodes: set[ForestNode] = set()
        waiting = [(self.root, False)]
        while waiting:
            node, done = waiting.pop()
            if done:
                open_nodes.discard(node)
                ways = self.ways(node)
                counts[node] = sum(math.prod(counts[child] for child in way.children) for way in ways)
            elif node.symbol == WORD:
                counts[node] = 1
            elif node in open_nodes:
                raise self._endless(node)
            elif node not in counts:
                open_nodes.add(node)
                waiting.append((node, True))
                waiting.extend((child, False) for way in self.ways(node) for child in way.children)
        return counts[self.root]

    def _endless(self, node: ForestNode) -> DivergentSumError:
        name = self.binary.symbols[node.symbol].name
        return DivergentSumError(
            f"The sentence has infinitely many parses: the rules lead from {name} back to {name} over the same words. "
            "Use k_best, or remove the cycle."
        )
