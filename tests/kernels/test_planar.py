"""Hulls, triangles and round trips of points against plain enumeration."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise, permutations
from math import dist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.kernels.geometry.cpu import hulls, tours, triangulations

Points = list[tuple[float, float]]


def run(loop: Callable[..., None], sets: list[Points], room: int) -> list[list[int]]:
    """The answers for sets of different sizes in one call."""
    s = max(map(len, sets))
    padded = np.full((len(sets), s, 2), np.nan)
    for row, points in zip(padded, sets, strict=True):
        row[: len(points)] = points
    sizes = np.array([len(points) for points in sets])
    found, lengths = np.full((len(sets), room), -1), np.zeros(len(sets), np.int64)
    loop(padded, sizes, found, lengths)
    return [row[:n].tolist() for row, n in zip(found, lengths, strict=True)]


def turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> Fraction:
    (ax, ay), (bx, by), (cx, cy) = (tuple(map(Fraction, p)) for p in (a, b, c))
    return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)


def on_a_grid(least: int, most: int) -> st.SearchStrategy[list[Points]]:
    """Sets with many equal points, points on a line and points on a circle; eighths have no rounding."""
    point = st.tuples(*(st.integers(0, 4).map(lambda k: k / 4.0),) * 2)
    return st.lists(st.lists(point, min_size=least, max_size=most), min_size=1, max_size=3)


def scattered(n: int, s: int, seed: int = 0) -> list[Points]:
    return [[(x, y) for x, y in points] for points in np.random.default_rng(seed).random((n, s, 2)).tolist()]


def check_hull(points: Points, found: list[int]) -> None:
    assert found[0] == found[-1]
    assert points[found[0]] == min(points)
    ring = [points[k] for k in found]
    assert len(set(ring)) == len(ring) - 1, "no corner comes twice"
    corners = set()
    for p in set(points):
        others = sorted(set(points) - {p})
        inside = any(turn(a, b, p) == 0 and dist(a, b) == dist(a, p) + dist(p, b) for a, b in combinations(others, 2))
        inside = inside or any(
            min(turn(a, b, p) * s, turn(b, c, p) * s, turn(c, a, p) * s) > 0
            for a, b, c in combinations(others, 3)
            for s in (1, -1)
        )
        if not inside:
            corners.add(p)
    between = {
        p
        for p in corners
        for a, b in combinations(sorted(corners - {p}), 2)
        if turn(a, b, p) == 0 and min(a, b) <= p <= max(a, b)
    }
    assert set(ring) == corners - between
    if len(ring) > 3:
        assert all(turn(a, b, c) > 0 for a, b, c in zip(ring[:-1], ring[1:], [*ring[2:], ring[1]], strict=True))


@settings(max_examples=60, deadline=None)
@given(on_a_grid(1, 8))
def test_hull_has_exactly_the_corners(sets: list[Points]) -> None:
    for points, found in zip(sets, run(hulls, sets, 10), strict=True):
        check_hull(points, found)


def test_hulls_of_scattered_points() -> None:
    sets = scattered(20, 9)
    assert len(sets) > 0
    for points, found in zip(sets, run(hulls, sets, 11), strict=True):
        check_hull(points, found)


def in_circle(a: Any, b: Any, c: Any, p: Any) -> Fraction:
    """Above 0 where p lies inside the circle through a, b, c."""
    rows = [[Fraction(q[i]) - Fraction(p[i]) for i in range(2)] for q in (a, b, c)]
    (ax, ay), (bx, by), (cx, cy) = rows
    az, bz, cz = (x * x + y * y for x, y in rows)
    det = ax * (by * cz - bz * cy) - ay * (bx * cz - bz * cx) + az * (bx * cy - by * cx)
    return det if turn(a, b, c) > 0 else -det


def area(points: Points, ring: list[int]) -> Fraction:
    first = points[ring[0]]
    return sum((turn(first, points[a], points[b]) for a, b in pairwise(ring)), Fraction(0))


@settings(max_examples=40, deadline=None)
@given(on_a_grid(1, 8))
def test_triangles_have_empty_circles_and_fill_the_hull(sets: list[Points]) -> None:
    answers = run(triangulations, sets, 60)
    for points, found, hull in zip(sets, answers, run(hulls, sets, 10), strict=True):
        triples = [tuple(found[i : i + 3]) for i in range(0, len(found), 3)]
        assert len(found) % 3 == 0
        assert len(set(triples)) == len(triples) <= max(2 * len(points) - 5, 0)
        covered = Fraction(0)
        for a, b, c in triples:
            corners = [points[k] for k in (a, b, c)]
            assert corners == sorted(corners)
            covered += abs(turn(*corners))
            assert not any(in_circle(*corners, p) > 0 for p in points)
        assert covered == area(points, hull), "they do not overlap, and leave no hole"
        ranks = sorted(range(len(points)), key=lambda k: (points[k], k))
        order = [tuple(ranks.index(k) for k in triple) for triple in triples]
        assert order == sorted(order)


def test_triangles_of_scattered_points() -> None:
    sets = scattered(10, 8, seed=3)
    assert len(sets) > 0
    for points, found in zip(sets, run(triangulations, sets, 60), strict=True):
        wanted = {
            frozenset(three)
            for three in combinations(range(8), 3)
            if not any(in_circle(*[points[k] for k in three], p) > 0 for p in points)
        }
        assert {frozenset(found[i : i + 3]) for i in range(0, len(found), 3)} == wanted


@settings(max_examples=25, deadline=None)
@given(on_a_grid(1, 6))
def test_tour_is_the_shortest(sets: list[Points]) -> None:
    check_tours(sets)


def test_tours_of_scattered_points_begin_at_the_left_and_go_counterclockwise() -> None:
    sets = scattered(12, 7, seed=5)
    assert len(sets) > 0
    for points, found in zip(sets, check_tours(sets), strict=True):
        assert points[found[0]] == min(points)
        assert area(points, [*found, found[0]]) > 0


def check_tours(sets: list[Points]) -> list[list[int]]:
    answers = run(tours, sets, max(map(len, sets)))
    assert answers
    for points, found in zip(sets, answers, strict=True):
        assert sorted(found) == list(range(len(points)))
        best = min(length(points, (0, *rest)) for rest in permutations(range(1, len(points))))
        assert length(points, tuple(found)) == pytest.approx(best, abs=1e-12)
    return answers


def length(points: Points, way: tuple[int, ...]) -> float:
    return sum(dist(points[a], points[b]) for a, b in zip(way, (*way[1:], way[0]), strict=True))
