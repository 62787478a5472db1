"""Contexts and responses as ids: a tokenizer, and a vocabulary with a separator of turns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from catena.data.exchanges import Exchange
from catena.data.readers.vectors import read_vectors
from catena.data.special_tokens import TURN_SYMBOL
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.tasks.config import TOKENIZER, VOCABULARY
from catena.tasks.converse.config import ConverseConfig
from catena.tasks.converse.data import distinct_texts


class DualEncoding:
    """Encodes the last ``max_length`` ids of contexts and the first of responses. An empty text is one ``<unk>``.

    Args:
        tokenizer: the tokenizer.
        vocabulary: the vocabulary.
        max_length: the maximum number of ids.
        rarity: the idf of each id, for the initial weights of a new network; it is not stored.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, max_length: int, rarity: np.ndarray | None = None
    ) -> None:
        self.tokenizer, self.vocabulary, self.max_length, self.rarity = tokenizer, vocabulary, max_length, rarity
        self.turn = vocabulary.special(TURN_SYMBOL)

    def context(self, exchange: Exchange) -> np.ndarray:
        """The ids of the turns, with separators."""
        ids: list[int] = []
        for i, turn in enumerate(exchange.context):
            ids += [self.turn] if i else []
            ids += self.vocabulary.ids(self.tokenizer.tokens(turn))
        return np.array(ids[-self.max_length :] or [UNK], np.int32)

    def response(self, text: str) -> np.ndarray:
        """The ids of a response."""
        ids = self.vocabulary.ids(self.tokenizer.tokens(text))
        return np.array(ids[: self.max_length] or [UNK], np.int32)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)


def load_dual_encoding(folder: Path, max_length: int) -> DualEncoding:
    """Load the encoding written by :meth:`DualEncoding.save`."""
    return DualEncoding(load_tokenizer(folder / TOKENIZER), Vocabulary.load(folder / VOCABULARY), max_length)


def fit_tokenizer(config: ConverseConfig, train: Iterable[Exchange]) -> Tokenizer:
    """The tokenizer of a config, trained on the texts of train if its kind needs training."""
    return build_tokenizer(config.tokenizer, distinct_texts(train))


def fit_vocabulary(
    config: ConverseConfig, tokenizer: Tokenizer, texts: Sequence[str], specials: Sequence[str], vectors: str | None
) -> Vocabulary:
    """The vocabulary of texts, and of the words of a file of vectors if there is one."""
    words = read_vectors(Path(vectors)).words if vectors is not None else ()
    limits = config.vocabulary if not tokenizer.symbols else None
    symbols = (*tokenizer.symbols, *words) if not tokenizer.symbols else tokenizer.symbols
    return Vocabulary.count((tokenizer.tokens(text) for text in texts), limits, specials, symbols)


def inverse_document_frequency(vocabulary: Vocabulary, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """log((1 + n) / (1 + number of texts with the id)) of each id; 0 for special tokens, including ``<unk>``."""
    frequency: Counter[str] = Counter()
    for text in texts:
        frequency.update(set(tokenizer.tokens(text)))
    found = [math.log((1 + len(texts)) / (1 + frequency.get(name, 0))) for name in vocabulary.symbols]
    found[: len(vocabulary.specials)] = [0.0] * len(vocabulary.specials)
    return np.array(found, np.float32)
