"""Phrase-structure trees as spans: given brackets, expected brackets, and statistics of sampled trees.

Files of given brackets: one line per sentence, ``1-3:NP 5-9 !2-4``, or ``_`` for none.

Words are numbered from 1, and both ends are inclusive. A span may have the label of its innermost bracket; over one
word it is the word's tag. ``!`` forbids a bracket over exactly these words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from catena.data.examples import Tree
from catena.data.files import bad_line, open_text
from catena.errors import DataError
from catena.grammar.derivation import NOWHERE
from catena.grammar.induction import ROOT, TRACE, plain_label
from catena.grammar.max_recall_parse import expected_brackets, stack_labels
from catena.metrics.brackets import Bracketing

_GIVEN = re.compile(r"(!?)(\d+)-(\d+)(?::(\S+))?")


class BracketConstraint(NamedTuple):
    """A bracket that must, or must not, be in the tree, over words ``first`` to ``end - 1``."""

    first: int
    end: int
    label: str | None
    wanted: bool


def read_given(path: Path) -> Iterator[tuple[BracketConstraint, ...]]:
    """The given brackets of each line."""
    with open_text(path) as lines:
        for number, line in lines:
            yield tuple(_one(path, number, line, part) for part in line.split() if part != "_")


def _one(path: Path, number: int, line: str, part: str) -> BracketConstraint:
    match = _GIVEN.fullmatch(part)
    cure = "Write first-last or first-last:LABEL, !first-last to forbid, words numbered from 1, and _ for nothing"
    if match is None:
        raise bad_line(path, number, line, f"has {part[:30]!r}, which is not a span", cure)
    sign, first, last, label = match.groups()
    if not 1 <= int(first) <= int(last):
        raise bad_line(
            path, number, line, f"has the span {part!r}, whose first word is below 1 or after its last", cure
        )
    if first == last and label is None:
        raise bad_line(path, number, line, f"has {part!r}, one word without its tag", "Give the tag, as in 3-3:NN")
    if sign and label:
        raise bad_line(path, number, line, f"forbids {part!r} with a label, which is not supported", cure)
    return BracketConstraint(int(first) - 1, int(last), label, not sign)


def check_given(given: tuple[BracketConstraint, ...], n: int) -> None:
    """Raise DataError for brackets outside the sentence, and for brackets that cross."""
    for one in given:
        if one.end > n:
            raise DataError(
                f"brackets must end at word {n} or before, got {one.first + 1}-{one.end}. Correct the file of brackets."
            )
    wanted = [one for one in given if one.wanted]
    for one in wanted:
        for other in wanted:
            if one.first < other.first < one.end < other.end:
                raise DataError(
                    f"the brackets {one.first + 1}-{one.end} and {other.first + 1}-{other.end} cross, so no tree has "
                    f"both. Remove one of them."
                )


def crossing_spans(given: tuple[BracketConstraint, ...], n: int) -> set[tuple[int, int]]:
    """The spans ``(first, end)`` that cross a required bracket. The brackets are checked first."""
    check_given(given, n)
    found: set[tuple[int, int]] = set()
    for first, end, _, wanted in given:
        if wanted:
            found |= {(i, j) for i in range(first) for j in range(first + 1, end)}
            found |= {(i, j) for i in range(first + 1, end) for j in range(end + 1, n + 1)}
    return found


# --- trees ------------------------------------------------------------------------------------------------------------


T = TypeVar("T")

Confidence = dict[tuple[str, int, int], float]
"""The probability of each bracket ``(label, first, end)``."""

NO_PARSE = "NOPARSE"
"""The top label of a flat tree for a sentence without a parse."""
UNKNOWN_TAG = "X"
"""The tag of a word that no rule produces."""
LEAST = 0.01
"""Brackets with a smaller probability are not reported."""


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
            return None if here.label == TRACE else Tree(label, (), here.word, here.location)
        kept = tuple(child for child in below if child is not None)
        return Tree(label, kept, None, here.location) if kept else None

    top = fold(tree, node)
    if top is None or top.label:
        return top
    return top.children[0] if len(top.children) == 1 else Tree(ROOT, top.children, top.word, top.location)


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


def phrase_labels(tree: Tree) -> Iterator[str]:
    """The labels of the nodes above the tags."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.word is None:
            yield node.label
            waiting.extend(node.children)


def bracketing(tree: Tree) -> Bracketing:
    """The tree in the representation of the metrics."""
    spans = tuple((label, first, end) for first, end, labels in tree_to_phrases(tree) for label in labels)
    return Bracketing(tree.words(), tree_tags(tree), spans)


