"""Sentences and trees as sequences of ids, and back.

A word that is not frequent is read as its class. A tree is written as labeled opening brackets, leaves, and labeled
closing brackets:

    (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))   is   (S (NP DT NN )NP (VP VBZ )VP )S

Words are omitted: leaves represent them in order (Vinyals et al. 2015, section 2.3). Trees may be deep, so no function
is recursive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.config import VocabularyConfig
from catena.data.examples import Tree
from catena.data.special_tokens import END_SYMBOL
from catena.data.vocabulary import UNK, Labels, Vocabulary
from catena.grammar.derivation import NOWHERE
from catena.grammar.word_classes import UNKNOWN, word_classes
from catena.search.brackets import BracketIds
from catena.tasks.parse.constituency.trees import phrase_labels, tree_tags

PAD, BEGIN, END, FIRST = range(4)
"""Ids that are not part of a tree, and the first that is."""
_ANY_TAG = "XX"
"""The leaf of every word if tags are not written."""
_FEWEST = 3
"""Minimum number of distinct train words in a class; words of smaller classes are in a coarser one."""
_WORDS, _LABELS, _TAGS = "words.json", "labels.json", "tags.json"


@dataclass(frozen=True, eq=False)
class SourceWords:
    """Ids of words. Unknown words get the id of their class (:mod:`catena.grammar.word_classes`)."""

    vocabulary: Vocabulary

    @classmethod
    def count(cls, sentences: Sequence[Sequence[str]], rare: int) -> SourceWords:
        """The words that occur more than ``rare`` times, and the classes of all words."""
        counts = Counter(word for words in sentences for word in words)
        sizes = Counter(name for word in counts for name in set(word_classes(word)))
        classes = {name for name, size in sizes.items() if size >= _FEWEST or name == UNKNOWN}
        kept = {word: n for word, n in counts.items() if word not in classes}
        settings = VocabularyConfig(min_count=rare + 1)
        return cls(Vocabulary.from_counts(kept, settings, specials=[END_SYMBOL], symbols=sorted(classes)))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def _class_id(self, word: str) -> int:
        known = (name for name in word_classes(word) if name in self.vocabulary)
        return next((self.vocabulary.ids([name])[0] for name in known), UNK)

    def ids(self, words: Sequence[str]) -> np.ndarray:
        """The ids of a sentence, followed by the end symbol."""
        pairs = zip(words, self.vocabulary.ids(words), strict=True)
        ids = [id if id != UNK else self._class_id(word) for word, id in pairs]
        return np.array([*ids, self.vocabulary.special(END_SYMBOL)], np.int64)

    def dropout(self, z: float) -> tuple[Int[Tensor, " v"], Float[Tensor, " v"]]:
        """For each id, the id of its class and the probability z / (z + n) of reading the class instead.

        n is the number of occurrences of the word. Classes and special tokens are never replaced.
        """
        symbols, counts = self.vocabulary.symbols, self.vocabulary.counts
        classes, probabilities = torch.arange(len(symbols)), torch.zeros(len(symbols))
        for id in range(len(self.vocabulary.specials), len(symbols)):
            if counts[id]:
                classes[id] = self._class_id(symbols[id])
                probabilities[id] = z / (z + counts[id])
        return classes, probabilities

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / _WORDS)

    @classmethod
    def load(cls, folder: Path) -> SourceWords:
        """Read what :meth:`save` wrote."""
        return cls(Vocabulary.load(folder / _WORDS))


@dataclass(frozen=True, eq=False)
class TreeSymbols:
    """The symbols of trees and their ids: an opening and a closing one for each label, and one for each tag."""

    labels: Labels
    tags: Labels

    @classmethod
    def count(cls, trees: Sequence[Tree], tags: bool) -> TreeSymbols:
        """The symbols of some trees."""
        leaves = Labels.count(map(tree_tags, trees)) if tags else Labels([_ANY_TAG])
        return cls(Labels.count(map(phrase_labels, trees)), leaves)

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

    def write(self, tree: Tree) -> list[int] | None:
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
            i = id - FIRST
            if i < n:
                stack.append((self.labels.name(i), []))
            elif i < 2 * n:
                label, below = stack.pop()
                stack[-1][1].append(Tree(label, tuple(below), None, NOWHERE))
            else:
                stack[-1][1].append(Tree(self.tags.name(i - 2 * n), (), next(left), NOWHERE))
        return stack[0][1][0]

    def save(self, folder: Path) -> None:
        self.labels.save(folder / _LABELS)
        self.tags.save(folder / _TAGS)

    @classmethod
    def load(cls, folder: Path) -> TreeSymbols:
        """Read what :meth:`save` wrote."""
        return cls(Labels.load(folder / _LABELS), Labels.load(folder / _TAGS))


@dataclass(frozen=True, eq=False)
class SequenceEncoding:
    """The words and classes of sentences, and the symbols of trees."""

    words: SourceWords
    symbols: TreeSymbols

    def save(self, folder: Path) -> None:
        self.words.save(folder)
        self.symbols.save(folder)

    def equals(self, other: SequenceEncoding) -> bool:
        """Whether another encoding has the same words and symbols."""
        own, theirs = self.symbols, other.symbols
        same_words = self.words.vocabulary.symbols == other.words.vocabulary.symbols
        return same_words and (own.labels.names, own.tags.names) == (theirs.labels.names, theirs.tags.names)
