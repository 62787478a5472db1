r"""The weight of all derivations of the empty string from each symbol.

This is the least solution of

.. math::  e_A = w(A \to \epsilon) + \sum_B w(A \to B)\, e_B + \sum_{B, C} w(A \to B\, C)\, e_B\, e_C,

which is linear unless a pair of adjacent symbols leads back to A. Each strongly connected component is solved with
Newton's method from 0, which finds the least solution if there is one (Etessami and Yannakakis 2009); a linear
component takes one step. The computation uses 60 decimal digits: at a double root, where Newton's method only halves
the error in each step and doubles lose half of their digits, the result is still exact to the last digit of a double.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from jaxtyping import Float

from catena.grammar.binary import Binary
from catena.grammar.closure import (
    BEST,
    NEVER,
    ROUNDING,
    Algebra,
    UnitChains,
    UnitStep,
    close_chains,
    connected_parts,
    divergence_error,
)

_DIGITS = 60
_STEPS = 300
"""At a double root the error halves with each step, so about 80 suffice."""
_ENOUGH = Decimal("1e-22")
_UNAVOIDABLE = Decimal("1e-14")
"""Relative to the solution: the largest change of an equation by rounding weights to doubles."""

_Monomials = dict[int, list[tuple[float, tuple[int, ...]]]]
"""For each symbol the products whose sum is its weight, each a coefficient and the symbols it is multiplied with."""


@dataclass(frozen=True)
class EpsilonClosure:
    """A grammar with the sums over empty phrases and unit chains.

    Args:
        binary: the rules.
        algebra: the semiring of the sums.
        empty: ``empty[a]`` is the log-weight of all derivations of the empty string from symbol ``a``.
        steps: unit rules, and binary rules with one empty symbol.
        chains: the closure of the steps.
    """

    binary: Binary
    algebra: Algebra
    empty: Float[np.ndarray, "s"]
    steps: tuple[UnitStep, ...]
    chains: UnitChains


def close(binary: Binary, algebra: Algebra) -> EpsilonClosure:
    """Return the sums over empty phrases and unit chains.

    Raises:
        catena.errors.DivergentSumError: if a sum is infinite.
    """
    empty = empty_weights(binary, algebra)
    steps = _above_words(binary, unit_steps(binary, empty))
    return EpsilonClosure(binary, algebra, empty, steps, close_chains(binary.symbols, steps, algebra))


def unit_steps(binary: Binary, empty: Float[np.ndarray, "s"]) -> tuple[UnitStep, ...]:
    """Return every step from one symbol to another over the same words."""
    steps = [UnitStep(unit.left, unit.below, unit.log_weight) for unit in binary.units]
    pairs = binary.pairs
    for here, gone in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        for at in np.flatnonzero(empty[gone] > NEVER):
            steps.append(UnitStep(int(pairs.left[at]), int(here[at]), float(pairs.log_weight[at] + empty[gone[at]])))
    return tuple(steps)


def _above_words(binary: Binary, steps: Sequence[UnitStep]) -> tuple[UnitStep, ...]:
    """Return the steps without those to symbols that derive only the empty string, whose cycles are harmless."""
    pairs = binary.pairs
    found = np.zeros(len(binary.symbols), dtype=bool)
    found[[leaf.left for leaves in binary.words.values() for leaf in leaves]] = True
    left, below = (np.array([step[c] for step in steps], dtype=np.int64) for c in (0, 1))
    size = -1
    while size != found.sum():
        size = found.sum()
        found[pairs.left[found[pairs.first] & found[pairs.second]]] = True
        found[left[found[below]]] = True
    return tuple(step for step in steps if found[step.below])


def empty_weights(binary: Binary, algebra: Algebra) -> Float[np.ndarray, "s"]:
    """Return the log-weight of all derivations of the empty string from each symbol."""
    monomials = _monomials(binary)
    known: dict[int, Decimal] = {}
    empty = np.full(len(binary.symbols), NEVER)
    with localcontext() as context:
        context.prec = _DIGITS
        for part in connected_parts({a: [b for _, parts in sums for b in parts] for a, sums in monomials.items()}):
            if algebra is BEST:
                best = _best(monomials, part, empty)
                if best is None:
                    raise divergence_error(binary.symbols, part, algebra)
                empty[part] = best
            else:
                solution = _newton(*_system(monomials, part, known))
                if solution is None:
                    raise divergence_error(binary.symbols, part, algebra)
                known.update(zip(part, solution, strict=True))
                empty[part] = [float(x.ln()) for x in solution]
    return empty


def _monomials(binary: Binary) -> _Monomials:
    """Return the equations of the symbols that derive the empty string."""
    found: _Monomials = defaultdict(list)
    for leaf in binary.empties:
        found[leaf.left].append((binary.weight(leaf.origin), ()))
    if not found:
        return {}
    rules: list[tuple[int, float, tuple[int, ...]]] = [
        (unit.left, binary.weight(unit.origin), (unit.below,)) for unit in binary.units
    ]
    pairs = binary.pairs
    columns = (column.tolist() for column in (pairs.left, pairs.origin, pairs.first, pairs.second))
    rules += [
        (left, binary.weight(origin), (first, second)) for left, origin, first, second in zip(*columns, strict=True)
    ]
    nullable = set(found)
    size = -1
    while size != len(nullable):
        size = len(nullable)
        nullable.update(left for left, _, parts in rules if nullable.issuperset(parts))
    for left, weight, parts in rules:
        if nullable.issuperset(parts):
            found[left].append((weight, parts))
    return dict(found)


# --- sums ---------------------------------------------------------------------------------------------------


def _system(
    monomials: _Monomials, part: list[int], known: Mapping[int, Decimal]
) -> tuple[list[Decimal], list[dict[int, Decimal]], list[dict[tuple[int, int], Decimal]]]:
    """Return constant, linear and quadratic terms of a component's equations, indexed by position in ``part``."""
    index = {a: at for at, a in enumerate(part)}
    constants = [Decimal(0)] * len(part)
    linear: list[dict[int, Decimal]] = [defaultdict(Decimal) for _ in part]
    quadratic: list[dict[tuple[int, int], Decimal]] = [defaultdict(Decimal) for _ in part]
    for at, a in enumerate(part):
        for exact, symbols in monomials[a]:
            weight = Decimal(exact)
            unknown = [index[b] for b in symbols if b in index]
            for b in symbols:
                weight *= 1 if b in index else known[b]
            if not unknown:
                constants[at] += weight
            elif len(unknown) == 1:
                linear[at][unknown[0]] += weight
            else:
                quadratic[at][unknown[0], unknown[1]] += weight
    return constants, linear, quadratic


