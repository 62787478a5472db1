"""What counts as the same answer, and how much of a polygon, a triangulation or a way is right."""

from __future__ import annotations

import pytest

from catena.errors import DataError
from catena.metrics.points import (
    AREA,
    LENGTH_RATIO,
    POSITION_ERROR,
    TRIANGLES,
    PointingResult,
    crosses_itself,
    exact,
    same_ring,
    same_sequence,
    same_triangles,
    same_values,
    signed_area,
    tour_length,
)

SQUARE = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.5, 0.25)]


def on(*positions: int) -> PointingResult:
    return PointingResult(SQUARE, positions)


def test_rings_are_the_same_wherever_they_begin_and_whichever_way_they_go() -> None:
    assert same_ring(on(0, 1, 2, 3, 0), on(2, 3, 0, 1, 2))
    assert same_ring(on(0, 1, 2, 3), on(1, 0, 3, 2, 1))
    assert not same_ring(on(0, 1, 2, 3), on(0, 2, 1, 3))
    assert not same_ring(on(0, 1, 2), on(0, 1, 2, 3))
    assert same_ring(on(), on())
    twins = PointingResult([(0.0, 0.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], (0, 2, 3))
    assert same_ring(twins, twins._replace(positions=(1, 2, 3))), "equal points stand for each other"


def test_orders_and_triangles() -> None:
    equal = PointingResult([(3.0,), (1.0,), (1.0,)], (1, 2, 0))
    other = equal._replace(positions=(2, 1, 0))
    assert same_values(equal, other)
    assert not same_sequence(equal, other)
    assert same_triangles(on(0, 1, 4, 1, 2, 4), on(4, 2, 1, 1, 0, 4))
    assert not same_triangles(on(0, 1, 4), on(0, 1, 2))
    assert exact("ring", same_ring)([on(0, 1, 2), on(0, 1, 2)], [on(1, 2, 0), on(0, 1)]) == 0.5


def test_area_is_the_share_that_is_covered_and_a_crossing_covers_nothing() -> None:
    hull = on(0, 1, 2, 3, 0)
    assert AREA([hull], [on(0, 1, 2, 0)]) == 0.5
    assert AREA([hull, hull], [hull, on(0, 2, 1, 3, 0)]) == 0.5
    assert AREA([hull], [on(3, 2, 1, 0, 3)]) == 1.0
    assert AREA([on(3, 2, 1, 0, 3)], [on(0, 1, 2, 0)]) == 0.5, "a hull in the other direction"
    assert AREA([hull], [on(0, 1, 3, 4, 2, 0)]) == 0.0, "it crosses itself, and goes more around one side"
    line = PointingResult([(0.0, 0.0), (1.0, 1.0)], (0, 1, 0))
    assert AREA([line], [line]) == 1.0
    assert AREA([line], [line._replace(positions=(0, 0))]) == 0.0


def test_crossings_are_between_sides_that_are_not_neighbors() -> None:
    assert crosses_itself([SQUARE[k] for k in (0, 2, 1, 3)])
    assert crosses_itself([SQUARE[k] for k in (0, 1, 3, 2)])
    assert not crosses_itself([SQUARE[k] for k in (0, 4, 1, 2, 3)])
    assert not crosses_itself(SQUARE[:2])
    assert signed_area(SQUARE[:4]) == 1.0 == -signed_area(SQUARE[3::-1])


def test_triangles_edits_and_lengths() -> None:
    assert TRIANGLES([on(0, 1, 4, 1, 2, 4)], [on(4, 1, 0)]) == 0.5
    assert TRIANGLES([on(0, 1, 4, 1, 2, 4)], [on(4, 1, 0, 0, 1, 2)]) == 0.5, "wrong ones find nothing"
    assert TRIANGLES([on()], [on()]) == 0.0
    assert POSITION_ERROR([on(0, 1, 2, 3)], [on(0, 2, 3)]) == 0.25
    assert tour_length([SQUARE[k] for k in (0, 1, 2, 3)]) == 4.0
    assert tour_length([]) == 0.0
    assert LENGTH_RATIO([on(0, 1, 2, 3)], [on(0, 2, 1, 3)]) == pytest.approx((2 + 2 * 2**0.5) / 4)
    assert LENGTH_RATIO([PointingResult([(1.0, 1.0)], (0,))], [PointingResult([(1.0, 1.0)], (0,))]) == 1.0
    with pytest.raises(DataError, match="one prediction for each"):
        AREA([on(0)], [])
