"""Conversion of trees: cleaning, to brackets, and back. Trees may be deep, so no function is recursive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from catena.data.examples import SourceLocation, Tree
from catena.grammar.derivation import NOWHERE
from catena.grammar.induction import ROOT, TRACE, plain_label
from catena.metrics.brackets import Bracketing

T = TypeVar("T")

NO_PARSE = "NOPARSE"
"""The top label of a flat tree for a sentence without a parse."""
UNKNOWN_TAG = "X"
"""The tag of a word that no rule produces."""


class LabeledSpan(NamedTuple):
    """A chain of brackets over words ``first`` to ``end - 1``, with the outer label first."""

    first: int
    end: int
    labels: tuple[str, ...]


def fold(tree: Tree, combine: Callable[[Tree, list[T]], T]) -> T:
    """Combine the results of the children of each node, bottom-up."""
    results: list[T] = []
    waiting = [(tree, False)]
    while waiting:
        node, done = waiting.pop()
        if not done and node.children:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
            continue
        n = len(node.children)
        below = results[len(results) - n :]
        del results[len(results) - n :]
        results.append(combine(node, below))
    return results[0]


def clean_tree(tree: Tree, functions: bool = False) -> Tree | None:
    """The tree without traces, empty outer brackets and, unless ``functions``, function tags; None if empty."""

    def node(here: Tree, below: list[Tree | None]) -> Tree | None:
        label = here.label if functions else plain_label(here.label)
        if here.word is not None:
            return None if here.label == TRACE else Tree(label, (), here.word, here.place)
        kept = tuple(child for child in below if child is not None)
        return Tree(label, kept, None, here.place) if kept else None

    top = fold(tree, node)
    if top is None or top.label:
        return top
    return top.children[0] if len(top.children) == 1 else Tree(ROOT, top.children, top.word, top.place)


def tree_tags(tree: Tree) -> tuple[str, ...]:
    """The tags of the words."""
    return tuple(leaf.label for leaf in tree.leaves())


def tree_to_phrases(tree: Tree) -> list[LabeledSpan]:
    """The brackets above the tags in preorder, with chains over the same words as one."""
    found: list[LabeledSpan] = []
    at = 0
    waiting: list[Tree | int] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, int):
            found[item] = found[item]._replace(end=at)
            continue
        labels: list[str] = []
        while item.word is None:
            labels.append(item.label)
            if len(item.children) != 1:
                break
            item = item.children[0]
        if labels:
            waiting.append(len(found))
            found.append(LabeledSpan(at, at, tuple(labels)))
        if item.word is None:
            waiting.extend(reversed(item.children))
        else:
            at += 1
    return found


def bracketing(tree: Tree) -> Bracketing:
    """The tree in the representation of the metrics."""
    spans = tuple((label, first, end) for first, end, labels in tree_to_phrases(tree) for label in labels)
    return Bracketing(tree.words(), tree_tags(tree), spans)


def phrases_to_tree(
    words: Sequence[str],
    tags: Sequence[str],
    phrases: Sequence[LabeledSpan],
    top: str = ROOT,
    place: SourceLocation = NOWHERE,
) -> Tree:
    """The tree of brackets that do not cross; ``top`` is added if none of them contains all words."""
    order = sorted(phrases, key=lambda phrase: (phrase.first, -phrase.end))
    stack: list[tuple[tuple[str, ...], int, list[Tree]]] = [((top,), len(words), [])]
    at = 0
    for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
        while at < len(order) and order[at].first == i:
            stack.append((order[at].labels, order[at].end, []))
            at += 1
        stack[-1][2].append(Tree(tag, (), word, place))
        while len(stack) > 1 and stack[-1][1] <= i + 1:
            labels, _, below = stack.pop()
            stack[-1][2].append(_chain(labels, below, place))
    below = stack[0][2]
    return below[0] if len(below) == 1 and below[0].word is None else _chain((top,), below, place)


def _chain(labels: tuple[str, ...], below: list[Tree], place: SourceLocation) -> Tree:
    node = Tree(labels[-1], tuple(below), None, place)
    for label in reversed(labels[:-1]):
        node = Tree(label, (node,), None, place)
    return node


def flat(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """A tree with one bracket, for a sentence without a parse."""
    return Tree(
        NO_PARSE, tuple(Tree(tag, (), word, NOWHERE) for word, tag in zip(words, tags, strict=True)), None, NOWHERE
    )


def relabel_tree(tree: Tree, label: Callable[[int, int, Tree], str]) -> Tree:
    """The tree with the labels ``label(first, end, node)`` for each node, including tags."""
    ends: dict[int, tuple[int, int]] = {}
    at = 0

    def spans(here: Tree, below: list[tuple[int, int]]) -> tuple[int, int]:
        nonlocal at
        if here.word is not None:
            at += 1
        ends[id(here)] = (below[0][0], below[-1][1]) if below else (at - 1, at)
        return ends[id(here)]

    fold(tree, spans)
    return fold(tree, lambda here, below: Tree(label(*ends[id(here)], here), tuple(below), here.word, here.place))
