"""Layered layout of directed graphs from left to right, with a separate slot for each edge in each column it crosses.

The steps of Sugiyama et al. (1981), each in a simple form:

1. reverse the edges that close a cycle in a depth-first search;
2. the layer of a node is the length of the longest path to it (Kahn's algorithm);
3. layers are two columns apart: the column between holds the edge labels;
4. nodes of a column are sorted by the mean position of their neighbors, sweeping back and forth; the order with the
   fewest crossings is kept;
5. heights are the mean heights of the neighbors, moved apart if they are too close: the least-squares solution, by
   merging blocks (pool adjacent violators).

The module only sees sizes and returns positions.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

SWEEPS, HEIGHT_SWEEPS = 8, 24


class DrawingSize(NamedTuple):
    """The space that an item needs around its center."""

    left: float
    right: float
    above: float
    below: float


@dataclass(frozen=True)
class Route:
    """The route of an edge from left to right as (column, height) of its left end, each stop, and its right end.

    ``turned``: the edge leads from right to left. ``label`` is the index of the stop that holds its label.
    """

    stops: tuple[tuple[int, float], ...]
    label: int
    turned: bool


@dataclass(frozen=True)
class Layered:
    """The layout: column and height of each node, the edge routes, and the center and extent of each column."""

    columns: tuple[int, ...]
    heights: tuple[float, ...]
    xs: tuple[float, ...]
    lefts: tuple[float, ...]
    rights: tuple[float, ...]
    routes: tuple[Route, ...]


@dataclass
class EdgePiece:
    """A node, or the slot of an edge in a column."""

    size: DrawingSize
    column: int
    weight: float = 1.0
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    y: float = 0.0


def layout_graph(
    nodes: Sequence[DrawingSize],
    edges: Sequence[tuple[int, int]],
    labels: Sequence[DrawingSize],
    gap: tuple[float, float],
    first: Sequence[int] = (),
) -> Layered:
    """Return the layout of a graph without self-loops.

    Args:
        nodes: the size of each node.
        edges: source and target of each edge.
        labels: the size of the label of each edge.
        gap: the least distance between columns, and between items of a column.
        first: the nodes at which the depth-first search starts.
    """
    turned = turned_edges(len(nodes), edges, first)
    forward = [(b, a) if turn else (a, b) for (a, b), turn in zip(edges, turned, strict=True)]
    layers = longest_paths(len(nodes), forward)
    pieces = [EdgePiece(size, 2 * layer) for size, layer in zip(nodes, layers, strict=True)]
    ways = [_way(pieces, *edge, label, turn) for edge, label, turn in zip(forward, labels, turned, strict=True)]
    columns = _sorted_columns(pieces)
    _set_heights(pieces, columns, gap[1])
    lefts = tuple(max(pieces[i].size.left for i in column) for column in columns)
    rights = tuple(max(pieces[i].size.right for i in column) for column in columns)
    xs = _middles(pieces, columns, lefts, rights, gap[0])
    routes = []
    for way, turn in zip(ways, turned, strict=True):
        stops = tuple((pieces[piece].column, pieces[piece].y) for piece in way)
        routes.append(Route(stops, len(way) - 2 if turn else 1, turn))
    drawn = pieces[: len(nodes)]
    return Layered(tuple(p.column for p in drawn), tuple(p.y for p in drawn), xs, lefts, rights, tuple(routes))


# --- 1 and 2: layers ----------------------------------------------------------------------------------------


def turned_edges(n: int, edges: Sequence[tuple[int, int]], first: Sequence[int] = ()) -> list[bool]:
    """Return which edges lead back to an unfinished node. Reversing them removes all cycles."""
    out: list[list[int]] = [[] for _ in range(n)]
    for i, (a, _) in enumerate(edges):
        out[a].append(i)
    turned = [False] * len(edges)
    seen, done = [False] * n, [False] * n
    for start in [*first, *range(n)]:
        stack = [] if seen[start] else [(start, iter(out[start]))]
        seen[start] = True
        while stack:
            node, waiting = stack[-1]
            for i in waiting:
                target = edges[i][1]
                if not seen[target]:
                    seen[target] = True
                    stack.append((target, iter(out[target])))
                    break
                turned[i] = not done[target]
            else:
                done[node] = True
                stack.pop()
    return turned


def longest_paths(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the number of edges of the longest path to each node of an acyclic graph. Kahn (1962)."""
    due = [0] * n
    out: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        due[b] += 1
        out[a].append(b)
    ready = [node for node in range(n) if due[node] == 0]
    depth = [0] * n
    while ready:
        node = ready.pop()
        for target in out[node]:
            depth[target] = max(depth[target], depth[node] + 1)
            due[target] -= 1
            if due[target] == 0:
                ready.append(target)
    return depth


# --- 3 and 4: columns ---------------------------------------------------------------------------------------


