"""Contexts and responses as ids: a tokeniser and a vocabulary with a mark between the turns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from catena.data.dialogue import Exchange
from catena.data.readers.vectors import read_vectors, vectors_for
from catena.data.tokenise import Tokeniser, build_tokeniser, load_tokeniser
from catena.data.vocabulary import UNK, Vocabulary
from catena.embeddings.settings import EmbeddingSettings
from catena.tasks.converse.dataset import Dataset
from catena.tasks.converse.settings import ConverseConfig

TOKENISER, VOCABULARY = "tokenizer", "vocabulary.json"
TURN = "<turn>"
"""What stands between two turns of a context."""


class DualEncoding:
    """Ids of contexts, the last ``max_length`` of them, and of responses, the first. An empty text is one unknown."""

    def __init__(self, tokeniser: Tokeniser, vocabulary: Vocabulary, max_length: int) -> None:
        self.tokeniser, self.vocabulary, self.max_length = tokeniser, vocabulary, max_length
        self.turn = vocabulary.special(TURN)

    def context(self, exchange: Exchange) -> np.ndarray:
        """The ids of the turns, with a mark between any two."""
        ids: list[int] = []
        for i, turn in enumerate(exchange.context):
            ids += [self.turn] if i else []
            ids += self.vocabulary.ids(self.tokeniser.tokens(turn))
        return np.array(ids[-self.max_length :] or [UNK], np.int32)

    def response(self, text: str) -> np.ndarray:
        """The ids of a response."""
        ids = self.vocabulary.ids(self.tokeniser.tokens(text))
        return np.array(ids[: self.max_length] or [UNK], np.int32)

    def save(self, folder: Path) -> None:
        self.tokeniser.save(folder / TOKENISER)
        self.vocabulary.save(folder / VOCABULARY)


def load_dual_encoding(folder: Path, max_length: int) -> DualEncoding:
    """Read what :meth:`DualEncoding.save` wrote."""
    return DualEncoding(load_tokeniser(folder / TOKENISER), Vocabulary.load(folder / VOCABULARY), max_length)


def texts_of(part: Iterable[Exchange]) -> list[str]:
    """The different turns and right responses of a part."""
    found: dict[str, None] = {}
    for exchange in part:
        found.update(dict.fromkeys(exchange.context))
        found.update(dict.fromkeys(exchange.responses))
    return list(found)


def learn_tokeniser(config: ConverseConfig, data: Dataset) -> Tokeniser:
    """The tokeniser of a config, trained on the texts of train where it is one that is trained."""
    return build_tokeniser(config.tokenizer, texts_of(data.train))


def learn_vocabulary(
    config: ConverseConfig, tokeniser: Tokeniser, texts: Sequence[str], specials: Sequence[str], vectors: str | None
) -> Vocabulary:
    """The tokens of texts, and all words of a file of vectors, where there is one."""
    words = read_vectors(Path(vectors)).words if vectors is not None else ()
    limits = config.vocabulary if not tokeniser.symbols else None
    symbols = (*tokeniser.symbols, *words) if not tokeniser.symbols else tokeniser.symbols
    return Vocabulary.count((tokeniser.tokens(text) for text in texts), limits, specials, symbols)


def word_vectors(
    embedding: EmbeddingSettings, vocabulary: Vocabulary, read: bool
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """A row for each id and which of them the file of vectors knows; zeros where they are not ``read``, for a model
    whose weights are loaded afterwards; nothing where all vectors are drawn."""
    if embedding.mode == "random":
        return None, None
    if not read:
        return torch.zeros(len(vocabulary), embedding.d), torch.zeros(len(vocabulary), dtype=torch.bool)
    rows, found = vectors_for(Path(str(embedding.vectors)), vocabulary.symbols, embedding.d)
    return torch.from_numpy(rows), torch.from_numpy(found)


def rarity_of(vocabulary: Vocabulary, tokeniser: Tokeniser, texts: Sequence[str]) -> np.ndarray:
    """log((1 + n) / (1 + texts that have it)) of each id; 0 for specials, the unknown among them."""
    frequency: Counter[str] = Counter()
    for text in texts:
        frequency.update(set(tokeniser.tokens(text)))
    found = [math.log((1 + len(texts)) / (1 + frequency.get(name, 0))) for name in vocabulary.symbols]
    found[: len(vocabulary.specials)] = [0.0] * len(vocabulary.specials)
    return np.array(found, np.float32)
