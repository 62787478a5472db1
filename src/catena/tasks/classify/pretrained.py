"""A classifier that starts from the encoder of a language model."""

from __future__ import annotations

from typing import Any

from torch import nn

from catena.data.settings import VocabularySettings
from catena.embeddings.settings import EmbeddingSettings
from catena.errors import ConfigError
from catena.lm.neural_settings import ConvolutionModel, GruModel, LstmModel, RnnModel
from catena.lm.neural_settings import TransformerModel as TransformerLm
from catena.tasks.classify.encoding import TokenEncoding
from catena.tasks.classify.model import Bag, Classifier, Pooled, VectorClassifier, WithHighway
from catena.tasks.classify.settings import (
    ClassifyConfig,
    ConvolutionalModel,
    ModelSettings,
    NeuralModel,
    RecurrentModel,
    TransformerModel,
)
from catena.tasks.pretrained import Pretrained, layers_from_the_top

KEPT = ("dropout_input", "dropout_hidden", "n_highway", "highway_carry", "pooling", "pool_outputs")
"""What a classifier decides for itself; its embedding and encoder are the language model's."""


def adopt(config: ClassifyConfig, start: Pretrained) -> ClassifyConfig:
    """The config with the model, the tokens and the vocabulary that the start gives, all of it spelled out."""
    values = {
        "model": _model_around(config.model, start),
        "tokenizer": start.config.tokenizer,
        "vocabulary": VocabularySettings(),
        "pretrained": str(start.folder),
    }
    return config.model_copy(update=values)


def _model_around(own: ModelSettings, start: Pretrained) -> NeuralModel:
    lm = start.config.model
    if isinstance(lm, RnnModel | LstmModel | GruModel):
        kind: type[NeuralModel] = RecurrentModel
    elif isinstance(lm, TransformerLm):
        kind = TransformerModel
    elif isinstance(lm, ConvolutionModel) and lm.encoder.kind == "convolution":
        kind = ConvolutionalModel
    else:
        raise ConfigError(
            f"pretrained = {str(start.folder)!r} is of kind {lm.kind!r}, whose encoder no classifier takes: choose a "
            f"language model of kind lstm, gru, rnn or transformer"
        )
    kept: dict[str, Any] = {}
    if isinstance(own, NeuralModel):
        names = KEPT if isinstance(own, kind) else KEPT[:4]
        kept = {name: getattr(own, name) for name in names}
    embedding = EmbeddingSettings(d=lm.embedding.d, scale=lm.embedding.scale)
    return kind.model_validate({**kept, "embedding": embedding, "encoder": lm.encoder})


def encoding_of(config: ClassifyConfig, start: Pretrained) -> TokenEncoding:
    """The language model's tokens and ids."""
    return TokenEncoding(start.encoding.tokeniser, start.encoding.vocabulary, config.data.max_length)


def start_with(model: Classifier, start: Pretrained) -> None:
    """Copy the weights of the language model's embedding and encoder into a classifier, or each of a bag."""
    for one in model.members if isinstance(model, Bag) else [model]:
        assert isinstance(one, VectorClassifier)
        start.put_into(one.embedding, encoder_of(one))


def encoder_of(model: VectorClassifier) -> nn.Module:
    """The encoder inside a classifier."""
    summary: nn.Module = model.summary
    while isinstance(summary, WithHighway | Pooled):
        summary = summary.summary if isinstance(summary, WithHighway) else summary.encoder
    return summary


def groups_of(model: nn.Module) -> list[list[nn.Parameter]]:
    """Of what was pretrained, the layers from the top, the embedding last."""
    found: list[list[nn.Parameter]] = []
    for one in model.members if isinstance(model, Bag) else [model]:
        assert isinstance(one, VectorClassifier)
        own = [*layers_from_the_top(encoder_of(one)), list(one.embedding.parameters())]
        found = [a + b for a, b in zip(found, own, strict=True)] if found else own
    return found
