r"""Charts of large grammars by compiled loops, with best parses, samples and expected symbol counts.

.. math::  E[\#\, A \text{ over } i..j] = \frac{\mathrm{outside}(A, i, j)\; \mathrm{inside}(A, i, j)}{Z}

The values equal those of the reference implementation :func:`catena.grammar.chart.fill`, for grammars of thousands of
symbols. With a beam, symbols with low scores in their cell are pruned, so the parse may not be the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from catena._lazy import LazyModule
from catena.errors import LimitError
from catena.grammar.binary import HELPER
from catena.grammar.chart import Chart, Matches, used_symbols
from catena.grammar.closure import BEST, NEVER
from catena.grammar.derivation import Derivation
from catena.grammar.epsilon_removal import EpsilonClosure
from catena.grammar.forest import WORD, Forest, ForestNode, HyperEdge, Parts
from catena.grammar.ranking import rank_parses

_kernels = LazyModule("catena.kernels.pcfg.cpu_sparse")
MOST_NUMBERS = 150_000_000
"""Largest number of entries of a chart: 1.2 GB of doubles."""

_FREE = 1e-6
"""A cycle of unit rules that costs fewer nats is treated as free, since rounding may hide its cost."""


@dataclass(frozen=True)
class Beam:
    """Beam pruning of the symbols of a cell.

    Args:
        width: in nats; a symbol is pruned if log-weight plus prior is lower than the best in its cell by more.
        prior: ``prior[a]`` is the log-probability that symbol ``a`` occurs in a tree.
    """

    width: float
    prior: Float[np.ndarray, "s"]


Bars = Mapping[tuple[int, int], Bool[np.ndarray, "s"]]
"""For spans of two or more words, whether each symbol may be rewritten to a pair there."""


def fill_quickly(closed: EpsilonClosure, matches: Matches, beam: Beam | None = None, bars: Bars | None = None) -> Chart:
    """Return the chart of a sentence, equal to :func:`catena.grammar.chart.fill`."""
    chart = _blank(closed, matches, bars or {})
    if chart.values.shape[-1] == 1 or not matches:
        return chart
    if closed.algebra is BEST:
        _kernels.fill_best(chart.values, *_rules(chart), *_barred(chart), *_beam(chart, beam))
        return chart
    values, scales = _sums(chart, beam)
    with np.errstate(divide="ignore"):
        np.log(values, out=chart.values)
    finite = np.where(np.isfinite(scales), scales, 0.0)
    chart.values[:] += finite[..., None]
    return chart


@dataclass(frozen=True, eq=False)
class Expected:
    """The expected count of each symbol over each span, under the distribution over parses.

    Args:
        chart: the sums.
        counts: ``counts[i, j, chart.column[a]]`` is the expected count of symbol ``a`` over the words from ``i`` up to
            ``j``: a probability, unless cycles of unit rules can repeat it.
        tags: for each word the symbols that may rewrite to it, and the probability that they do.
    """

    chart: Chart
    counts: Float[np.ndarray, "t u c"]
    tags: tuple[dict[int, float], ...]


def expectations(
    closed: EpsilonClosure, matches: Matches, beam: Beam | None = None, bars: Bars | None = None
) -> Expected | None:
    """Return the expectations of a sentence, or None if it has no parse. ``closed`` must hold sums."""
    chart = _blank(closed, matches, bars or {})
    top = int(chart.column[closed.binary.start])
    if chart.values.shape[-1] == 1 or not matches:
        return None
    values, scales = _sums(chart, beam)
    if values[0, len(matches), top] == 0.0:
        return None
    log_z = math.log(values[0, len(matches), top]) + scales[0, len(matches)]
    outside, outside_scales = np.zeros_like(values), np.full_like(scales, NEVER)
    _kernels.fill_outside(outside, outside_scales, values, scales, *_rules(chart, plain=True), top)
    with np.errstate(divide="ignore"):
        np.log(values, out=chart.values)
    chart.values[:] += np.where(np.isfinite(scales), scales, 0.0)[..., None]
    shares = np.exp(np.where(np.isfinite(scales + outside_scales), scales + outside_scales, NEVER) - log_z)
    tags = []
    for i, leaves in enumerate(matches):
        here: dict[int, float] = {}
        around = math.exp(outside_scales[i, i + 1] - log_z) if np.isfinite(outside_scales[i, i + 1]) else 0.0
        for leaf in leaves:
            if (at := int(chart.column[leaf.left])) < values.shape[-1] - 1:
                share = float(outside[i, i + 1, at]) * around * math.exp(leaf.log_weight)
                here[leaf.left] = here.get(leaf.left, 0.0) + share
        tags.append(here)
    outside *= values
    outside *= shares[..., None]
    return Expected(chart, outside, tuple(tags))


# --- the best parse and samples ---------------------------------------------------------------------------------------


def best_parse(chart: Chart, words: Sequence[str]) -> Derivation | None:
    """Return the best parse in a chart of best weights, or None if there is none."""
    if np.any(chart.closed.empty > NEVER) or _has_free_circles(chart.closed):  # ties need the exact ranking
        for (parse,) in rank_parses(Forest(chart, [(word,) for word in words])):
            assert isinstance(parse, Derivation)
            return parse
        return None
    return _read(chart, words, _Best(chart))


def sampled_parse(chart: Chart, words: Sequence[str], rng: np.random.Generator) -> Derivation | None:
    """Return a parse sampled by its probability from a chart of sums, or None if there is none."""
    return _read(chart, words, _Drawn(Forest(chart, [(word,) for word in words]), rng))


def _read(chart: Chart, words: Sequence[str], choice: Any) -> Derivation | None:
    """Build a parse from the root down with a choice of a hyperedge for each node."""
    root = ForestNode(chart.closed.binary.start, 0, len(words))
    if chart.total == NEVER:
        return None
    results: list[Parts] = []
    waiting: list[ForestNode | HyperEdge] = [root]
    rules = chart.closed.binary.grammar.rules
    while waiting:
        item = waiting.pop()
        if isinstance(item, HyperEdge):
            n = len(item.children)
            parts = tuple(part for several in results[len(results) - n :] for part in several)
            del results[len(results) - n :]
            results.append(parts if item.origin == HELPER else (Derivation(rules[item.origin], parts),))
        elif item.symbol == WORD:
            results.append((words[item.i],))
        else:
            way = choice(item)
            waiting.append(way)
            waiting.extend(reversed(way.children))
    (whole,) = results[0]
    assert isinstance(whole, Derivation)
    return whole


class _Best:
    """Chooses the best hyperedge of each node with array operations. Terminates only if no cycle is free."""

    def __init__(self, chart: Chart) -> None:
        self.chart, self.binary = chart, chart.closed.binary

    def __call__(self, node: ForestNode) -> HyperEdge:
        branching = [*self._leaves(node), *self._pairs(node)] if self.chart.may_branch(*node) else []
        return max((*branching, *self._units(node)), key=self._value)

    def _value(self, way: HyperEdge) -> float:
        return way.log_weight + sum(self.chart.value(*child) for child in way.children if child.symbol != WORD)

    def _leaves(self, node: ForestNode) -> list[HyperEdge]:
        if node.j != node.i + 1:
            return []
        below = (ForestNode(WORD, node.i, node.j),)
        return [HyperEdge(w, origin, below) for left, w, origin in self.chart.matches[node.i] if left == node.symbol]

    def _pairs(self, node: ForestNode) -> list[HyperEdge]:
        _, i, j = node
        first, second, weights, origins = (c[self.binary.pairs_of(node.symbol)] for c in self.binary.pairs[1:])
        if j < i + 2 or not len(first):
            return []
        values, column = self.chart.values, self.chart.column
        sums = values[i, i + 1 : j][:, column[first]] + values[i + 1 : j, j][:, column[second]] + weights
        split, at = divmod(int(np.argmax(sums)), len(first))
        if sums[split, at] == NEVER:
            return []
        k = i + 1 + split
        children = (ForestNode(int(first[at]), i, k), ForestNode(int(second[at]), k, j))
        return [HyperEdge(float(weights[at]), int(origins[at]), children)]

    def _units(self, node: ForestNode) -> list[HyperEdge]:
        below = [
            (unit, ForestNode(unit.below, node.i, node.j)) for unit in self.binary.units_by_left.get(node.symbol, ())
        ]
        return [
            HyperEdge(unit.log_weight, unit.origin, (child,))
            for unit, child in below
            if self.chart.value(*child) > NEVER
        ]


def _has_free_circles(closed: EpsilonClosure) -> bool:
    """Return whether some cycle of unit rules costs next to nothing."""
    chains = closed.chains
    return bool(np.any((chains.left == chains.below) & (chains.log_weight > -_FREE)))


class _Drawn:
    def __init__(self, forest: Forest, rng: np.random.Generator) -> None:
        self.forest, self.rng = forest, rng

    def __call__(self, node: ForestNode) -> HyperEdge:
        ways = self.forest.ways(node)
        logs = np.array([way.log_weight + sum(self.forest.value(child) for child in way.children) for way in ways])
        weights = np.cumsum(np.exp(logs - logs.max()))
        return ways[min(int(np.searchsorted(weights, self.rng.random() * weights[-1], side="right")), len(ways) - 1)]


# --- from a grammar to arrays -----------------------------------------------------------------------------------------


def _blank(closed: EpsilonClosure, matches: Matches, bars: Bars) -> Chart:
    """Return a chart that contains only the leaves of the words."""
    used = np.flatnonzero(used_symbols(closed, matches, closed.binary.start))
    column = np.full(len(closed.binary.symbols), len(used), dtype=np.int64)
    column[used] = np.arange(len(used))
    t = len(matches)
    if t * (t + 1) * (len(used) + 1) > MOST_NUMBERS:
        raise LimitError(
            f"A chart must have at most {MOST_NUMBERS:,} entries, got {t * (t + 1) * (len(used) + 1):,} for {t} "
            f"words and the {len(used):,} symbols that fit them. Split the sentence."
        )
    chart = Chart(closed, matches, column, np.full((t, t + 1, len(used) + 1), NEVER), bars)
    for i, leaves in enumerate(matches):
        for leaf in leaves:
            if (at := column[leaf.left]) < len(used):
                cell = chart.values[i, i + 1]
                cell[at] = closed.algebra.plus(cell[at], leaf.log_weight)
    return chart


def _rules(chart: Chart, plain: bool = False) -> tuple[np.ndarray, ...]:
    """Return the rules and chains of the symbols of a chart, by their first symbol and by their children."""
    pairs, chains = chart.closed.binary.pairs, chart.closed.chains
    column, absent = chart.column, chart.values.shape[-1] - 1
    first, second, left = column[pairs.first], column[pairs.second], column[pairs.left]
    kept = np.flatnonzero((first < absent) & (second < absent) & (left < absent))
    kept = kept[np.argsort(first[kept], kind="stable")]
    above, below = column[chains.left], column[chains.below]
    linked = np.flatnonzero((above < absent) & (below < absent))
    linked = linked[np.argsort(below[linked], kind="stable")]
    weights, chain_weights = pairs.log_weight[kept], chains.log_weight[linked]
    if plain:
        weights, chain_weights = np.exp(weights), np.exp(chain_weights)
    starts, chain_starts = _starts(first[kept], absent + 1), _starts(below[linked], absent + 1)
    return starts, second[kept], left[kept], weights, chain_starts, above[linked], chain_weights


def _starts(symbols: Int[np.ndarray, "n"], c: int) -> Int[np.ndarray, "m"]:
    return np.concatenate(([0], np.cumsum(np.bincount(symbols, minlength=c)))).astype(np.int64)


def _barred(chart: Chart) -> tuple[Int[np.ndarray, "t u"], Bool[np.ndarray, "n c"]]:
    """Return the bars of a chart as an index for each span, -1 for none, and a row for each index."""
    t, c = len(chart.matches), chart.values.shape[-1]
    numbers, rows = np.full((t, t + 1), -1, np.int64), np.zeros((max(1, len(chart.bars)), c), bool)
    here = np.flatnonzero(chart.column < c - 1)
    for n, (span, allowed) in enumerate(chart.bars.items()):
        numbers[span] = n
        rows[n, chart.column[here]] = allowed[here]
    return numbers, rows


def _beam(chart: Chart, beam: Beam | None) -> tuple[np.ndarray, float]:
    prior = np.zeros(chart.values.shape[-1])
    if beam is None:
        return prior, math.inf
    here = chart.column < len(prior) - 1
    prior[chart.column[here]] = beam.prior[here]
    return prior, beam.width


def _sums(chart: Chart, beam: Beam | None) -> tuple[Float[np.ndarray, "t u c"], Float[np.ndarray, "t u"]]:
    prior, width = _beam(chart, beam)
    values, scales = np.exp(chart.values), np.full(chart.values.shape[:2], NEVER)
    _kernels.fill_sums(values, scales, *_rules(chart, plain=True), *_barred(chart), np.exp(prior), math.exp(-width))
    return values, scales
