"""The problems that data can be made for without end: drawn by a seed, answered exactly.

Each is a :class:`PointProblem`: how its points are drawn, what is right, what may be pointed at, and how answers are
scored.
Answers are written in one form that does not depend on the order of the points (:mod:`catena.kernels.geometry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError
from catena.kernels.geometry import MOST_FOR_TOURS, hulls, tours, triangulations
from catena.metrics.measure import Metric
from catena.metrics.points import (
    AREA,
    LENGTH_RATIO,
    POSITION_ERROR,
    TRIANGLES,
    exact,
    same_ring,
    same_sequence,
    same_triangles,
    same_values,
)

_Answers = tuple[Int[np.ndarray, "n t"], Int[np.ndarray, " n"]]
"""Positions, filled up with 0, and how many of them are real."""


@dataclass(frozen=True)
class PointProblem:
    """What is asked of a set of points.

    Args:
        rule: what may be pointed at, a name in :mod:`catena.seq2seq.pointing`.
        measures: what is scored, by name; the first decides which checkpoint is best.
        lower: whether a smaller value of the first is the better one.
        n_features: numbers of a point; 0 where any are read.
        solve: from points between 0 and 1 and the size of each set to the right positions; None where only files know
            them.
    """

    rule: str
    measures: dict[str, Metric]
    lower: bool = False
    n_features: int = 0
    solve: Callable[[Float[np.ndarray, "n s f"], Int[np.ndarray, " n"]], _Answers] | None = None


def _sorted(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> _Answers:
    beyond = np.arange(points.shape[1]) >= sizes[:, None]
    return np.argsort(np.where(beyond, np.inf, points[..., 0]), axis=1, kind="stable"), sizes.copy()


def _by(loop: Callable[..., None], room: Callable[[int], int]) -> Callable[..., _Answers]:
    def solve(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> _Answers:
        n, s, _ = points.shape
        found, lengths = np.zeros((n, room(s)), np.int64), np.zeros(n, np.int64)
        loop(np.ascontiguousarray(points), np.ascontiguousarray(sizes, np.int64), found, lengths)
        return found[:, : max(int(lengths.max(initial=0)), 1)], lengths

    return solve


def _toured(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> _Answers:
    if points.shape[1] > MOST_FOR_TOURS:
        raise DataError(
            f"the shortest round trip is found for up to {MOST_FOR_TOURS} points, and here are {points.shape[1]}: "
            f"make data.size smaller, or give files with targets"
        )
    return _by(tours, lambda s: s)(points, sizes)


PROBLEMS: dict[str, PointProblem] = {
    "own": PointProblem("any", {"exact": exact("sequence", same_sequence), "position_error": POSITION_ERROR}),
    "sort": PointProblem(
        "order", {"exact": exact("values", same_values), "position_error": POSITION_ERROR}, n_features=1, solve=_sorted
    ),
    "hull": PointProblem(
        "ring", {"exact": exact("ring", same_ring), "area": AREA}, n_features=2, solve=_by(hulls, lambda s: s + 2)
    ),
    "delaunay": PointProblem(
        "triples",
        {"triangles": TRIANGLES, "exact": exact("triangles", same_triangles)},
        n_features=2,
        solve=_by(triangulations, lambda s: 3 * max(2 * s - 5, 1)),
    ),
    "tsp": PointProblem(
        "order", {"length_ratio": LENGTH_RATIO, "exact": exact("ring", same_ring)}, True, n_features=2, solve=_toured
    ),
}
"""By the names that data.problem takes; ``own`` is what files alone know."""


def draw(
    problem: str, n: int, sizes: tuple[int, int], values: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "n s f"], Int[np.ndarray, " n"]]:
    """``n`` sets of points and their sizes, which are drawn between the two given.

    Points lie evenly in the unit square. Numbers to sort are different whole numbers below ``values``, divided by it;
    with 0 ``values`` they are any between 0 and 1.
    """
    low, high = sizes
    counts = generator.integers(low, high + 1, n) if low < high else np.full(n, high)
    if problem == "sort" and values:
        if high > values:
            raise DataError(
                f"data.size = {high} different whole numbers are drawn below data.values = {values}: make it larger"
            )
        picked = generator.random((n, values)).argpartition(high - 1, axis=1)[:, :high]
        points = generator.permuted(picked, axis=1)[..., None] / values
    else:
        points = generator.random((n, high, PROBLEMS[problem].n_features))
    beyond = np.arange(high) >= counts[:, None]
    return np.where(beyond[..., None], 0.0, points), counts
