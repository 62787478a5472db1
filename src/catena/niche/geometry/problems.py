"""Problems with generated data: random points and exact solutions.

Each is a :class:`PointProblem`: how its points are sampled, its exact solution, the rule for allowed positions and its
metrics. Solutions have a canonical form that does not depend on the order of the points
(:mod:`catena.kernels.geometry.cpu`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from catena._lazy import LazyModule
from catena.errors import DataError
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

_kernels = LazyModule("catena.kernels.geometry.cpu")
_Answers = tuple[Int[np.ndarray, "n t"], Int[np.ndarray, " n"]]
"""Positions, padded with 0, and their lengths."""


@dataclass(frozen=True)
class PointProblem:
    """A problem on sets of points.

    Args:
        rule: name of the rule for allowed positions in :mod:`catena.seq2seq.pointing`.
        measures: the metrics by name; the first one chooses the best checkpoint.
        n_features: number of coordinates of a point; 0 for any.
        solve: maps points in [0, 1] and the size of each set to the exact positions; None if only files have them.
    """

    rule: str
    measures: dict[str, Metric]
    n_features: int = 0
    solve: Callable[[Float[np.ndarray, "n s f"], Int[np.ndarray, " n"]], _Answers] | None = None


def _sorted(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> _Answers:
    beyond = np.arange(points.shape[1]) >= sizes[:, None]
    return np.argsort(np.where(beyond, np.inf, points[..., 0]), axis=1, kind="stable"), sizes.copy()


def _by(loop: str, room: Callable[[int], int]) -> Callable[..., _Answers]:
    def solve(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> _Answers:
        n, s, _ = points.shape
        found, lengths = np.zeros((n, room(s)), np.int64), np.zeros(n, np.int64)
        getattr(_kernels, loop)(np.ascontiguousarray(points), np.ascontiguousarray(sizes, np.int64), found, lengths)
        return found[:, : max(int(lengths.max(initial=0)), 1)], lengths

    return solve


def _toured(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> _Answers:
    if points.shape[1] > _kernels.MOST_FOR_TOURS:
        raise DataError(
            f"A set must have at most {_kernels.MOST_FOR_TOURS} points to compute its shortest round trip, got "
            f"{points.shape[1]}. Lower data.size, or use files with targets."
        )
    return _by("tours", lambda s: s)(points, sizes)


PROBLEMS: dict[str, PointProblem] = {
    "own": PointProblem("any", {"exact": exact("sequence", same_sequence), "position_error": POSITION_ERROR}),
    "sort": PointProblem(
        "order", {"exact": exact("values", same_values), "position_error": POSITION_ERROR}, n_features=1, solve=_sorted
    ),
    "hull": PointProblem(
        "ring", {"exact": exact("ring", same_ring), "area": AREA}, n_features=2, solve=_by("hulls", lambda s: s + 2)
    ),
    "delaunay": PointProblem(
        "triples",
        {"triangles": TRIANGLES, "exact": exact("triangles", same_triangles)},
        n_features=2,
        solve=_by("triangulations", lambda s: 3 * max(2 * s - 5, 1)),
    ),
    "tsp": PointProblem(
        "order", {"length_ratio": LENGTH_RATIO, "exact": exact("ring", same_ring)}, n_features=2, solve=_toured
    ),
}
"""The problems by the values of data.problem; only files have the targets of ``own``."""


def draw(
    problem: str, n: int, sizes: tuple[int, int], values: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "n s f"], Int[np.ndarray, " n"]]:
    """``n`` random sets of points and their sizes.

    Points are uniform in the unit square. Numbers to sort are distinct integers below ``values``, divided by it, or
    uniform in [0, 1] if ``values`` is 0.

    Args:
        problem: a key of :data:`PROBLEMS`.
        n: number of sets.
        sizes: smallest and largest size of a set.
        values: upper bound of the integers to sort.
        generator: source of random numbers.
    """
    low, high = sizes
    counts = generator.integers(low, high + 1, n) if low < high else np.full(n, high)
    if problem == "sort" and values:
        if high > values:
            raise DataError(
                f"data.values must be at least data.size = {high} to sort distinct integers, got {values}. Raise it."
            )
        picked = generator.random((n, values)).argpartition(high - 1, axis=1)[:, :high]
        points = generator.permuted(picked, axis=1)[..., None] / values
    else:
        points = generator.random((n, high, PROBLEMS[problem].n_features))
    beyond = np.arange(high) >= counts[:, None]
    return np.where(beyond[..., None], 0.0, points), counts
