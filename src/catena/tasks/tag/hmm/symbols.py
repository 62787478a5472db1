"""The symbols of a hidden Markov model: frequent words are their own symbols, rare words use their word class.

A rare word of the training data counts for its class, so that unseen words are as probable as rare ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from catena.errors import CheckpointError
from catena.tasks.tag.features.templates import collapsed_word_shape

_SYMBOLS = "symbols.json"
_ENOUGH = 5
"""Minimum number of rare words in a class with its own symbol."""
_ENDING = 2
"""Number of letters of an ending."""


def word_shapes(word: str, classes: str) -> list[str]:
    """The classes of a word, most specific first; the last is common to all words.

    >>> word_shapes("Running", "endings")
    ['<Xx -ng>', '<Xx>', '<word>']
    """
    whole = collapsed_word_shape(word)
    shape = f"<{whole if len(whole) <= 4 else whole[:4] + '…'}>"
    if classes == "none":
        return ["<word>"]
    if classes == "shapes" or not word[-_ENDING:].isalpha():
        return [shape, "<word>"]
    return [f"{shape[:-1]} -{word[-_ENDING:].lower()}>", shape, "<word>"]


@dataclass(frozen=True)
class HmmSymbols:
    """The symbols of a model: words and word classes in the order of their ids."""

    words: tuple[str, ...]
    looks: tuple[str, ...]
    classes: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "_word_ids", {word: i for i, word in enumerate(self.words)})
        object.__setattr__(self, "_look_ids", {look: i for i, look in enumerate(self.looks, len(self.words))})

    def __len__(self) -> int:
        return len(self.words) + len(self.looks)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all symbols; word classes are in angle brackets."""
        return (*self.words, *self.looks)

    def id(self, word: str) -> int:
        """The symbol of a word."""
        ids: dict[str, int] = self._word_ids  # type: ignore[attr-defined]
        if word in ids:
            return ids[word]
        looks: dict[str, int] = self._look_ids  # type: ignore[attr-defined]
        return next(looks[look] for look in word_shapes(word, self.classes) if look in looks)

    def ids(self, sentences: Iterable[Sequence[str]]) -> Int32[np.ndarray, " n"]:
        """The symbols of all words of the sentences, concatenated."""
        return np.array([self.id(word) for words in sentences for word in words], np.int32)

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]], minimum_count: int, classes: str) -> HmmSymbols:
        """The words and word classes that are frequent enough."""
        counts = Counter(word for words in sentences for word in words)
        words = sorted(word for word, n in counts.items() if n >= minimum_count)
        rare: Counter[str] = Counter()
        for word, n in counts.items():
            if n < minimum_count:
                rare.update(dict.fromkeys(word_shapes(word, classes), n))
        looks = sorted(look for look, n in rare.items() if n >= _ENOUGH and look != "<word>")
        return cls(tuple(words), (*looks, "<word>"), classes)

    def save(self, folder: Path) -> None:
        kept = {"classes": self.classes, "looks": self.looks, "words": self.words}
        text = json.dumps(kept, ensure_ascii=False, indent=0)
        (folder / _SYMBOLS).write_bytes(text.encode("utf-8", "backslashreplace"))

    @classmethod
    def load(cls, folder: Path) -> HmmSymbols:
        try:
            kept: dict[str, Any] = json.loads((folder / _SYMBOLS).read_text(encoding="utf-8"))
            return cls(tuple(kept["words"]), tuple(kept["looks"]), str(kept["classes"]))
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{folder / _SYMBOLS} cannot be read ({error}). Copy the model again.") from None