def phrases_to_tree(words: Sequence[str], tags: Sequence[str], phrases: Sequence[LabeledSpan], top: str) -> Tree:
    """The tree of brackets that do not cross; ``top`` is added if none of them contains all words."""
    order = sorted(phrases, key=lambda phrase: (phrase.first, -phrase.end))
    stack: list[tuple[tuple[str, ...], int, list[Tree]]] = [((top,), len(words), [])]
    at = 0
    for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
        while at < len(order) and order[at].first == i:
            stack.append((order[at].labels, order[at].end, []))
            at += 1
        stack[-1][2].append(Tree(tag, (), word, NOWHERE))
        while len(stack) > 1 and stack[-1][1] <= i + 1:
            labels, _, below = stack.pop()
            stack[-1][2].append(_chain(labels, below))
    below = stack[0][2]
    return below[0] if len(below) == 1 and below[0].word is None else _chain((top,), below)


def _chain(labels: tuple[str, ...], below: Sequence[Tree]) -> Tree:
    for label in reversed(labels):
        below = (Tree(label, tuple(below), None, NOWHERE),)
    return below[0]


# --- expected brackets ------------------------------------------------------------------------------------------------


def recall_phrases(
    counts: Float[np.ndarray, "t u q"],
    labels: Sequence[str],
    price: float,
    above: Mapping[tuple[int, int], float | int],
) -> list[LabeledSpan]:
    """The brackets of the tree with the largest expected number of correct ones.

    Args:
        counts: ``counts[i, j, q]`` is the expected number of labels ``q`` over the words from ``i`` up to ``j``.
        labels: the names of the labels.
        price: the least probability of a bracket that is worth including.
        above: how often one label is directly above another.
    """
    chains: dict[tuple[int, int], tuple[str, ...]] = {}
    for i, j, q in stack_labels(expected_brackets(counts, price), lambda p, q: above.get((p, q), 0.0)):
        chains[i, j] = (*chains.get((i, j), ()), labels[q])
    return [LabeledSpan(i, j, chain) for (i, j), chain in chains.items()]


def probable_brackets(counts: Float[np.ndarray, "t u q"], labels: Sequence[str]) -> Confidence:
    """The brackets that are not improbable, with their expected counts, at most 1."""
    kept = np.argwhere(counts >= LEAST)
    return {(labels[q], int(i), int(j)): min(1.0, float(counts[i, j, q])) for i, j, q in kept}


# --- statistics of sampled trees over the same words ------------------------------------------------------------------


def bracket_fractions(trees: Sequence[Tree]) -> Confidence:
    """The fraction of trees over the same words that have each bracket."""
    seen = Counter(
        bracket
        for tree in trees
        for bracket in {(label, first, end) for first, end, labels in tree_to_phrases(tree) for label in labels}
    )
    return {bracket: n / len(trees) for bracket, n in seen.items()}


def tag_fractions(trees: Sequence[Tree]) -> tuple[dict[str, float], ...]:
    """The fraction of trees in which each word has each tag."""
    columns = zip(*(tree_tags(tree) for tree in trees), strict=True)
    return tuple({tag: n / len(trees) for tag, n in Counter(column).items()} for column in columns)


def max_expected_recall(trees: Sequence[Tree], price: float) -> Tree:
    """The tree with the largest expected number of correct brackets under sampled trees (Goodman 1996)."""
    words = trees[0].words()
    tops = Counter(tree.label for tree in trees)
    tags = [max(sorted(fractions), key=fractions.__getitem__) for fractions in tag_fractions(trees)]
    phrases = [phrase for tree in trees for phrase in tree_to_phrases(tree)]
    labels = sorted({label for phrase in phrases for label in phrase.labels})
    number = {label: q for q, label in enumerate(labels)}
    counts = np.zeros((len(words), len(words) + 1, len(labels)))
    above: Counter[tuple[int, int]] = Counter()
    for first, end, chain in phrases:
        for label in chain:
            counts[first, end, number[label]] += 1 / len(trees)
        above.update((number[p], number[q]) for p, q in pairwise(chain))
    top = max(sorted(tops), key=tops.__getitem__)
    return phrases_to_tree(words, tags, recall_phrases(counts, labels, price, above), top)


# --- other trees over words -------------------------------------------------------------------------------------------


def flat(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """A tree with one bracket, for a sentence without a parse."""
    leaves = tuple(Tree(tag, (), word, NOWHERE) for word, tag in zip(words, tags, strict=True))
    return Tree(NO_PARSE, leaves, None, NOWHERE)


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
    return fold(tree, lambda here, below: Tree(label(*ends[id(here)], here), tuple(below), here.word, here.location))
