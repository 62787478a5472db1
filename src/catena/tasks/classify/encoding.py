"""Batches of encoded texts on the model's device: padded ids for neural models, bags of features for linear ones.

The encoding of a text as model input: a tokenizer with a vocabulary or with a feature space.

An encoding is built from training texts and saved with the weights; prediction needs nothing else to read a text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.batches import pad
from catena.data.config import VocabularyConfig
from catena.data.corpus import Corpus
from catena.data.features import Features, FeatureSpace, build_features, load_features
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.data.vocabulary import PAD, UNK, Labels, Vocabulary
from catena.errors import DataError
from catena.tasks.classify.config import BAG_KINDS, ClassifyConfig
from catena.tasks.config import LABELS, TOKENIZER, VOCABULARY

_ClassLabels = Int[Tensor, "b"] | Float[Tensor, "b k"] | None
"""The gold class of each text, or 1 and 0 for each class with multiple labels; None in prediction."""


@dataclass(frozen=True)
class TokenBatch:
    """Texts as token ids, padded to the same length; ``examples`` are their indices in the corpus."""

    ids: Int[Tensor, "b t"]
    lengths: Int[Tensor, "b"]
    labels: _ClassLabels
    examples: Int[Tensor, "b"]
    longest: int
    tokens: int
    """Number of tokens without padding, kept here since a sum of lengths would wait for the device."""

    @property
    def size(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class BagBatch:
    """Texts as bags of features, concatenated: those of text ``i`` start at ``offsets[i]``."""

    ids: Int[Tensor, "z"]
    values: Float[Tensor, "z"]
    offsets: Int[Tensor, "b"]
    labels: _ClassLabels
    examples: Int[Tensor, "b"]
    longest: int

    @property
    def size(self) -> int:
        return len(self.offsets)

    @property
    def tokens(self) -> int:
        return self.ids.numel()


ClassifyBatch = TokenBatch | BagBatch


# --- encodings --------------------------------------------------------------------------------------------------------


_FEATURES = "features"


class EncodedTexts(ABC):
    """Encoded texts, accessible by row."""

    lengths: np.ndarray
    """Number of tokens or features of each text."""

    @abstractmethod
    def batch(self, rows: np.ndarray, labels: np.ndarray | None, device: torch.device) -> ClassifyBatch:
        """Some of the texts as one batch. ``labels`` has one row for each of all texts."""

    def __len__(self) -> int:
        return len(self.lengths)


class Encoding(ABC):
    """Encodes texts as ids."""

    tokenizer: Tokenizer
    max_length: int

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, truncated to the maximum length."""
        return self.tokenizer.tokens(text)[: self.max_length]

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of ids: rows of the embedding or weight table."""

    @abstractmethod
    def name(self, id: int) -> str:
        """The readable name of an id."""

    @abstractmethod
    def encode(self, token_lists: Iterable[Sequence[str]]) -> EncodedTexts:
        """Encode texts given as tokens."""

    @abstractmethod
    def encode_corpus(self, corpus: Corpus, tokens: Sequence[str]) -> EncodedTexts:
        """Encode a corpus of provisional ids, where ``tokens[n]`` is the token of id ``n``."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the encoding into a model folder."""

    def notes(self) -> list[str]:
        """Lines about the training texts, for the start of the report."""
        return []


