"""A classifier initialized from the encoder of a language model."""

from __future__ import annotations

from typing import Any

from torch import nn

from catena.data.config import VocabularyConfig
from catena.embeddings.config import EmbeddingConfig
from catena.errors import ConfigError
from catena.lm.neural_config import ConvolutionLMConfig, GRULMConfig, LSTMLMConfig, RNNLMConfig
from catena.lm.neural_config import TransformerLMConfig as TransformerLm
from catena.tasks.classify.config import (
    ClassifierConfig,
    ClassifyConfig,
    ConvolutionalClassifierConfig,
    NeuralClassifierConfig,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from catena.tasks.classify.encoding import TokenEncoding
from catena.tasks.classify.model import BaggingEnsemble, Classifier, PooledEncoder, VectorClassifier, WithHighway
from catena.tasks.pretrained import Pretrained, layers_from_the_top

_KEPT = ("dropout_input", "dropout_hidden", "n_highway", "highway_carry", "pooling", "pool_outputs")
"""Options that the classifier keeps; its embedding and encoder are the language model's."""


def config_from_pretrained(config: ClassifyConfig, start: Pretrained) -> ClassifyConfig:
    """The config with the model, tokenizer and vocabulary of the pretrained model filled in."""
    values = {
        "model": _model_around(config.model, start),
        "tokenizer": start.config.tokenizer,
        "vocabulary": VocabularyConfig(),
        "pretrained": str(start.folder),
    }
    return config.model_copy(update=values)


def _model_around(own: ClassifierConfig, start: Pretrained) -> NeuralClassifierConfig:
    lm = start.config.model
    if isinstance(lm, RNNLMConfig | LSTMLMConfig | GRULMConfig):
        kind: type[NeuralClassifierConfig] = RecurrentClassifierConfig
    elif isinstance(lm, TransformerLm):
        kind = TransformerClassifierConfig
    elif isinstance(lm, ConvolutionLMConfig) and lm.encoder.kind == "convolution":
        kind = ConvolutionalClassifierConfig
    else:
        raise ConfigError(
            f"pretrained = {str(start.folder)!r} is of kind {lm.kind!r}, whose encoder a classifier cannot use. Use a "
            f"language model of kind lstm, gru, rnn or transformer."
        )
    kept: dict[str, Any] = {}
    if isinstance(own, NeuralClassifierConfig):
        names = _KEPT if isinstance(own, kind) else _KEPT[:4]
        kept = {name: getattr(own, name) for name in names}
    embedding = EmbeddingConfig(d=lm.embedding.d, scale=lm.embedding.scale)
    return kind.model_validate({**kept, "embedding": embedding, "encoder": lm.encoder})


def get_encoding(config: ClassifyConfig, start: Pretrained) -> TokenEncoding:
    """The language model's tokenizer and ids."""
    return TokenEncoding(start.encoding.tokenizer, start.encoding.vocabulary, config.data.max_length)


def load_pretrained_weights(model: Classifier, start: Pretrained) -> None:
    """Copy the weights of the language model's embedding and encoder into a classifier or each model of a bag."""
    for one in model.members if isinstance(model, BaggingEnsemble) else [model]:
        assert isinstance(one, VectorClassifier)
        start.put_into(one.embedding, get_encoder(one))


def get_encoder(model: VectorClassifier) -> nn.Module:
    """The encoder of a classifier."""
    summary: nn.Module = model.summary
    while isinstance(summary, WithHighway | PooledEncoder):
        summary = summary.summary if isinstance(summary, WithHighway) else summary.encoder
    return summary


def layer_groups(model: nn.Module) -> list[list[nn.Parameter]]:
    """The pretrained layers from the top, with the embedding last."""
    found: list[list[nn.Parameter]] = []
    for one in model.members if isinstance(model, BaggingEnsemble) else [model]:
        assert isinstance(one, VectorClassifier)
        own = [*layers_from_the_top(get_encoder(one)), list(one.embedding.parameters())]
        found = [a + b for a, b in zip(found, own, strict=True)] if found else own
    return found
