"""Phrase-structure trees in text: top down if the tree fits, otherwise indented with one node per line."""

from __future__ import annotations

import math

from catena.draw.terminal.grid import DOWN, UP, Grid, cells
from catena.draw.text import clean
from catena.draw.tree import AnyTree, Nodes, read_tree
from catena.draw.tree_layout import tree_layout


def tree_text(tree: AnyTree, width: int = 100) -> str:
    """Return a tree as lines of text, at most ``width`` columns wide if possible.

    >>> print(tree_text(("S", ("NP", "dogs"), ("VP", "bark"))), end="")
        S
     ┌──┴──┐
     NP    VP
     │     │
    dogs  bark
    """
    nodes = read_tree(tree)
    upright = _upright(nodes)
    if max(map(cells, upright.splitlines()), default=0) <= width:
        return upright
    return _indented(nodes)


def _upright(nodes: Nodes) -> str:
    sizes = [cells(label) for label in nodes.labels]
    middles = tree_layout([float(size) for size in sizes], nodes.children, 2.0)
    stems = [math.floor(middle + 0.5) for middle in middles]
    lefts = [stem - (size - 1) // 2 for stem, size in zip(stems, sizes, strict=True)]
    grid = Grid()
    for node, below in enumerate(nodes.children):
        row = 2 * nodes.depths[node]
        grid.write(row, lefts[node], nodes.labels[node])
        if below:
            grid.arm(row + 1, stems[node], UP)
            grid.across(row + 1, min(stems[node], stems[below[0]]), max(stems[node], stems[below[-1]]))
        for child in below:
            grid.arm(row + 1, stems[child], DOWN)
    return str(grid)


def _indented(nodes: Nodes) -> str:
    lines = []
    waiting: list[tuple[int, str, str]] = [(0, "", "")]
    while waiting:
        node, before, own = waiting.pop()
        label = clean(nodes.labels[node])
        below = nodes.children[node]
        while len(below) == 1:
            label += " " + clean(nodes.labels[below[0]])
            below = nodes.children[below[0]]
        lines.append(f"{before}{own}{label}".rstrip())
        inner = before + {"": "", "├─ ": "│  ", "└─ ": "   "}[own]
        for place, child in enumerate(reversed(below)):
            waiting.append((child, inner, "├─ " if place else "└─ "))
    return "\n".join(lines) + "\n"
