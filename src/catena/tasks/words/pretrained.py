"""A reader of words that starts from a language model: its vectors of words, and its encoder as their context."""

from __future__ import annotations

from torch import nn

from catena.data.config import VocabularyConfig
from catena.embeddings.config import EmbeddingConfig
from catena.errors import ConfigError
from catena.lm.neural_config import FeedForwardLMConfig
from catena.tasks.lm.config import LmMixtureConfig, NgramConfig
from catena.tasks.pretrained import Pretrained, layers_from_the_top
from catena.tasks.words.config import WordInputConfig
from catena.tasks.words.model import WordReader

_OF_WORDS = ("whitespace", "words", "characters")
"""Tokenizers whose tokens can be the words of a sentence (the characters, where a tagger cuts text into words)."""


def adopt_words(own: WordInputConfig, start: Pretrained) -> WordInputConfig:
    """The settings with the language model's vectors of words and its encoder, all of it spelled out."""
    lm, tokens = start.config.model, start.config.tokenizer
    if tokens.kind not in _OF_WORDS:
        raise ConfigError(
            f"pretrained = {str(start.folder)!r} reads pieces of words (tokenizer {tokens.kind!r}), and sentences of "
            f"words are to be read: train one with --tokenizer whitespace"
        )
    if isinstance(lm, FeedForwardLMConfig | NgramConfig | LmMixtureConfig):
        raise ConfigError(
            f"pretrained = {str(start.folder)!r} is of kind {lm.kind!r}, whose encoder reads no whole sentence: choose "
            f"a language model of kind lstm, gru, rnn, convolution or transformer"
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
    """Copy the weights of the language model into a reader that was built by the adopted settings."""
    assert reader.context is not None
    start.put_into(reader.embedding, reader.context)


def pretrained_layer_groups(reader: WordReader) -> list[list[nn.Parameter]]:
    """Of what was pretrained, the layers from the top, the vectors of words last."""
    assert reader.context is not None
    return [*layers_from_the_top(reader.context), list(reader.embedding.parameters())]
