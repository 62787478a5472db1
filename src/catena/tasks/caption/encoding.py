"""Captions as ids and back, saved with the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.seq2seq.sides import VocabularyInfo
from catena.tasks.caption.config import CaptionConfig
from catena.tasks.translate.encoding import SPECIALS, TextEncoding


class CaptionEncoding:
    """The tokenizer and vocabulary of captions."""

    def __init__(self, target: TextEncoding) -> None:
        self.target = target
        self.vocabulary, self.tokenizer = target.vocabulary, target.tokenizer
        self.begin, self.end = (self.vocabulary.special(name) for name in (BEGIN_SYMBOL, END_SYMBOL))

    @classmethod
    def fit(cls, config: CaptionConfig, captions: Sequence[str]) -> CaptionEncoding:
        """The encoding with the words of captions."""
        tokenizer = build_tokenizer(config.tokenizer, captions)
        words = (tokenizer.tokens(caption) for caption in captions)
        return cls(TextEncoding(tokenizer, Vocabulary.count(words, config.vocabulary, SPECIALS)))

    def ids(self, caption: str) -> np.ndarray:
        """The ids of a caption with its end symbol."""
        return np.append(self.target.ids(self.tokenizer.tokens(caption)), self.end)

    def text(self, ids: Iterable[int]) -> str:
        """The caption of ids, on one line."""
        return " ".join(self.tokenizer.join(self.vocabulary.tokens(ids)).split())

    def sides(self, n_captions: int = 1) -> VocabularyInfo:
        """Vocabulary size, counts and special ids for building a model of ``n_captions`` training captions."""
        counts = list(self.vocabulary.counts)
        counts[self.end] = n_captions
        never = (PAD, UNK, self.begin) if self.tokenizer.symbols else (PAD, self.begin)
        return VocabularyInfo(n_source=0, counts=counts, begin=self.begin, end=self.end, forbidden=never)

    def save(self, folder: Path) -> None:
        self.target.save(folder, "")

    @classmethod
    def load(cls, folder: Path) -> CaptionEncoding:
        """Load the encoding written by :meth:`save`."""
        return cls(TextEncoding.load(folder, ""))