class TokenEncoding(Encoding):
    """Token ids, in order."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary, max_length: int) -> None:
        self.tokenizer, self.vocabulary, self.max_length = tokenizer, vocabulary, max_length

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def name(self, id: int) -> str:
        return self.vocabulary.tokens([id])[0]

    def encode(self, token_lists: Iterable[Sequence[str]]) -> EncodedTexts:
        return EncodedTokens([np.array(self.vocabulary.ids(tokens), np.int32) for tokens in token_lists])

    def encode_corpus(self, corpus: Corpus, tokens: Sequence[str]) -> EncodedTexts:
        return EncodedTokens(corpus.renumbered(np.array(self.vocabulary.ids(tokens), np.int32)))

    def notes(self) -> list[str]:
        return self.vocabulary.notes()

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)


class EncodedTokens(EncodedTexts):
    """Token ids of texts, from a corpus or a list."""

    def __init__(self, texts: Corpus | list[np.ndarray]) -> None:
        self.texts = texts
        self.lengths = texts.lengths if isinstance(texts, Corpus) else np.array([len(t) for t in texts], np.int64)

    def batch(self, rows: np.ndarray, labels: np.ndarray | None, device: torch.device) -> ClassifyBatch:
        ids, lengths = pad([self.texts[int(i)] for i in rows], PAD)
        chosen = None if labels is None else torch.from_numpy(labels[rows]).to(device)
        numbers = torch.from_numpy(np.asarray(rows, np.int64)).to(device)
        longest = int(lengths.max()) if len(lengths) else 0
        return TokenBatch(ids.to(device), lengths.to(device), chosen, numbers, longest, int(lengths.sum()))


class BagEncoding(Encoding):
    """The unordered features of a text."""

    def __init__(self, tokenizer: Tokenizer, space: FeatureSpace, max_length: int) -> None:
        self.tokenizer, self.space, self.max_length = tokenizer, space, max_length

    @property
    def size(self) -> int:
        return len(self.space)

    def name(self, id: int) -> str:
        return self.space.name(id)

    def encode(self, token_lists: Iterable[Sequence[str]]) -> EncodedTexts:
        return EncodedBags(self.space.features(token_lists))

    def encode_corpus(self, corpus: Corpus, tokens: Sequence[str]) -> EncodedTexts:
        return self.encode([tokens[n] for n in corpus[i]] for i in range(len(corpus)))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.space.save(folder / _FEATURES)


class EncodedBags(EncodedTexts):
    """Features of texts, concatenated."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.lengths = np.diff(features.offsets)

    def batch(self, rows: np.ndarray, labels: np.ndarray | None, device: torch.device) -> ClassifyBatch:
        taken = self.features.take(rows)
        chosen = None if labels is None else torch.from_numpy(labels[rows]).to(device)
        longest = int(np.diff(taken.offsets).max(initial=0))
        return BagBatch(
            torch.from_numpy(taken.ids).to(device),
            torch.from_numpy(taken.values).to(device),
            torch.from_numpy(taken.offsets[:-1]).to(device),
            chosen,
            torch.from_numpy(np.asarray(rows, np.int64)).to(device),
            longest,
        )


def learn_encoding(
    config: ClassifyConfig,
    tokenizer: Tokenizer,
    corpus: Corpus,
    tokens: Sequence[str],
    train: np.ndarray,
) -> Encoding:
    """Choose the vocabulary or the features from the training examples."""
    if config.model.kind in BAG_KINDS:
        settings, limits = config.model.features, config.vocabulary  # type: ignore[union-attr]
        settings = settings.model_copy(update={"min_count": max(settings.min_count, limits.min_count)})
        space = build_features(settings, ([tokens[n] for n in corpus[int(i)]] for i in train), limits.max_size)
        _check_size(len(space), "feature", settings.min_count)
        return BagEncoding(tokenizer, space, config.data.max_length)
    counts = corpus.counts(train, len(tokens))
    counted = {token: int(n) for token, n in zip(tokens, counts, strict=True) if n}
    limits = config.vocabulary if not tokenizer.symbols else VocabularyConfig()
    vocabulary = Vocabulary.from_counts(counted, limits, symbols=tokenizer.symbols)
    _check_size(len(vocabulary) - len(vocabulary.specials), "token", limits.min_count)
    return TokenEncoding(tokenizer, vocabulary, config.data.max_length)


def _check_size(n: int, what: str, min_count: int) -> None:
    if n == 0 and min_count > 1:
        raise DataError(
            f"min_count must be at most the count of the most frequent {what} of the training texts, got {min_count}. "
            f"Lower --min-count."
        )


@dataclass(frozen=True, eq=False)
class ClassifyEncoding:
    """The encoding of texts and the names of the classes."""

    texts: Encoding
    names: Labels

    def save(self, folder: Path) -> None:
        self.names.save(folder / LABELS)
        self.texts.save(folder)

    @classmethod
    def load(cls, config: ClassifyConfig, folder: Path) -> ClassifyEncoding:
        """The encoding of a model folder."""
        tokenizer, names = load_tokenizer(folder / TOKENIZER), Labels.load(folder / LABELS)
        if config.model.kind in BAG_KINDS:
            return cls(BagEncoding(tokenizer, load_features(folder / _FEATURES), config.data.max_length), names)
        return cls(TokenEncoding(tokenizer, Vocabulary.load(folder / VOCABULARY), config.data.max_length), names)


def unknown_fraction(encoded: EncodedTexts, rows: np.ndarray) -> float | None:
    """The fraction of tokens not in the vocabulary; None for features, which are never unknown."""
    if not isinstance(encoded, EncodedTokens):
        return None
    total = unknown = 0
    for i in rows:
        ids = encoded.texts[int(i)]
        total += len(ids)
        unknown += int((ids == UNK).sum())
    return unknown / total if total else 0.0
