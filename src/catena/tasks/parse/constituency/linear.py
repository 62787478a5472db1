"""Trees as sequences of symbols, and back: labeled opening brackets, leaves, and labeled closing brackets.

    (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))   is   (S (NP DT NN )NP (VP VBZ )VP )S

Words are omitted: leaves represent them in order (Vinyals et al. 2015, section 2.3). Trees may be deep, so no function
is recursive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from catena.data.examples import Tree
from catena.data.vocabulary import Labels
from catena.grammar.derivation import NOWHERE
from catena.search.brackets import BracketIds
from catena.tasks.kept import LABELS
from catena.tasks.parse.constituency.trees import tree_tags

PAD, BEGIN, END, FIRST = range(4)
"""Ids that are not part of a tree, and the first that is."""
_ANY_TAG = "XX"
"""The leaf of every word if tags are not written."""
_TAGS = "tags.json"


@dataclass(frozen=True, eq=False)
class TreeSymbols:
    """The symbols of trees and their ids: an opening and a closing one for each label, and one for each tag."""

    labels: Labels
    tags: Labels

    @classmethod
    def count(cls, trees: Sequence[Tree], tags: bool) -> TreeSymbols:
        """The symbols of some trees."""
        leaves = Labels.count(map(tree_tags, trees)) if tags else Labels([_ANY_TAG])
        return cls(Labels.count(map(_labels_of, trees)), leaves)

    def __len__(self) -> int:
        return FIRST + 2 * len(self.labels) + len(self.tags)

    @cached_property
    def ids(self) -> BracketIds:
        """The ids that open, that close, and that are leaves."""
        n = len(self.labels)
        leaves = range(FIRST + 2 * n, len(self))
        return BracketIds(tuple(range(FIRST, FIRST + n)), tuple(range(FIRST + n, FIRST + 2 * n)), tuple(leaves))

    @property
    def with_tags(self) -> bool:
        return self.tags.names != (_ANY_TAG,)

    def written(self, tree: Tree) -> list[int] | None:
        """The ids of a tree; None if it has an unknown label or tag."""
        n, found = len(self.labels), []
        waiting: list[Tree | int] = [tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, int):
                found.append(node)
            elif node.word is not None:
                tag = node.label if self.with_tags else _ANY_TAG
                if tag not in self.tags:
                    return None
                found.append(FIRST + 2 * n + self.tags.id(tag))
            else:
                if node.label not in self.labels:
                    return None
                label = self.labels.id(node.label)
                found.append(FIRST + label)
                waiting.append(FIRST + n + label)
                waiting.extend(reversed(node.children))
        return found

    def read(self, ids: Iterable[int], words: Sequence[str]) -> Tree:
        """The tree of a valid sequence of ids over words."""
        n, left = len(self.labels), iter(words)
        stack: list[tuple[str, list[Tree]]] = [("", [])]
        for id in ids:
            place = id - FIRST
            if place < n:
                stack.append((self.labels.name(place), []))
            elif place < 2 * n:
                label, below = stack.pop()
                stack[-1][1].append(Tree(label, tuple(below), None, NOWHERE))
            else:
                stack[-1][1].append(Tree(self.tags.name(place - 2 * n), (), next(left), NOWHERE))
        return stack[0][1][0]

    def save(self, folder: Path) -> None:
        self.labels.save(folder / LABELS)
        self.tags.save(folder / _TAGS)

    @classmethod
    def load(cls, folder: Path) -> TreeSymbols:
        """Read what :meth:`save` wrote."""
        return cls(Labels.load(folder / LABELS), Labels.load(folder / _TAGS))


def _labels_of(tree: Tree) -> list[str]:
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if node.word is None:
            found.append(node.label)
            waiting.extend(node.children)
    return found
