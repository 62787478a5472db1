"""Exact answers for many small sets of points in the plane: convex hulls, Delaunay triangles, shortest round trips.

Every answer is written in one form that does not depend on the order of the points: points are ranked from left to
right (from below where they are level, then by position), what may begin anywhere begins at the first of them, and
what may go either way goes counterclockwise. Loops take ``points[i, j]``, the place of point ``j`` of set ``i``, and
fill positions into ``found[i]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_function, jit_inline

_TIE = 1e-10
"""By how much points are lifted, in the order of their ranks, so that of points on one circle some triangles are chosen
that do not overlap. Coordinates are between 0 and 1."""

MOST_FOR_TOURS = 12
"""Points of the largest set that a shortest round trip is found for."""


@jit_inline()
def _turn(p: Any, a: int, b: int, c: int) -> float:
    """Twice the area of a triangle; above 0 where its corners go counterclockwise."""
    return (p[b, 0] - p[a, 0]) * (p[c, 1] - p[a, 1]) - (p[b, 1] - p[a, 1]) * (p[c, 0] - p[a, 0])


@jit_function()
def _ranked(p: Any, s: int) -> Any:
    """The positions from left to right, by insertion."""
    order = np.arange(s)
    for i in range(1, s):
        j = i
        k = order[i]
        while j > 0:
            m = order[j - 1]
            if p[m, 0] < p[k, 0] or (p[m, 0] == p[k, 0] and p[m, 1] <= p[k, 1]):
                break
            order[j] = m
            j -= 1
        order[j] = k
    return order


@jit("d3", "i1", "i2", "i1")
def hulls(points: Any, sizes: Any, found: Any, lengths: Any) -> None:
    """The corners of the convex hull, and the first of them again (Andrew 1979, monotone chain). Time O(s²) for the
    sorting of few points. Points between two corners are none."""
    for i in range(points.shape[0]):
        p = points[i]
        s = sizes[i]
        order = _ranked(p, s)
        row = found[i]
        n = 0
        for side in range(2):
            base = n
            for step in range(s):
                k = order[step] if side == 0 else order[s - 1 - step]
                while n - base >= 2 and _turn(p, row[n - 2], row[n - 1], k) <= 0:
                    n -= 1
                same = n > base and p[row[n - 1], 0] == p[k, 0] and p[row[n - 1], 1] == p[k, 1]
                if not same:
                    row[n] = k
                    n += 1
            n -= 1  # the last of one side is the first of the other
        if n == 0:
            n = 1
        row[0] = order[0]
        row[n] = order[0]
        lengths[i] = n + 1


@jit_function()
def _below(p: Any, lift: Any, a: int, b: int, c: int, k: int) -> bool:
    """Whether point k lies in the circle through a, b, c, given counterclockwise.

    It does if it is below their plane when every point is lifted by its squared distance from the origin.
    """
    ax = p[a, 0] - p[k, 0]
    ay = p[a, 1] - p[k, 1]
    az = lift[a] - lift[k]
    bx = p[b, 0] - p[k, 0]
    by = p[b, 1] - p[k, 1]
    bz = lift[b] - lift[k]
    cx = p[c, 0] - p[k, 0]
    cy = p[c, 1] - p[k, 1]
    cz = lift[c] - lift[k]
    return ax * (by * cz - bz * cy) - ay * (bx * cz - bz * cx) + az * (bx * cy - by * cx) > 0


@jit("d3", "i1", "i2", "i1")
def triangulations(points: Any, sizes: Any, found: Any, lengths: Any) -> None:
    """The Delaunay triangles: those whose circle has no other point in it. Three positions each, by rank, and the
    triangles by their ranks. Tries all, O(s⁴) at worst, but most are refuted by the first few points."""
    for i in range(points.shape[0]):
        p = points[i]
        s = sizes[i]
        order = _ranked(p, s)
        lift = np.empty(s)
        single = np.empty(s, np.bool_)
        for r in range(s):
            k = order[r]
            lift[k] = p[k, 0] * p[k, 0] + p[k, 1] * p[k, 1] + _TIE * r * r
            single[r] = r == 0 or p[k, 0] != p[order[r - 1], 0] or p[k, 1] != p[order[r - 1], 1]
        n = 0
        for x in range(s):
            for y in range(x + 1, s):
                for z in range(y + 1, s):
                    if not (single[x] and single[y] and single[z]):
                        continue
                    a, b, c = order[x], order[y], order[z]
                    turn = _turn(p, a, b, c)
                    if turn == 0 or n + 3 > found.shape[1]:
                        continue
                    if turn < 0:
                        b, c = c, b
                    empty = True
                    for r in range(s):
                        if single[r] and r not in (x, y, z) and _below(p, lift, a, b, c, order[r]):
                            empty = False
                            break
                    if empty:
                        found[i, n], found[i, n + 1], found[i, n + 2] = order[x], order[y], order[z]
                        n += 3
        lengths[i] = n


@jit("d3", "i1", "i2", "i1")
def tours(points: Any, sizes: Any, found: Any, lengths: Any) -> None:
    """The shortest round trip over all points (Held & Karp 1962), by the shortest ways over each subset. Time
    O(2^s s²), memory O(2^s s)."""
    most = points.shape[1] - 1
    best = np.empty((1 << most, most)) if most > 0 else np.empty((1, 1))
    away = np.empty((points.shape[1], points.shape[1]))
    members = np.empty(max(most, 1), np.int64)
    for i in range(points.shape[0]):
        p = points[i]
        s = sizes[i]
        order = _ranked(p, s)
        row = found[i]
        m = s - 1
        for a in range(s):
            for b in range(s):
                x = p[order[a], 0] - p[order[b], 0]
                y = p[order[a], 1] - p[order[b], 1]
                away[a, b] = np.sqrt(x * x + y * y)
        row[0] = order[0]
        lengths[i] = s
        for mask in range(1, 1 << m):
            n = 0
            for k in range(m):
                members[n] = k
                n += mask >> k & 1
            for a in range(n):
                j = members[a]
                rest = mask ^ (1 << j)
                least = away[0, j + 1] if rest == 0 else np.inf
                for b in range(n):
                    if b != a:
                        least = min(least, best[rest, members[b]] + away[members[b] + 1, j + 1])
                best[mask, j] = least
        mask = (1 << m) - 1
        last = 0
        for place in range(s - 1, 0, -1):  # back from the first point
            chosen = -1
            least = np.inf
            for k in range(m):
                if mask >> k & 1 and best[mask, k] + away[k + 1, last] < least:
                    chosen = k
                    least = best[mask, k] + away[k + 1, last]
            row[place] = order[chosen + 1]
            mask = mask ^ (1 << chosen)
            last = chosen + 1
        area = 0.0
        for a in range(s):
            b = (a + 1) % s
            area += p[row[a], 0] * p[row[b], 1] - p[row[b], 0] * p[row[a], 1]
        if area < 0:
            for a in range(1, (s + 1) // 2):
                row[a], row[s - a] = row[s - a], row[a]
