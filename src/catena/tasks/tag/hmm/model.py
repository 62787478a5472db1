"""The hidden Markov model and its symbols: frequent words, and word classes for rare ones.

The symbols of a hidden Markov model: frequent words are their own symbols, rare words use their word class.

A rare word of the training data counts for its class, so that unseen words are as probable as rare ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int32

from catena.checkpoint import read_stored
from catena.tasks.tag.chains import ChainModel
from catena.tasks.tag.distribution import ChainScores
from catena.tasks.tag.features.templates import collapsed_word_shape
from catena.tasks.word_inputs.sentences import Sentence

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
        kept = read_stored(folder / _SYMBOLS, {"words": list[str], "looks": list[str], "classes": str})
        return cls(tuple(kept["words"]), tuple(kept["looks"]), kept["classes"])


# --- the model --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HmmTables:
    """Log-probabilities of first tags, of a tag or the end after a tag, and of a symbol given a tag."""

    start: Float64[np.ndarray, " k"]
    transitions: Float64[np.ndarray, "k k"]
    end: Float64[np.ndarray, " k"]
    emissions: Float64[np.ndarray, "k v"]

    def vector(self) -> Float64[np.ndarray, " n"]:
        """The tables as weights of a chain, beginning with those of each symbol with all tags."""
        return np.concatenate((self.emissions.T.ravel(), self.transitions.ravel(), self.start, self.end))


@dataclass(frozen=True, eq=False)
class HmmModel(ChainModel):
    """Tables of log-probabilities, and their symbols."""

    tables: HmmTables
    symbols: HmmSymbols

    def scores(self, sentences: Sequence[Sentence]) -> ChainScores:
        """Log-probabilities of tags and words. Their log Z is log p(words), including the end of the sentence."""
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        longest = max(1, int(lengths.max()))
        ids = np.zeros((len(sentences), longest), np.int64)
        for row, sentence in zip(ids, sentences, strict=True):
            row[: len(sentence)] = self.symbols.ids([sentence.words])
        scores = self.tables.emissions.T[ids]
        scores[np.arange(longest) >= lengths[:, None]] = 0.0
        return ChainScores(scores, lengths, self.tables.transitions, self.tables.start, self.tables.end)

    def renamed(self, order: Sequence[int]) -> HmmModel:
        """The same model with state ``order[q]`` as state ``q``."""
        tables, at = self.tables, list(order)
        return HmmModel(
            HmmTables(tables.start[at], tables.transitions[at][:, at], tables.end[at], tables.emissions[at]),
            self.symbols,
        )

    def describe(self, labels: Sequence[str], top: int) -> list[str]:
        """Lines with the most probable words and next tags of each tag."""
        lines = [f"hidden Markov model of {len(labels)} tags and {len(self.symbols):,} symbols"]
        names, tables = self.symbols.names, self.tables
        for q, label in enumerate(labels):
            words = np.argsort(-tables.emissions[q], kind="stable")[:top]
            after = np.argsort(-tables.transitions[q], kind="stable")[:top]
            shown = "  ".join(f"{names[w]} {np.exp(tables.emissions[q, w]):.3f}" for w in words)
            follows = "  ".join(f"{labels[r]} {np.exp(tables.transitions[q, r]):.2f}" for r in after)
            lines.append(f"{label}: {shown}   then {follows}  the end {np.exp(tables.end[q]):.2f}")
        return lines

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self.tables, name) for name in ("start", "transitions", "end", "emissions")}

    def save(self, folder: Path) -> None:
        self.symbols.save(folder)

    @classmethod
    def load(cls, folder: Path, arrays: Mapping[str, np.ndarray]) -> HmmModel:
        """The model of a checkpoint folder, given its arrays."""
        return cls(HmmTables(**arrays), HmmSymbols.load(folder))


def best_names(counts: Float64[np.ndarray, "k k"]) -> list[int]:
    """A distinct state for each tag, matched greedily by ``counts[state, tag]``, largest first."""
    k = len(counts)
    order: list[int] = [-1] * k
    taken: set[int] = set()
    for place in np.argsort(-counts, axis=None, kind="stable"):
        state, tag = divmod(int(place), k)
        if order[tag] < 0 and state not in taken:
            order[tag] = state
            taken.add(state)
    return order
