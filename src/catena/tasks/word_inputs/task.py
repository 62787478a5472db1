"""Tasks that read words as vectors, and the start of these vectors from a language model.

Tested in tests/tasks/word_inputs/test_model.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from catena.data.config import VocabularyConfig
from catena.embeddings.config import EmbeddingConfig
from catena.errors import ConfigError
from catena.tasks.base import C, E, O, P
from catena.tasks.neural import NeuralTask
from catena.tasks.pretrained import Pretrained, layers_from_the_top
from catena.tasks.word_inputs.config import WordInputConfig
from catena.tasks.word_inputs.model import WordReader

_OF_WORDS = ("whitespace", "words", "characters")
"""Tokenizers whose tokens can be the words of a sentence (or its characters, for word segmentation)."""


def adopt_words(own: WordInputConfig, start: Pretrained) -> WordInputConfig:
    """The config with the word embeddings and the encoder of the language model."""
    from catena.lm.neural_config import FeedForwardLMConfig
    from catena.tasks.lm.config import LmMixtureConfig, NgramConfig
    from catena.tasks.lm.sound.config import WaveNetLMConfig

    lm, tokens = start.config.model, start.config.tokenizer
    if tokens.kind not in _OF_WORDS:
        raise ConfigError(
            f"pretrained must be a language model over words, got {str(start.folder)!r} with tokenizer "
            f"{tokens.kind!r}. Train one with --tokenizer whitespace."
        )
    if isinstance(lm, FeedForwardLMConfig | NgramConfig | LmMixtureConfig | WaveNetLMConfig):
        raise ConfigError(
            f"pretrained must be a language model with a sentence encoder, got {str(start.folder)!r} of kind "
            f"{lm.kind!r}. Choose one of kind lstm, gru, rnn, convolution or transformer."
        )
    values = {
        "embedding": EmbeddingConfig(d=lm.embedding.d, scale=lm.embedding.scale),
        "vocabulary": VocabularyConfig(),
        "lowercase": bool(getattr(tokens, "lowercase", False)),
        "all_vectors": False,
        "digits": False,
        "context": lm.encoder,
    }
    return WordInputConfig.model_validate({**{name: getattr(own, name) for name in type(own).model_fields}, **values})


def start_reader(reader: WordReader, start: Pretrained) -> None:
    """Copy the weights of the language model into a word embedding layer built from the adopted config."""
    assert reader.context is not None
    start.put_into(reader.embedding, reader.context)


def pretrained_layer_groups(reader: WordReader) -> list[list[nn.Parameter]]:
    """The pretrained parameters by layer, from the top down to the word embeddings."""
    assert reader.context is not None
    return [*layers_from_the_top(reader.context), list(reader.embedding.parameters())]


# --- the task ---------------------------------------------------------------------------------------------------------


class WordTask(NeuralTask[C, E, P, O]):
    """A task whose batches have words and whose network has a :class:`~.model.SentenceEncoder`."""

    @classmethod
    def adopt(cls, config: C, pretrained: Pretrained) -> C:
        own: Any = config
        model = own.model.model_copy(update={"words": adopt_words(own.model.words, pretrained)})
        return config.model_copy(update={"model": model, "pretrained": str(pretrained.folder)})

    def load_pretrained(self, pretrained: Pretrained) -> None:
        start_reader(self._reader, pretrained)

    def frozen_layers(self) -> Sequence[Sequence[nn.Parameter]]:
        config: Any = self.config
        return pretrained_layer_groups(self._reader) if config.pretrained else []

    @property
    def _reader(self) -> WordReader:
        network: Any = self.network
        reader: WordReader = network.encoder.reader
        return reader

    def describe_batch(self, batch: Any) -> str:
        return f"{batch.words.size} sentences, longest {batch.words.longest} words"
