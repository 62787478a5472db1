"""Texts and questions as ids, in windows such that each short span belongs to exactly one of them.

A text of n tokens is read in windows of ``size`` tokens that begin ``stride`` tokens apart; the last one ends with the
text. A span in the overlap of two windows belongs to the one in which it has more context on its shorter side: with
the next window beginning at b and this one ending before e, a span from i to j belongs to this window if
i + j < b + e - 1. Every span of at most ``size - stride + 1`` tokens is inside the window that it belongs to.

Encoding of texts as ids: tokens with their offsets, words and characters.

The tokenizer only splits; words are looked up in lower case, characters as written. Each distinct token has one row
with its word and its characters, so that a text is an array of rows, and a batch is made by indexing arrays.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from catena.checkpoint import read_stored
from catena.data.config import TokenizerConfig, VocabularyConfig, WordTokenizerConfig
from catena.data.readers.vectors import read_vectors
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer, locate_tokens
from catena.data.vocabulary import PAD, Vocabulary
from catena.errors import ConfigError
from catena.tasks.config import TOKENIZER

_ANY = 1 << 60


class TokenWindow(NamedTuple):
    """Tokens ``first`` up to ``end`` of a text, and the spans (i, j) that belong to it: ``low <= i + j < high``."""

    first: int
    end: int
    low: int
    high: int


def split_windows(n: int, size: int, stride: int, max_answer: int = 1) -> list[TokenWindow]:
    """The windows of a text of ``n`` tokens; none if it is empty.

    Args:
        n: the number of tokens.
        size: the number of tokens of a window.
        stride: the distance between the beginnings of two windows.
        max_answer: the length of spans that must be inside of the window that they belong to.
    """
    if not 1 <= stride <= size - max_answer + 1:
        raise ConfigError(
            f"stride must be from 1 to size - max_answer + 1 = {size - max_answer + 1}, got {stride}. Use a smaller "
            f"stride, or windows of more than {size} tokens."
        )
    starts = [0] if n else []
    while starts and starts[-1] + size < n:
        starts.append(min(starts[-1] + stride, n - size))
    ends = [min(start + size, n) for start in starts]
    limits = [-_ANY, *(b + e - 1 for b, e in zip(starts[1:], ends, strict=False)), _ANY]
    return [TokenWindow(*parts) for parts in zip(starts, ends, limits, limits[1:], strict=False)]


# --- tokens -----------------------------------------------------------------------------------------------------------


WORDS, CHARACTERS = "vocabulary-words.json", "vocabulary-characters.json"
_NUMBERS = "encoding.json"


@dataclass(frozen=True, eq=False)
class ReadingEncoding:
    """Tokenizer and vocabularies of a reading model.

    Args:
        tokenizer: splits texts without changing them.
        words: words in lower case; those with a pretrained vector are last.
        characters: characters as written.
        max_characters: maximum number of characters of a word; of longer ones, both ends are read.
        n_pretrained: the number of words with a pretrained vector.
        vectors: the pretrained vectors of a new model; a saved one has them among its weights.
    """

    tokenizer: Tokenizer
    words: Vocabulary
    characters: Vocabulary
    max_characters: int = 16
    n_pretrained: int = 0
    vectors: Float32[np.ndarray, "v d"] | None = None

    @classmethod
    def count(
        cls,
        texts: Iterable[str],
        *,
        tokenizer: TokenizerConfig | None = None,
        vocabulary: VocabularyConfig | None = None,
        pretrained: Sequence[str] = (),
        max_characters: int = 16,
    ) -> ReadingEncoding:
        """Build the vocabularies from training texts.

        Args:
            texts: contexts, each once, and questions.
            tokenizer: words with split hyphens by default.
            vocabulary: which words outside ``pretrained`` have an id.
            pretrained: the words of a file of vectors; each has an id.
            max_characters: maximum number of characters of a word.
        """
        splitter = build_tokenizer(tokenizer or WordTokenizerConfig(hyphens="split"))
        counts: Counter[str] = Counter()
        letters: Counter[str] = Counter()
        for text in texts:
            tokens = splitter.tokens(text)
            counts.update(token.lower() for token in tokens)
            letters.update("".join(tokens))
        known = set(pretrained)
        own = Vocabulary.from_counts({word: n for word, n in counts.items() if word not in known}, vocabulary)
        n = len(own.specials)
        words = Vocabulary(
            [*own.symbols[n:], *pretrained],
            [*own.counts[n:], *(counts[word] for word in pretrained)],
            unknown_count=own.counts[1],
        )
        return cls(splitter, words, Vocabulary.from_counts(letters), max_characters, len(pretrained))

    def with_vectors(self, vectors: Float32[np.ndarray, "v d"]) -> ReadingEncoding:
        """The encoding with the vectors of its pretrained words."""
        return replace(self, vectors=vectors)

    def tokenize(self, text: str) -> tuple[list[str], Int[np.ndarray, "t 2"]]:
        """The tokens of a text and their offsets in characters."""
        tokens = self.tokenizer.tokens(text)
        return tokens, locate_tokens(text, tokens)

    def save(self, folder: Path) -> None:
        """Write the tokenizer and the vocabularies into a model folder."""
        self.tokenizer.save(folder / TOKENIZER)
        self.words.save(folder / WORDS)
        self.characters.save(folder / CHARACTERS)
        numbers = {"max_characters": self.max_characters, "n_pretrained": self.n_pretrained}
        (folder / _NUMBERS).write_text(json.dumps(numbers) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> ReadingEncoding:
        """Load an encoding written by :meth:`save`."""
        tokenizer = load_tokenizer(folder / TOKENIZER)
        words, characters = (Vocabulary.load(folder / name) for name in (WORDS, CHARACTERS))
        numbers = read_stored(folder / _NUMBERS, {"max_characters": int, "n_pretrained": int})
        return cls(tokenizer, words, characters, numbers["max_characters"], numbers["n_pretrained"])


def read_frozen_vectors(path: Path, d: int | None = None) -> tuple[list[str], Float32[np.ndarray, "v d"]]:
    """The words of a file of vectors in lower case, each once, and their vectors.

    Of words that differ in case only, the one in lower case counts, or else the first.
    """
    stored = read_vectors(path, d=d)
    rows: dict[str, int] = {}
    for i, word in enumerate(stored.words):
        if word == word.lower() or word.lower() not in rows:
            rows[word.lower()] = i
    return list(rows), stored.matrix[list(rows.values())]


class TokenForms:
    """The distinct tokens of some texts with their words and characters; row 0 is padding."""

    def __init__(self, encoding: ReadingEncoding) -> None:
        self.encoding = encoding
        self._rows: dict[str, int] = {"": 0}

    def add(self, tokens: Iterable[str]) -> Int[np.ndarray, " t"]:
        """The rows of tokens; new tokens get new rows."""
        rows = self._rows
        return np.array([rows.setdefault(token, len(rows)) for token in tokens], np.int32)

    def arrays(self) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, "f c"]]:
        """The word of each row, and its characters padded to the longest."""
        encoding = self.encoding
        words = np.array(encoding.words.ids(form.lower() for form in self._rows), np.int64)
        words[0] = PAD
        spelled = [encoding.characters.ids(_shorten(form, encoding.max_characters)) for form in self._rows]
        characters = np.full((len(spelled), max(1, *map(len, spelled))), PAD, np.int64)
        for row, ids in zip(characters, spelled, strict=True):
            row[: len(ids)] = ids
        return words, characters


def _shorten(word: str, most: int) -> str:
    return word if len(word) <= most else word[: most - most // 2] + word[len(word) - most // 2 :]


class FlatTexts:
    """Texts of token rows in one array: text i is ``flat[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, texts: Sequence[Int[np.ndarray, " _"]]) -> None:
        self.lengths = np.array([len(text) for text in texts], np.int64)
        self.offsets = np.concatenate(([0], np.cumsum(self.lengths)))
        self.flat = np.concatenate(texts) if texts else np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.lengths)

    def gather(
        self, texts: Int[np.ndarray, " b"], first: Int[np.ndarray, " b"] | int, lengths: Int[np.ndarray, " b"]
    ) -> Int[np.ndarray, "b t"]:
        """Windows of texts as rows, padded with 0.

        Args:
            texts: the indices of the texts.
            first: the first position of each window.
            lengths: the number of positions of each window, within the text.
        """
        positions = np.arange(max(1, int(lengths.max(initial=0))))
        real = positions < lengths[:, None]
        places = np.where(real, (self.offsets[texts] + first)[:, None] + positions, 0)
        if not len(self.flat):
            return np.zeros(places.shape, np.int32)
        return np.where(real, self.flat[places], 0)
