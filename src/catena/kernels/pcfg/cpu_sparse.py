"""The dynamic program over spans with sparse rules: the best, the sums, and how often each symbol is expected.

Rules ``left -> first second`` are given by their first symbol: those of symbol ``b`` are ``starts[b]`` up to
``starts[b + 1]`` in ``seconds``, ``lefts`` and ``weights``. Chains of unit rules are given by what is below: those
that lead down to ``b`` are ``chain_starts[b]`` up to ``chain_starts[b + 1]`` in ``aboves`` and ``chain_weights``,
closed, and so taken once. Charts are ``[i, j, a]``, symbol ``a`` over the words from ``i`` up to ``j``. Where
``bars[i, j]`` is not -1, only symbols ``a`` with ``allowed[bars[i, j], a]`` may be rewritten to pairs or words there.

Only rules are touched whose first symbol is in a cell. The sums are of plain numbers, scaled in each cell so that the
largest is 1: a product and a sum for each rule in place of a logarithm. What is 1e-300 of the largest in its cell is
lost. Time O(t³ r), memory O(t² s).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_function, jit_inline


@jit_function()
def _listed(cell: Any, nothing: float, starts: Any, present: Any) -> int:
    """Write down the symbols of a cell that some rule begins with; returns how many they are."""
    n = 0
    for a in range(cell.shape[0]):
        if cell[a] > nothing and starts[a + 1] > starts[a]:
            present[n] = a
            n += 1
    return n


@jit_function()
def _bar(cell: Any, nothing: float, bar: int, allowed: Any) -> None:
    """Take the symbols out of a cell that may not be rewritten there."""
    if bar >= 0:
        for a in range(cell.shape[0]):
            if not allowed[bar, a]:
                cell[a] = nothing


@jit_inline()
def _leveled(cell: Any, base: float) -> float:
    """Divide a cell by its largest number; what its scale is then, -inf where all are 0."""
    most = 0.0
    for a in range(cell.shape[0]):
        most = max(most, cell[a])
    if most == 0.0:
        return -np.inf
    for a in range(cell.shape[0]):
        cell[a] /= most
    return base + np.log(most)


@jit("3", "i1", "i1", "i1", "1", "i1", "i1", "1", "i2", "b2", "1", "f")
def fill_best(
    values: Any,
    starts: Any,
    seconds: Any,
    lefts: Any,
    weights: Any,
    chain_starts: Any,
    aboves: Any,
    chain_weights: Any,
    bars: Any,
    allowed: Any,
    prior: Any,
    beam: float,
) -> None:
    """Log-weights of the best ways. Cells of single words hold those of their tags, all others -inf.

    A symbol whose log-weight and prior fall short of the best in its cell by more than ``beam`` is dropped, before
    chains are added: what a chain leads down to is thus always there.
    """
    t, c = values.shape[0], values.shape[2]
    present = np.empty((t, t + 1, c), np.int32)
    counts = np.zeros((t, t + 1), np.int64)
    below = np.empty(c, values.dtype)
    for width in range(1, t + 1):
        for i in range(t - width + 1):
            j = i + width
            cell = values[i, j]
            for k in range(i + 1, j):
                left, right = values[i, k], values[k, j]
                for n in range(counts[i, k]):
                    b = present[i, k, n]
                    x = left[b]
                    for r in range(starts[b], starts[b + 1]):
                        value = x + right[seconds[r]] + weights[r]
                        if value > cell[lefts[r]]:
                            cell[lefts[r]] = value
            _bar(cell, -np.inf, bars[i, j], allowed)
            if beam < np.inf and width < t:
                most = -np.inf
                for a in range(c):
                    most = max(most, cell[a] + prior[a])
                for a in range(c):
                    if cell[a] + prior[a] < most - beam:
                        cell[a] = -np.inf
            below[:] = cell
            for b in range(c):
                if below[b] > -np.inf:
                    for r in range(chain_starts[b], chain_starts[b + 1]):
                        value = below[b] + chain_weights[r]
                        if value > cell[aboves[r]]:
                            cell[aboves[r]] = value
            counts[i, j] = _listed(cell, -np.inf, starts, present[i, j])


@jit("3", "2", "i1", "i1", "i1", "1", "i1", "i1", "1", "i2", "b2", "1", "f")
def fill_sums(
    values: Any,
    scales: Any,
    starts: Any,
    seconds: Any,
    lefts: Any,
    weights: Any,
    chain_starts: Any,
    aboves: Any,
    chain_weights: Any,
    bars: Any,
    allowed: Any,
    prior: Any,
    beam: float,
) -> None:
    """Sums of weights: ``values[i, j, a] exp(scales[i, j])``. Cells of single words hold their tags' weights, scale 0.

    Weights are plain numbers. A symbol whose weight times prior is below ``beam`` times the largest is dropped.
    """
    t, c = values.shape[0], values.shape[2]
    present = np.empty((t, t + 1, c), np.int32)
    counts = np.zeros((t, t + 1), np.int64)
    below = np.empty(c, values.dtype)
    for width in range(1, t + 1):
        for i in range(t - width + 1):
            j = i + width
            cell = values[i, j]
            base = 0.0 if width == 1 else -np.inf
            for k in range(i + 1, j):
                base = max(base, scales[i, k] + scales[k, j])
            if base == -np.inf:
                scales[i, j] = -np.inf
                continue
            for k in range(i + 1, j):
                factor = np.exp(scales[i, k] + scales[k, j] - base)
                if factor == 0.0:
                    continue
                left, right = values[i, k], values[k, j]
                for n in range(counts[i, k]):
                    b = present[i, k, n]
                    x = left[b] * factor
                    for r in range(starts[b], starts[b + 1]):
                        cell[lefts[r]] += x * right[seconds[r]] * weights[r]
            _bar(cell, 0.0, bars[i, j], allowed)
            if beam > 0.0 and width < t:
                likely = 0.0
                for a in range(c):
                    likely = max(likely, cell[a] * prior[a])
                for a in range(c):
                    if cell[a] * prior[a] < beam * likely:
                        cell[a] = 0.0
            below[:] = cell
            for b in range(c):
                if below[b] > 0.0:
                    for r in range(chain_starts[b], chain_starts[b + 1]):
                        cell[aboves[r]] += below[b] * chain_weights[r]
            scales[i, j] = _leveled(cell, base)
            counts[i, j] = _listed(cell, 0.0, starts, present[i, j])


@jit_function()
def _add_firsts(
    cell: Any, parent: Any, sister: Any, factor: float, firsts: Any, starts: Any, seconds: Any, lefts: Any, weights: Any
) -> None:
    """Add to each symbol of a cell what is around it where it is the first of a pair, beside a sister."""
    for b in firsts:
        total = 0.0
        for r in range(starts[b], starts[b + 1]):
            total += parent[lefts[r]] * sister[seconds[r]] * weights[r]
        cell[b] += total * factor


@jit_function()
def _add_seconds(
    cell: Any, parent: Any, sister: Any, factor: float, firsts: Any, starts: Any, seconds: Any, lefts: Any, weights: Any
) -> None:
    """The same where it is the second; ``firsts`` are the symbols of the sister."""
    for b in firsts:
        x = sister[b] * factor
        for r in range(starts[b], starts[b + 1]):
            cell[seconds[r]] += x * parent[lefts[r]] * weights[r]


@jit("3", "2", "3", "2", "i1", "i1", "i1", "1", "i1", "i1", "1", "i")
def fill_outside(
    outside: Any,
    outside_scales: Any,
    inside: Any,
    inside_scales: Any,
    starts: Any,
    seconds: Any,
    lefts: Any,
    weights: Any,
    chain_starts: Any,
    aboves: Any,
    chain_weights: Any,
    top: int,
) -> None:
    """The weight of all that is around a symbol, chains above it included: ``outside[i, j, a] exp(outside_scales)``.

    The outside chart comes in as zeros; ``top`` is the symbol over the whole sentence.
    """
    t, c = inside.shape[0], inside.shape[2]
    present = np.empty((t, t + 1, c), np.int32)
    counts = np.zeros((t, t + 1), np.int64)
    above = np.empty(c, inside.dtype)
    for i in range(t):
        for j in range(i + 1, t + 1):
            if inside_scales[i, j] > -np.inf:
                counts[i, j] = _listed(inside[i, j], 0.0, starts, present[i, j])
    for width in range(t, 0, -1):
        for i in range(t - width + 1):
            j = i + width
            cell = outside[i, j]
            mine = inside[i, j]
            base = 0.0 if width == t else -np.inf
            for k in range(j + 1, t + 1):
                base = max(base, outside_scales[i, k] + inside_scales[j, k])
            for h in range(i):
                base = max(base, outside_scales[h, j] + inside_scales[h, i])
            if base == -np.inf or inside_scales[i, j] == -np.inf:
                outside_scales[i, j] = -np.inf
                continue
            if width == t:
                cell[top] = 1.0
            for k in range(j + 1, t + 1):
                factor = np.exp(outside_scales[i, k] + inside_scales[j, k] - base)
                if factor != 0.0:
                    firsts = present[i, j, : counts[i, j]]
                    _add_firsts(cell, outside[i, k], inside[j, k], factor, firsts, starts, seconds, lefts, weights)
            for h in range(i):
                factor = np.exp(outside_scales[h, j] + inside_scales[h, i] - base)
                if factor != 0.0:
                    firsts = present[h, i, : counts[h, i]]
                    _add_seconds(cell, outside[h, j], inside[h, i], factor, firsts, starts, seconds, lefts, weights)
            above[:] = cell
            for a in range(c):
                total = above[a]
                for r in range(chain_starts[a], chain_starts[a + 1]):
                    total += above[aboves[r]] * chain_weights[r]
                cell[a] = total if mine[a] > 0.0 else 0.0
            outside_scales[i, j] = _leveled(cell, base)
