"""Encoding of sentences as ids: the vocabularies of words, characters and further columns.

An encoding is built from training sentences, saved with the weights, and sufficient for prediction. The characters of a
word are encoded once per distinct form in a batch, not once per occurrence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.batches import pad
from catena.data.config import VocabularyConfig
from catena.data.readers.vectors import read_vectors
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.errors import DataError
from catena.tasks.tag.features.templates import word_feature
from catena.tasks.word_inputs.config import WordInputConfig
from catena.tasks.word_inputs.sentences import Sentence

WORDS, CHARACTERS, COLUMN = "words.json", "characters.json", "column-{}.json"
_FEATURES = VocabularyConfig(min_count=2)
"""Which values of features have vectors of their own."""
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class WordBatch:
    """Sentences on the device of a model, padded with 0.

    ``characters[spellings[b, i]]`` are the characters of word ``i``; spelling 0 is padding and has none.
    """

    words: Int[Tensor, "b t"]
    lengths: Int[Tensor, "b"]
    columns: Int[Tensor, "b t f"] | None
    spellings: Int[Tensor, "b t"] | None
    characters: Int[Tensor, "n c"] | None
    longest: int
    tokens: int
    """Number of words without padding, kept on the CPU to avoid a device sync."""

    @property
    def size(self) -> int:
        return len(self.lengths)


class EncodedSentences:
    """Encoded sentences, accessed by row.

    ``forms[i]`` has the numbers of distinct forms, whose characters are ``spelled[number]``; form 0 is padding.
    """

    def __init__(
        self,
        words: list[np.ndarray],
        columns: list[np.ndarray],
        forms: list[np.ndarray] | None,
        spelled: list[np.ndarray],
    ) -> None:
        self.words, self.columns, self.forms, self.spelled = words, columns, forms, spelled
        self.lengths = np.array([len(ids) for ids in words], np.int64)

    def __len__(self) -> int:
        return len(self.words)

    def batch(self, rows: Sequence[int] | np.ndarray, device: torch.device) -> WordBatch:
        """A batch of the sentences at ``rows``."""
        words, lengths = pad([self.words[int(i)] for i in rows], PAD)
        columns = spellings = characters = None
        if self.columns and self.columns[0].ndim == 2:
            table = np.zeros((*words.shape, self.columns[0].shape[1]), np.int64)
            for row, i in zip(table, rows, strict=True):
                row[: len(self.columns[int(i)])] = self.columns[int(i)]
            columns = torch.from_numpy(table).to(device)
        if self.forms is not None:
            forms, _ = pad([self.forms[int(i)] for i in rows], 0)
            distinct, places = np.unique(np.append(forms.numpy().ravel(), 0), return_inverse=True)
            characters = pad([self.spelled[n] for n in distinct], PAD)[0].to(device)
            spellings = torch.from_numpy(places.reshape(-1)[:-1].reshape(forms.shape)).to(device)
        longest = int(lengths.max()) if len(lengths) else 0
        sizes = longest, int(lengths.sum())
        return WordBatch(words.to(device), lengths.to(device), columns, spellings, characters, *sizes)


@dataclass(frozen=True, eq=False)
class WordEncoding:
    """The vocabularies of words, characters and further columns. ``characters`` is None if they are not used."""

    settings: WordInputConfig
    words: Vocabulary
    characters: Vocabulary | None
    columns: tuple[Vocabulary, ...]

    @classmethod
    def count(
        cls, settings: WordInputConfig, sentences: Iterable[Sentence], words: Vocabulary | None = None
    ) -> WordEncoding:
        """Build the vocabularies from training sentences.

        Args:
            settings: the config of the word inputs.
            sentences: the training sentences.
            words: the vocabulary of a pretrained language model, used instead of a new one.
        """
        counted: Counter[str] = Counter()
        spelled: Counter[str] = Counter()
        further: list[Counter[str]] = [Counter() for _ in (*settings.columns, *settings.features)]
        for sentence in sentences:
            _check_columns(settings, sentence)
            counted.update(_looked_up(settings, sentence.words))
            spelled.update("".join(sentence.words))
            for counter, values in zip(further, _further_values(settings, sentence), strict=True):
                counter.update(values)
        if words is None:
            extra = _words_of_vectors(settings) if settings.all_vectors else ()
            words = Vocabulary.from_counts(counted, settings.vocabulary, symbols=extra)
        characters = None if settings.characters.kind == "none" else Vocabulary.from_counts(spelled)
        kept = [VocabularyConfig()] * len(settings.columns) + [_FEATURES] * len(settings.features)
        columns = (Vocabulary.from_counts(counter, which) for counter, which in zip(further, kept, strict=True))
        return cls(settings, words, characters, tuple(columns))

    def encode(self, sentences: Iterable[Sentence]) -> EncodedSentences:
        """The encoded sentences."""
        words, columns, forms = [], [], []
        numbers: dict[str, int] = {}
        for sentence in sentences:
            _check_columns(self.settings, sentence)
            words.append(np.array(self.words.ids(_looked_up(self.settings, sentence.words)), np.int32))
            values = _further_values(self.settings, sentence)
            found = [vocabulary.ids(column) for vocabulary, column in zip(self.columns, values, strict=True)]
            columns.append(np.array(found, np.int32).T)
            if self.characters is not None:
                forms.append(np.array([numbers.setdefault(w, len(numbers) + 1) for w in sentence.words], np.int32))
        if self.characters is None:
            return EncodedSentences(words, columns, None, [])
        spelled = [np.zeros(0, np.int32), *(self._spelling(word) for word in numbers)]
        return EncodedSentences(words, columns, forms, spelled)

    def _spelling(self, word: str) -> np.ndarray:
        assert self.characters is not None
        assert self.settings.characters.kind != "none"
        most = self.settings.characters.max_length
        shown = word if len(word) <= most else word[: most - most // 2] + word[len(word) - most // 2 :]
        return np.array(self.characters.ids(shown), np.int32)

    def unknown_fraction(self, encoded: EncodedSentences) -> float:
        """The fraction of words outside the vocabulary."""
        unknown = sum(int((ids == UNK).sum()) for ids in encoded.words)
        return unknown / max(1, int(encoded.lengths.sum()))

    def unknown_fractions(self, data: Any) -> dict[str, float]:
        """The fractions of unknown words of dev and test, for datasets whose rows have ``words``."""
        return {part: self.unknown_fraction(getattr(data, part).words) for part in ("dev", "test")}

    def save(self, folder: Path) -> None:
        """Write the vocabularies into a model folder."""
        self.words.save(folder / WORDS)
        if self.characters is not None:
            self.characters.save(folder / CHARACTERS)
        for i, vocabulary in enumerate(self.columns):
            vocabulary.save(folder / COLUMN.format(i))

    @classmethod
    def load(cls, settings: WordInputConfig, folder: Path) -> WordEncoding:
        """Load an encoding written by :meth:`save`."""
        characters = None if settings.characters.kind == "none" else Vocabulary.load(folder / CHARACTERS)
        n = len(settings.columns) + len(settings.features)
        columns = tuple(Vocabulary.load(folder / COLUMN.format(i)) for i in range(n))
        return cls(settings, Vocabulary.load(folder / WORDS), characters, columns)


def _looked_up(settings: WordInputConfig, words: Sequence[str]) -> Sequence[str]:
    """The forms of words for vocabulary lookup."""
    if settings.lowercase:
        words = [word.lower() for word in words]
    return [_DIGIT.sub("0", word) for word in words] if settings.digits else words


def _further_values(settings: WordInputConfig, sentence: Sentence) -> list[Sequence[str]]:
    """The values of the further columns of a file and of the features of words, empty for those without one."""
    functions = map(word_feature, settings.features)
    return [*sentence.columns, *([make(word) or "" for word in sentence.words] for make in functions)]


def _words_of_vectors(settings: WordInputConfig) -> list[str]:
    return list(dict.fromkeys(_looked_up(settings, read_vectors(Path(str(settings.embedding.vectors))).words)))


def _check_columns(settings: WordInputConfig, sentence: Sentence) -> None:
    wanted, found = len(settings.columns), len(sentence.columns)
    if wanted != found or any(len(values) != len(sentence.words) for values in sentence.columns):
        given = f"{found}" if wanted != found else "one of another length"
        raise DataError(
            f"A sentence must have {wanted} further column{'s' if wanted != 1 else ''} "
            f"({', '.join(settings.columns) or 'none'}) with a value for each of its {len(sentence.words)} words, got "
            f"{given}. Pass words with their columns."
        )
