"""Reading models from their configs. Tested in tests/tasks/read/test_model.py."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.attention.flow import AttentionFlow
from catena.attention.scores import build_score
from catena.data.vocabulary import PAD, UNK, Vocabulary
from catena.embeddings.characters import build_characters
from catena.embeddings.table import Embedding, EmbeddingTable, PartlyFrozenTable
from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder
from catena.encoders.highway import HighwayLayer
from catena.encoders.layers import build_activation
from catena.encoders.recurrent import Recurrent
from catena.tasks.read.config import BiDAFConfig
from catena.tasks.read.evidence import NoAnswerRegression
from catena.tasks.read.model import BiDAF, NoAnswerBias, PooledNoAnswer, SpanOutput, TokenEmbedding


def build_bidaf(
    config: BiDAFConfig, words: Vocabulary, n_characters: int, vectors: Float[Tensor, "v d"] | None = None
) -> BiDAF:
    """A BiDAF model with new weights.

    Args:
        config: the config.
        words: the vocabulary of words.
        n_characters: the number of characters with an id.
        vectors: pretrained vectors of the last ``v`` words of the vocabulary; None if all vectors are trained.
    """
    embedding = _build_embedding(config, words, n_characters, vectors)
    contextual = _build(config.contextual, embedding.d_out + 2 * config.match)
    d = contextual.d_out
    flow = AttentionFlow(
        d,
        build_score(config.score, d, d),
        context_to_query=config.context_to_query,
        query_to_context=config.query_to_context,
    )
    modeling = _build(config.modeling, flow.d_out)
    d_end = flow.d_out + 3 * modeling.d_out if config.end_reads_start else modeling.d_out
    output = SpanOutput(
        flow.d_out,
        modeling.d_out,
        _build(config.end, d_end),
        end_reads_start=config.end_reads_start,
        dropout=config.dropout,
    )
    no_answer: NoAnswerBias | PooledNoAnswer | None = None
    if config.no_answer == "bias":
        no_answer = NoAnswerBias()
    elif config.no_answer == "pooled":
        no_answer = PooledNoAnswer(modeling.d_out, modeling.d_out // 2)
    decision = NoAnswerRegression() if no_answer is not None and config.no_answer_words else None
    return BiDAF(
        embedding,
        contextual,
        flow,
        modeling,
        output,
        no_answer,
        config.dropout,
        match=config.match,
        decision=decision,
    )


def _build(config: object, d_in: int) -> Encoder:
    encoder = build_encoder(config, d_in)  # type: ignore[arg-type]
    if isinstance(encoder, Recurrent):
        encoder.joint_directions = True
    return encoder


def _build_embedding(
    config: BiDAFConfig, words: Vocabulary, n_characters: int, vectors: Float[Tensor, "v d"] | None
) -> TokenEmbedding:
    table = _build_words(config, words, vectors) if config.use_words else None
    characters = build_characters(config.characters, n_characters)
    d = sum(part.d_out for part in (table, characters) if part is not None)
    highway = config.highway
    layers = [
        HighwayLayer(d, build_activation(highway.activation), carry=highway.carry, bias=highway.bias)
        for _ in range(highway.n_layers)
    ]
    unknown = _unknown_probabilities(config, words) if config.unknown_dropout else None
    return TokenEmbedding(table, characters, nn.Sequential(*layers), unknown, config.dropout)


def _build_words(config: BiDAFConfig, words: Vocabulary, vectors: Float[Tensor, "v d"] | None) -> Embedding:
    own = config.words
    if vectors is not None and own.mode == "static":
        n_trained = len(words) - len(vectors)
        return PartlyFrozenTable(n_trained, vectors, PAD, own.scale, own.dropout, own.token_dropout)
    table = EmbeddingTable(len(words), own.d, PAD, own.scale, dropout=own.dropout, token_dropout=own.token_dropout)
    if vectors is not None:
        table.weight.data[len(words) - len(vectors) :] = vectors
    return table


def _unknown_probabilities(config: BiDAFConfig, words: Vocabulary) -> Float[Tensor, " v"]:
    """z / (z + n) for a word that occurs n times, 0 for padding and the unknown word itself."""
    z = config.unknown_dropout
    probabilities = z / (z + torch.tensor(words.counts, dtype=torch.float32))
    probabilities[[PAD, UNK]] = 0.0
    return probabilities
