r"""Exact sums over unbounded chains of unit rules, cycles included.

.. math::  U^* = I + U + U^2 + \dots = (I - U)^{-1}

The closure is computed by Lehmann's elimination (1977) on each strongly connected component: exact, with the same
program for sums and for best weights. :mod:`catena.grammar.epsilon_removal` does the same for derivations of the empty
string.

All weights are logs; -inf is exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DivergentSumError
from catena.grammar.cfg import Nonterminal

NEVER = -math.inf
"""The log of zero, as in :mod:`catena.numerics`, which needs torch."""

ROUNDING = 1e-12
"""Log-weights that differ by less count as equal."""

_Row = dict[int, float]


class Algebra(ABC):
    """A semiring over log-weights that combines alternatives."""

    plus: np.ufunc

    much: str
    """The weight that a cycle of rules must not have."""

    words: str
    """The problem of a grammar whose closure is infinite."""

    @abstractmethod
    def star(self, x: float) -> float | None:
        """Return log(1 + w + w² + …) for log w = x, or None if it is infinite."""


class _Sum(Algebra):
    plus = np.logaddexp
    much = "1 or more"
    words = "the weights of its parses have an infinite sum"

    def star(self, x: float) -> float | None:
        # Weights that should sum to 1 may be smaller by rounding; no true closure is that large.
        return None if x > -1e-13 else -math.log1p(-math.exp(x))


class _Best(Algebra):
    plus = np.maximum
    much = "more than 1"
    words = "there is no best parse, since another pass through the cycle is always better"

    def star(self, x: float) -> float | None:
        return None if x > ROUNDING else 0.0


SUM: Algebra = _Sum()
BEST: Algebra = _Best()


class UnitStep(NamedTuple):
    """A step from one symbol to another over the same words."""

    left: int
    below: int
    log_weight: float


class UnitChains(NamedTuple):
    """The ``log_weight`` of all chains of at least one step from ``left`` down to ``below``, sorted by both."""

    left: Int[np.ndarray, "n"]
    below: Int[np.ndarray, "n"]
    log_weight: Float[np.ndarray, "n"]


def close_chains(symbols: Sequence[Nonterminal], steps: Iterable[UnitStep], algebra: Algebra) -> UnitChains:
    """Return the closure of the steps, computed component by component from the bottom up."""
    rows: dict[int, _Row] = {}
    for step in steps:
        _add(rows.setdefault(step.left, {}), {step.below: 0.0}, step.log_weight, algebra)
    closed: dict[int, _Row] = {}
    for part in connected_parts(rows):
        within = lehmann(np.array([[rows.get(a, {}).get(b, NEVER) for b in part] for a in part]), algebra)
        if within is None:
            raise divergence_error(symbols, part, algebra)
        leaving = [_leaving(rows.get(b, {}), set(part), closed, algebra) for b in part]
        for a, walks in zip(part, within.tolist(), strict=True):
            total = {b: x for b, x in zip(part, walks, strict=True) if x > NEVER}
            _add(total, leaving[part.index(a)], 0.0, algebra)
            for x, out in zip(walks, leaving, strict=True):
                _add(total, out, x, algebra)
            closed[a] = total
    entries = [(a, b, x) for a in sorted(closed) for b, x in sorted(closed[a].items())]
    left, below, weights = zip(*entries, strict=True) if entries else ((), (), ())
    return UnitChains(np.array(left, np.int64), np.array(below, np.int64), np.array(weights, np.float64))


def _leaving(row: _Row, part: set[int], closed: Mapping[int, _Row], algebra: Algebra) -> _Row:
    """Return the chains whose first step leaves the component."""
    total: _Row = {}
    for b, weight in row.items():
        if b not in part:
            _add(total, {b: 0.0}, weight, algebra)
            _add(total, closed.get(b, {}), weight, algebra)
    return total


def _add(total: _Row, more: _Row, weight: float, algebra: Algebra) -> None:
    if weight > NEVER:
        for b, x in more.items():
            total[b] = float(algebra.plus(total.get(b, NEVER), x + weight))


def lehmann(matrix: Float[np.ndarray, "n n"], algebra: Algebra) -> Float[np.ndarray, "n n"] | None:
    """Return the sum over all walks of at least one step, None if infinite. Time O(n³). Lehmann (1977)."""
    for k in range(len(matrix)):
        star = algebra.star(float(matrix[k, k]))
        if star is None:
            return None
        matrix = algebra.plus(matrix, matrix[:, k, None] + star + matrix[None, k, :])
    return matrix


def connected_parts(edges: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components, each before those that lead to it. Tarjan (1972), not recursive."""
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    waiting: list[int] = []  # nodes whose component is not known yet
    parts: list[list[int]] = []
    placed: set[int] = set()
    for root in edges:
        path = [] if root in order else [(root, iter(edges.get(root, ())))]
        while path:
            node, successors = path[-1]
            if node not in order:
                order[node] = lowest[node] = len(order)
                waiting.append(node)
            below = next(successors, None)
            if below is not None:
                if below not in order:
                    path.append((below, iter(edges.get(below, ()))))
                elif below not in placed:
                    lowest[node] = min(lowest[node], order[below])
                continue
            path.pop()
            if path:
                lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
            if lowest[node] == order[node]:
                part = [waiting.pop()]
                while part[-1] != node:
                    part.append(waiting.pop())
                placed.update(part)
                parts.append(part)
    return parts


def divergence_error(symbols: Sequence[Nonterminal], part: Sequence[int], algebra: Algebra) -> DivergentSumError:
    """Return the error of an infinite closure, with the symbols of the cycle and the cure."""
    names = sorted(symbols[a].name for a in part)
    listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return DivergentSumError(
        f"The rules lead from {listed} back to itself over the same words with a weight of {algebra.much}, so "
        f"{algebra.words}. Remove one of these rules, or lower their weights."
    )
