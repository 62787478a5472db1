"""Graph layouts: no cycles remain, layers are longest paths, nothing overlaps, few crossings."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.draw.graph_layout import (
    DrawingSize,
    EdgePiece,
    crossings,
    layout_graph,
    longest_paths,
    rising,
    turned_edges,
)


@st.composite
def graphs(draw: st.DrawFn, acyclic: bool = False) -> tuple[int, list[tuple[int, int]]]:
    n = draw(st.integers(1, 8))
    pairs = [(a, b) for a in range(n) for b in range(n) if (a < b if acyclic else a != b)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=14, unique=True)) if pairs else []
    return n, edges


def has_cycle(n: int, edges: list[tuple[int, int]]) -> bool:
    reach = [[(a, b) in edges for b in range(n)] for a in range(n)]
    for k, i, j in itertools.product(range(n), repeat=3):
        reach[i][j] = reach[i][j] or (reach[i][k] and reach[k][j])
    return any(reach[i][i] for i in range(n))


@given(graphs())
def test_turned_edges_remove_all_cycles_and_none_is_unnecessary(graph):
    n, edges = graph
    turned = turned_edges(n, edges)
    forward = [(b, a) if turn else (a, b) for (a, b), turn in zip(edges, turned, strict=True)]
    assert not has_cycle(n, forward)
    if not has_cycle(n, edges):
        assert not any(turned)
    for i, turn in enumerate(turned):
        if turn:
            rest = [edge for j, edge in enumerate(edges) if j == i or not turned[j]]
            assert has_cycle(n, rest), "every turned edge closes a cycle with edges that are not turned"


def test_search_starts_at_given_nodes():
    assert turned_edges(2, [(0, 1), (1, 0)]) == [False, True]
    assert turned_edges(2, [(0, 1), (1, 0)], first=[1]) == [True, False]


@given(graphs(acyclic=True))
def test_layers_are_longest_paths(graph):
    n, edges = graph
    found = longest_paths(n, edges)
    assert n > 0
    for node in range(n):
        before = [found[a] for a, b in edges if b == node]
        assert found[node] == max(before, default=-1) + 1


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.5, 4.0)), min_size=1, max_size=12))
def test_rising_returns_nearest_sequence(pairs):
    """Karush-Kuhn-Tucker conditions: each block is its weighted mean, and no split of it would be increasing."""
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    found = rising(values, weights)
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(found))
    for level, block in itertools.groupby(range(len(found)), key=lambda i: found[i]):
        inside = list(block)
        total = sum(weights[i] for i in inside)
        assert level == pytest.approx(sum(values[i] * weights[i] for i in inside) / total, abs=1e-6)
        for cut in range(1, len(inside)):
            head = inside[:cut]
            mean = sum(values[i] * weights[i] for i in head) / sum(weights[i] for i in head)
            assert mean >= level - 1e-6


def test_crossings_are_counted():
    def pieces(ends: list[list[int]]) -> list[EdgePiece]:
        size = DrawingSize(1.0, 1.0, 1.0, 1.0)
        return [EdgePiece(size, 0, right=right) for right in ends] + [EdgePiece(size, 1) for _ in range(3)]

    assert crossings(pieces([[3], [4], [5]]), [[0, 1, 2], [3, 4, 5]]) == 0
    assert crossings(pieces([[5], [4], [3]]), [[0, 1, 2], [3, 4, 5]]) == 3
    assert crossings(pieces([[3, 5], [4], [4]]), [[0, 1, 2], [3, 4, 5]]) == 2
    assert crossings(pieces([[3, 4], [3, 4], []]), [[0, 1, 2], [3, 4, 5]]) == 1


@settings(max_examples=40)
@given(graphs())
def test_items_of_column_do_not_overlap(graph):
    n, edges = graph
    sizes = [DrawingSize(10.0 + i, 10.0, 12.0 + 5 * (i % 3), 12.0) for i in range(n)]
    labels = [DrawingSize(15.0, 15.0, 8.0 * (1 + i % 2), 8.0) for i in range(len(edges))]
    layout = layout_graph(sizes, edges, labels, (20.0, 6.0))
    taken: dict[int, list[tuple[float, float]]] = {}
    assert len(sizes) > 0
    for size, column, y in zip(sizes, layout.columns, layout.heights, strict=True):
        taken.setdefault(column, []).append((y - size.above, y + size.below))
    for (a, b), label, route in zip(edges, labels, layout.routes, strict=True):
        left, right = (b, a) if route.turned else (a, b)
        assert route.stops[0] == (layout.columns[left], layout.heights[left])
        assert route.stops[-1] == (layout.columns[right], layout.heights[right])
        assert [column for column, _ in route.stops] == list(range(route.stops[0][0], route.stops[-1][0] + 1))
        assert abs(route.stops[route.label][0] - layout.columns[a]) == 1, "the label is next to the source"
        for stop, (column, y) in enumerate(route.stops[1:-1], 1):
            room = (label.above, label.below) if stop == route.label else (1.0, 1.0)
            taken.setdefault(column, []).append((y - room[0], y + room[1]))
    for places in taken.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(places)):
            assert start - end >= 6.0 - 1e-6
    for c in range(1, len(layout.xs)):
        gap = layout.xs[c] - layout.lefts[c] - (layout.xs[c - 1] + layout.rights[c - 1])
        assert gap >= 20.0 - 1e-9


def test_chain_is_straight_line():
    layout = layout_graph(
        [DrawingSize(5.0, 5.0, 5.0, 5.0)] * 4,
        [(0, 1), (1, 2), (2, 3)],
        [DrawingSize(5.0, 5.0, 5.0, 5.0)] * 3,
        (9.0, 9.0),
    )
    assert layout.columns == (0, 2, 4, 6)
    assert set(layout.heights) == {0.0}


def test_order_in_columns_avoids_crossings():
    # 0 leads to 3 and 1 to 2, so in the order of their indices the two edges would cross.
    size = DrawingSize(5.0, 5.0, 5.0, 5.0)
    layout = layout_graph([size] * 4, [(0, 3), (1, 2)], [size] * 2, (9.0, 9.0))
    assert (layout.heights[0] < layout.heights[1]) == (layout.heights[3] < layout.heights[2])


def test_empty_graph_has_empty_layout():
    assert layout_graph([], [], [], (1.0, 1.0)).xs == ()
