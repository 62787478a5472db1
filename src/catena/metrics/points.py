r"""Metrics of sequences of positions: as orders, polygons, triangulations and tours.

.. math::  \text{area} = \frac{1}{n} \sum_i \frac{A(\hat y_i)}{A(y_i)} \qquad
           \text{triangles} = \frac{\sum_i |\hat T_i \cap T_i|}{\sum_i |T_i|} \qquad
           \text{length ratio} = \frac{\sum_i \ell(\hat y_i)}{\sum_i \ell(y_i)}

Vinyals et al. 2015, sections 4.2 to 4.4. A polygon that crosses itself covers nothing. References and predictions are
pairs of points and positions, so that each metric has the points it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from catena.metrics.edits import edit_distance
from catena.metrics.measure import Metric, as_pairs, mean_score, mean_statistics


class PointingResult(NamedTuple):
    """Inputs and the positions pointed at: ``things[j]`` is a point (a tuple of numbers) or a token."""

    things: Sequence[Any]
    positions: tuple[int, ...]


# --- equality of predictions ------------------------------------------------------------------------------------------


def same_sequence(a: PointingResult, b: PointingResult) -> bool:
    """Whether the sequences of positions are equal."""
    return tuple(a.positions) == tuple(b.positions)


def same_values(a: PointingResult, b: PointingResult) -> bool:
    """Whether the sequences of values are equal. The order of equal values does not matter."""
    return [a.things[j] for j in a.positions] == [b.things[j] for j in b.positions]


def same_ring(a: PointingResult, b: PointingResult) -> bool:
    """Whether the rings are equal, regardless of start and direction. A return to the start is ignored."""
    one, other = open_ring(a), open_ring(b)
    if len(one) != len(other):
        return False
    turned = [other[i:] + other[:i] for i in range(len(other))]
    return not one or one in turned or one[::-1] in turned


def same_triangles(a: PointingResult, b: PointingResult) -> bool:
    """Whether the sets of triangles are equal."""
    return triangles(a.positions) == triangles(b.positions)


def open_ring(pointed: PointingResult) -> list[Any]:
    """The points of a ring without the return to the first."""
    p = pointed.positions
    return [pointed.things[j] for j in (p[:-1] if len(p) > 1 and p[0] == p[-1] else p)]


def triangles(positions: Sequence[int]) -> set[frozenset[int]]:
    """The triples of positions, regardless of order."""
    return {frozenset(positions[i : i + 3]) for i in range(0, len(positions) - len(positions) % 3, 3)}


# --- measures ---------------------------------------------------------------------------------------------------------


def exact(name: str, same: Callable[[PointingResult, PointingResult], bool]) -> Metric:
    """The fraction of predictions that are completely correct."""

    def statistics(references: Sequence[PointingResult], predictions: Sequence[PointingResult]) -> np.ndarray:
        right, given = as_pairs("exact", references, predictions)
        return mean_statistics([float(same(a, b)) for a, b in zip(right, given, strict=True)])

    return Metric(f"exact|as:{name}", statistics, mean_score)


def _edits(references: Sequence[PointingResult], predictions: Sequence[PointingResult]) -> np.ndarray:
    right, given = as_pairs("position error", references, predictions)
    counts = [(edit_distance(b.positions, a.positions), len(a.positions)) for a, b in zip(right, given, strict=True)]
    return np.array(counts, np.float64)


def _rate(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1e-300))


POSITION_ERROR = Metric("position_error", _edits, _rate, higher_is_better=False)
"""Edits divided by the number of positions of the references."""


def _areas(references: Sequence[PointingResult], predictions: Sequence[PointingResult]) -> np.ndarray:
    right, given = as_pairs("area", references, predictions)
    shares = []
    for a, b in zip(right, given, strict=True):
        whole = abs(signed_area(open_ring(a)))
        covered = 0.0 if crosses_itself(open_ring(b)) else abs(signed_area(open_ring(b)))
        shares.append(covered / whole if whole else float(same_ring(a, b)))
    return mean_statistics(shares)


AREA = Metric("area|crossing:0", _areas, mean_score)
"""The mean fraction of the hull's area that is covered."""


def _found_triangles(references: Sequence[PointingResult], predictions: Sequence[PointingResult]) -> np.ndarray:
    right, given = as_pairs("triangles", references, predictions)
    sets = [(triangles(a.positions), triangles(b.positions)) for a, b in zip(right, given, strict=True)]
    return np.array([(len(a & b), len(a)) for a, b in sets], np.float64)


TRIANGLES = Metric("triangles", _found_triangles, _rate)
"""The fraction of the reference's triangles that are predicted."""


def _lengths(references: Sequence[PointingResult], predictions: Sequence[PointingResult]) -> np.ndarray:
    right, given = as_pairs("length ratio", references, predictions)
    return np.array([(tour_length(open_ring(b)), tour_length(open_ring(a))) for a, b in zip(right, given, strict=True)])


def _ratio(sums: np.ndarray) -> np.ndarray:
    nothing = sums[..., 1] == 0  # all points coincide, and every tour is as short
    return np.where(nothing, 1.0, sums[..., 0] / np.where(nothing, 1.0, sums[..., 1]))


LENGTH_RATIO = Metric("length_ratio", _lengths, _ratio, higher_is_better=False)
"""The total length of the tours divided by that of the references."""


# --- geometry ---------------------------------------------------------------------------------------------------------


def signed_area(ring: Sequence[Sequence[float]]) -> float:
    """The area of a polygon, positive if it is counterclockwise."""
    pairs = zip(ring, [*ring[1:], *ring[:1]], strict=True)
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs) / 2


def tour_length(ring: Sequence[Sequence[float]]) -> float:
    """The length of the closed tour, in any number of dimensions."""
    steps = np.asarray(ring, np.float64)
    return float(np.sqrt(((steps - np.roll(steps, -1, axis=0)) ** 2).sum(axis=-1)).sum()) if len(steps) else 0.0


def crosses_itself(ring: Sequence[Sequence[float]]) -> bool:
    """Whether two sides of a polygon that are not adjacent cross in their interiors."""
    n = len(ring)
    sides = [(ring[i], ring[(i + 1) % n]) for i in range(n)]
    return any(_cross(*sides[i], *sides[j]) for i in range(n) for j in range(i + 2, n) if (j + 1) % n != i)


def _cross(a: Sequence[float], b: Sequence[float], c: Sequence[float], d: Sequence[float]) -> bool:
    return _turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0


def _turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
