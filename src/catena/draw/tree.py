"""Phrase-structure trees: labels above, words below.

Accepts :class:`catena.data.examples.Tree` and nested tuples, ``("S", ("NP", "dogs"), ("VP", "bark"))``.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from catena.data.examples import Tree
from catena.draw.picture import Picture
from catena.draw.svg import LONGEST_WORD, WORD, Canvas, Path, Point
from catena.draw.text import clean, is_right_to_left, shorten, text_width
from catena.draw.tree_layout import tree_layout
from catena.errors import DataError

AnyTree: TypeAlias = Any
"""A :class:`Tree`, a word, or a tuple of a label and its subtrees."""

Direction = Literal["auto", "left-to-right", "right-to-left"]

GAP, ROW = 16.0, 46.0


@dataclass
class Nodes:
    """A tree as lists. Node 0 is the root, and every node comes before its children."""

    labels: list[str] = field(default_factory=list)
    is_word: list[bool] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)

    def words(self) -> list[int]:
        """Return the nodes that are words, from left to right."""
        return [node for node in self._preorder() if self.is_word[node]]

    def _preorder(self) -> list[int]:
        order, waiting = [], [0]
        while waiting:
            node = waiting.pop()
            order.append(node)
            waiting.extend(reversed(self.children[node]))
        return order

    def spans(self) -> list[tuple[str, int, int]]:
        """Return ``(label, first, last)`` of each node, words counted from 0; last = first - 1 if it has no words."""
        first, last, seen = {}, {}, 0
        for node in self._preorder():
            first[node] = seen
            seen += self.is_word[node]
            last[node] = seen - 1
        for node in reversed(range(len(self.labels))):
            last[node] = max([last[node], *(last[child] for child in self.children[node])])
        return [(self.labels[node], first[node], last[node]) for node in range(len(self.labels))]


def read_tree(tree: AnyTree) -> Nodes:
    """Return the nodes of a tree, without the empty outer bracket of the Penn Treebank."""
    nodes = Nodes()
    if isinstance(tree, Tree) and tree.label == "" and len(tree.children) == 1:
        tree = tree.children[0]
    waiting = deque([(tree, -1)])
    while waiting:
        here, parent = waiting.popleft()
        node = len(nodes.labels)
        if parent >= 0:
            nodes.children[parent].append(node)
        label, below = _opened(here)
        nodes.labels.append(label)
        nodes.is_word.append(isinstance(here, str))
        nodes.depths.append(nodes.depths[parent] + 1 if parent >= 0 else 0)
        nodes.children.append([])
        waiting.extend((child, node) for child in below)
    return nodes


def _opened(tree: AnyTree) -> tuple[str, list[AnyTree]]:
    if isinstance(tree, str):
        return tree, []
    if isinstance(tree, Tree):
        return tree.label, [tree.word] if tree.word is not None else list(tree.children)
    if isinstance(tree, tuple) and tree and isinstance(tree[0], str):
        return tree[0], list(tree[1:])
    shown = repr(tree)
    raise DataError(
        "tree must be a word or a tuple of a label and subtrees, such as ('NP', ('DT', 'the'), ('NN', 'dog')), "
        f"got the part {shown[:60] + '…' if len(shown) > 60 else shown}. Convert it to nested tuples."
    )


def draw_tree(
    tree: AnyTree,
    *,
    reference: AnyTree | None = None,
    level_words: bool = True,
    direction: Direction = "auto",
    title: str = "",
) -> Picture:
    """Draw a phrase-structure tree.

    Args:
        tree: a :class:`catena.data.examples.Tree` or nested tuples.
        reference: another tree over the same words; nodes that it does not have are drawn in red.
        level_words: align all words in the lowest row.
        direction: reading direction of the words; "auto" detects it from their script.
        title: a heading.
    """
    nodes = read_tree(tree)
    words = [nodes.labels[node] for node in nodes.words()]
    wrong = _not_in(reference, nodes, len(words))
    mirrored = direction == "right-to-left" or (direction == "auto" and is_right_to_left(words))
    centers = _centers(nodes, _rows(nodes, level_words), wrong, mirrored)
    canvas = Canvas()
    for node, below in enumerate(nodes.children):
        for child in below:
            _edge(canvas, centers[node], centers[child], "bad" if child in wrong else "edge")
    for node, label in enumerate(nodes.labels):
        color = "accent" if nodes.is_word[node] else "bad" if node in wrong else "ink"
        note = f"{label}: not in the reference" if node in wrong else ""
        canvas.text(*centers[node], label, color=color, bold=node in wrong, tooltip=note)
    return canvas.picture("Tree of: " + " ".join(words), to_brackets(nodes), title)


def to_brackets(nodes: Nodes) -> str:
    """Return the tree in brackets, ``(S (NP dogs) (VP bark))``."""
    parts: list[str] = []
    waiting: list[int] = [0]
    while waiting:
        node = waiting.pop()
        if node < 0:
            parts.append(")")
        elif nodes.is_word[node]:
            parts.append(" " + nodes.labels[node])
        else:
            parts.append(" (" + nodes.labels[node])
            waiting += [-1, *reversed(nodes.children[node])]
    return "".join(parts).strip()


def _not_in(reference: AnyTree | None, nodes: Nodes, n_words: int) -> set[int]:
    """Return the inner nodes whose label and span the reference lacks or has less often."""
    if reference is None:
        return set()
    other = read_tree(reference)
    if len(other.words()) != n_words:
        raise DataError(
            f"reference must be a tree over the same words, got {len(other.words())} words for {n_words}. Pass the "
            "gold tree of this sentence."
        )
    left = Counter(span for span, is_word in zip(other.spans(), other.is_word, strict=True) if not is_word)
    wrong = set()
    for node, span in enumerate(nodes.spans()):
        if not nodes.is_word[node]:
            left[span] -= 1
            if left[span] < 0:
                wrong.add(node)
    return wrong


def _rows(nodes: Nodes, level_words: bool) -> list[int]:
    lowest = max(nodes.depths)
    return [lowest if level_words and w else depth for depth, w in zip(nodes.depths, nodes.is_word, strict=True)]


def _centers(nodes: Nodes, rows: list[int], wrong: set[int], mirrored: bool) -> list[Point]:
    """Return the center of each node. A word below its row hangs on a stem, for which space is kept."""
    widths: list[float] = []
    children: list[list[int]] = []
    at: list[int] = []
    parent = {child: node for node, below in enumerate(nodes.children) for child in below}
    for node, label in enumerate(nodes.labels):
        above = at[parent[node]] if node else -1
        for row in range(nodes.depths[node], rows[node] + 1):
            if above >= 0:
                children[above].append(len(widths))
            above = len(widths)
            stem = row < rows[node]
            shown = shorten(clean(label), WORD, LONGEST_WORD, node in wrong)
            widths.append(2.0 if stem else text_width(shown, WORD, node in wrong))
            children.append([])
        at.append(above)
    xs = tree_layout(widths, children, GAP)
    sign = -1.0 if mirrored else 1.0
    return [(sign * xs[slot], row * ROW) for slot, row in zip(at, rows, strict=True)]


def _edge(canvas: Canvas, above: Point, below: Point, color: str) -> None:
    """Draw an edge from a node to a child: diagonal to the next row, then straight down if the child is lower."""
    path = Path().move(above[0], above[1] + 11.0).line(below[0], above[1] + ROW - 11.0)
    if below[1] > above[1] + ROW:
        path.line(below[0], below[1] - 11.0)
    canvas.path(path, stroke=color, width=1.2)
