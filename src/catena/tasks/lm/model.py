"""Build the network of a config, with pretrained word vectors if it names a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from catena.data.readers.vectors import read_word_vectors
from catena.data.vocabulary import Vocabulary
from catena.lm.base import BEGIN_SYMBOL, END_SYMBOL
from catena.lm.neural import NeuralLanguageModel
from catena.lm.neural_build import EmbeddingRows, build_masked, build_neural
from catena.lm.neural_masked import MaskedLanguageModel
from catena.tasks.lm.config import LmConfig, LmMixtureConfig, NgramConfig
from catena.tasks.lm.sound.config import WaveNetLMConfig

_Network = NeuralLanguageModel | MaskedLanguageModel


def build_network(
    config: LmConfig, vocabulary: Vocabulary, counts: Sequence[int] | None = None, vectors: EmbeddingRows | None = None
) -> _Network:
    """The network of a config, with random weights.

    Args:
        config: the config of a neural model.
        vocabulary: the vocabulary of the model.
        counts: frequency of each id in train. A saved model may be rebuilt with the counts of the vocabulary, which
            lack the end symbols: the values derived from the true counts are among its weights.
        vectors: pretrained embedding rows and a mask of the rows that are set.
    """
    settings = config.model
    assert not isinstance(settings, NgramConfig | LmMixtureConfig | WaveNetLMConfig)
    counts = vocabulary.counts if counts is None else counts
    if vectors is None and settings.embedding.mode != "random":
        n = len(vocabulary)
        vectors = torch.zeros(n, settings.embedding.d), torch.zeros(n, dtype=torch.bool)
    if config.objective.kind == "masked":
        return build_masked(settings, vocabulary, counts, vectors=vectors)
    begin = BEGIN_SYMBOL if config.order == "sentences" else END_SYMBOL
    return build_neural(settings, vocabulary, counts, begin=begin, vectors=vectors)


def read_embedding_rows(config: LmConfig, vocabulary: Vocabulary) -> EmbeddingRows | None:
    """The word vectors of the file that a config names, or None."""
    settings = config.model
    assert not isinstance(settings, NgramConfig | LmMixtureConfig | WaveNetLMConfig)
    if settings.embedding.vectors is None:
        return None
    rows, found = read_word_vectors(Path(settings.embedding.vectors), vocabulary.symbols, settings.embedding.d)
    return torch.from_numpy(rows), torch.from_numpy(found)
