"""Words as the source of an encoder-decoder: an id for each frequent word, and classes for the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.config import VocabularyConfig
from catena.data.special_tokens import END_SYMBOL
from catena.data.vocabulary import UNK, Vocabulary
from catena.grammar.words import UNKNOWN, word_classes

_WORDS = "words.json"
_FEWEST = 3
"""Minimum number of distinct train words in a class; words of smaller classes are in a coarser one."""


@dataclass(frozen=True, eq=False)
class SourceWords:
    """Ids of words. Unknown words get the id of their class (:mod:`catena.grammar.words`)."""

    vocabulary: Vocabulary

    @classmethod
    def count(cls, sentences: Sequence[Sequence[str]], rare: int) -> SourceWords:
        """The words that occur more than ``rare`` times, and the classes of all words."""
        counts = Counter(word for words in sentences for word in words)
        members: dict[str, set[str]] = defaultdict(set)
        for word in counts:
            for name in word_classes(word):
                members[name].add(word)
        classes = {name for name, words in members.items() if len(words) >= _FEWEST or name == UNKNOWN}
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
        found = [
            id if id != UNK else self._class_id(word)
            for word, id in zip(words, self.vocabulary.ids(words), strict=True)
        ]
        return np.array([*found, self.vocabulary.special(END_SYMBOL)], np.int64)

    def dropout(self, z: float) -> tuple[Int[Tensor, " v"], Float[Tensor, " v"]]:
        """For each id, the id of its class and the probability z / (z + n) of reading the class instead.

        n is the number of occurrences of the word. Classes and special tokens are never replaced.
        """
        symbols, counts = self.vocabulary.symbols, self.vocabulary.counts
        classes, shares = torch.arange(len(symbols)), torch.zeros(len(symbols))
        for id in range(len(self.vocabulary.specials), len(symbols)):
            if counts[id]:
                classes[id] = self._class_id(symbols[id])
                shares[id] = z / (z + counts[id])
        return classes, shares

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / _WORDS)

    @classmethod
    def load(cls, folder: Path) -> SourceWords:
        """Read what :meth:`save` wrote."""
        return cls(Vocabulary.load(folder / _WORDS))