def _newton(
    constants: Sequence[Decimal],
    linear: Sequence[Mapping[int, Decimal]],
    quadratic: Sequence[Mapping[tuple[int, int], Decimal]],
) -> list[Decimal] | None:
    """Return the least solution of x = constants + linear x + quadratic x², or None if there is none."""
    n = len(constants)
    x = [Decimal(0)] * n
    for _ in range(_STEPS):
        matrix = [[Decimal(int(a == b)) for b in range(n)] for a in range(n)]  # I - the derivatives
        gap = [-x[a] for a in range(n)]
        for a in range(n):
            gap[a] += constants[a]
            for b, weight in linear[a].items():
                gap[a] += weight * x[b]
                matrix[a][b] -= weight
            for (b, c), weight in quadratic[a].items():
                gap[a] += weight * x[b] * x[c]
                matrix[a][b] -= weight * x[c]
                matrix[a][c] -= weight * x[b]
        step = _solved(matrix, list(gap))
        if step is None:
            # Rounding of the weights may have moved a double root off the real line.
            near = all(g <= _UNAVOIDABLE * v for g, v in zip(gap, x, strict=True))
            return x if near and all(x) else None
        x = [v + d for v, d in zip(x, step, strict=True)]
        if all(abs(d) <= _ENOUGH * v for d, v in zip(step, x, strict=True)):
            return x
    return None


def _solved(matrix: list[list[Decimal]], right: list[Decimal]) -> list[Decimal] | None:
    """Return the solution of a system I - J with J >= 0, or None if the sum of the powers of J is infinite."""
    n = len(right)
    for k in range(n):
        if matrix[k][k] <= 0:
            return None
        for row in range(k + 1, n):
            factor = matrix[row][k] / matrix[k][k]
            if factor:
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[k], strict=True)]
                right[row] -= factor * right[k]
    solution = [Decimal(0)] * n
    for k in reversed(range(n)):
        rest = sum((matrix[k][j] * solution[j] for j in range(k + 1, n)), Decimal(0))
        solution[k] = (right[k] - rest) / matrix[k][k]
    return solution


# --- best weights -------------------------------------------------------------------------------------------


def _best(monomials: _Monomials, part: list[int], empty: Float[np.ndarray, "s"]) -> list[float] | None:
    """Return the best weights of a component. A best derivation, if any, is at most as deep as the component."""
    best = dict.fromkeys(part, NEVER)
    for _ in range(len(part) + 1):
        before = dict(best)
        for a in part:
            sums = (math.log(weight) + sum(before.get(b, empty[b]) for b in parts) for weight, parts in monomials[a])
            best[a] = max(before[a], *map(float, sums), NEVER)
        if all(best[a] <= before[a] + ROUNDING for a in part):
            return list(best.values())
    return None