def _way(pieces: list[EdgePiece], source: int, target: int, label: DrawingSize, turned: bool) -> list[int]:
    """Return the pieces that an edge passes, adding new ones between its ends, the label next to its true start."""
    start, end = pieces[source].column, pieces[target].column
    labeled = end - 1 if turned else start + 1
    way = [source]
    for column in range(start + 1, end):
        way.append(len(pieces))
        pieces.append(EdgePiece(label if column == labeled else DrawingSize(1.0, 1.0, 1.0, 1.0), column, weight=3.0))
    way.append(target)
    for a, b in pairwise(way):
        pieces[a].right.append(b)
        pieces[b].left.append(a)
    return way


def _sorted_columns(pieces: Sequence[EdgePiece]) -> list[list[int]]:
    columns: list[list[int]] = [[] for _ in range(1 + max((p.column for p in pieces), default=-1))]
    for i, piece in enumerate(pieces):
        columns[piece.column].append(i)
    best, fewest = [list(column) for column in columns], crossings(pieces, columns)
    place = {i: float(k) for column in columns for k, i in enumerate(column)}
    for sweep in range(SWEEPS):
        to_the_right = sweep % 2 == 0
        for column in columns if to_the_right else reversed(columns):
            near = {i: pieces[i].left if to_the_right else pieces[i].right for i in column}
            mean = {i: sum(place[j] for j in near[i]) / len(near[i]) if near[i] else place[i] for i in column}
            column.sort(key=lambda i: mean[i])
            place.update((i, float(k)) for k, i in enumerate(column))
        count = crossings(pieces, columns)
        if count < fewest:
            best, fewest = [list(column) for column in columns], count
    return best


def crossings(pieces: Sequence[EdgePiece], columns: Sequence[Sequence[int]]) -> int:
    """Return the number of pairs of edges that cross between neighboring columns."""
    total = 0
    for column, following in pairwise(columns):
        place = {i: k for k, i in enumerate(following)}
        passed: list[int] = []
        for i in column:
            ends = sorted(place[j] for j in pieces[i].right)
            total += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return total


# --- 5: positions -------------------------------------------------------------------------------------------


def _set_heights(pieces: Sequence[EdgePiece], columns: Sequence[Sequence[int]], gap: float) -> None:
    for column in columns:
        _settle(pieces, column, [0.0] * len(column), gap)
    for sweep in range(HEIGHT_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            both = sweep >= HEIGHT_SWEEPS // 2
            one_side = [pieces[i].left if sweep % 2 == 0 else pieces[i].right for i in column]
            neighbors = [
                [*pieces[i].left, *pieces[i].right] if both else near for i, near in zip(column, one_side, strict=True)
            ]
            desired = [_mean_height(pieces, i, near) for i, near in zip(column, neighbors, strict=True)]
            _settle(pieces, column, desired, gap)


def _mean_height(pieces: Sequence[EdgePiece], i: int, neighbors: Sequence[int]) -> float:
    """Return the mean height of the neighbors. Pieces of the same edge count more, so that long edges are straight."""
    weights = [pieces[i].weight * pieces[j].weight for j in neighbors]
    if not weights:
        return pieces[i].y
    return sum(weight * pieces[j].y for weight, j in zip(weights, neighbors, strict=True)) / sum(weights)


def _settle(pieces: Sequence[EdgePiece], column: Sequence[int], desired: Sequence[float], gap: float) -> None:
    """Give each piece of a column its desired height, or the nearest heights that keep the pieces apart."""
    needed = [0.0]
    for a, b in pairwise(column):
        needed.append(needed[-1] + pieces[a].size.below + gap + pieces[b].size.above)
    middle = needed[-1] / 2
    free = [target - (need - middle) for target, need in zip(desired, needed, strict=True)]
    settled = rising(free, [pieces[i].weight for i in column])
    for i, y, need in zip(column, settled, needed, strict=True):
        pieces[i].y = y + need - middle


def rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:  # style: not a British spelling
    """Return the non-decreasing sequence nearest to ``values`` by weighted least squares.

    >>> rising([3.0, 1.0, 5.0], [1.0, 1.0, 1.0])
    [2.0, 2.0, 5.0]
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, size
    for value, weight in zip(values, weights, strict=True):
        block = (value, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, before, count = blocks.pop()
            joint = before + block[1]
            block = ((mean * before + block[0] * block[1]) / joint, joint, count + block[2])
        blocks.append(block)
    return [mean for mean, _, count in blocks for _ in range(count)]


def _middles(
    pieces: Sequence[EdgePiece],
    columns: Sequence[Sequence[int]],
    lefts: Sequence[float],
    rights: Sequence[float],
    gap: float,
) -> tuple[float, ...]:
    """Return the center of each column. Columns with steep edges get more space."""
    xs: list[float] = []
    for c, column in enumerate(columns):
        steep = max((abs(pieces[i].y - pieces[j].y) for i in column for j in pieces[i].left), default=0.0)
        xs.append(xs[-1] + rights[c - 1] + gap + min(0.2 * steep, 3 * gap) + lefts[c] if xs else 0.0)
    return tuple(xs)
