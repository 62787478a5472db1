"""Neural language models from their configs. Tested in tests/lm/test_neural.py and tests/lm/test_neural_masked.py."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor, nn

from catena.data.special_tokens import END_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.embeddings.table import Embedding, EmbeddingTable, build_embedding
from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder
from catena.encoders.causal import causal
from catena.errors import ConfigError
from catena.lm.base import non_text_ids
from catena.lm.feed_forward import FeedForward
from catena.lm.neural import DropoutRates, NeuralLanguageModel
from catena.lm.neural_config import AnyNeuralLMConfig, FeedForwardLMConfig, NeuralLMConfig
from catena.lm.neural_masked import MaskedLanguageModel
from catena.outputs.base import OutputLayer
from catena.outputs.build import build_output

EmbeddingRows = tuple[Float[Tensor, "v d"], Bool[Tensor, " v"]]
"""Word vectors for a vocabulary, and the words for which they are known."""


def build_neural(
    settings: AnyNeuralLMConfig,
    vocabulary: Vocabulary,
    counts: Sequence[int],
    *,
    begin: str = END_SYMBOL,
    vectors: EmbeddingRows | None = None,
) -> NeuralLanguageModel:
    """The neural language model of a config.

    Args:
        settings: the config.
        vocabulary: the tokens of the ids.
        counts: the count of each id in the training text, including the end.
        begin: the special token that starts a sequence: the end of the previous one, or a separate token.
        vectors: pretrained word vectors, if the config names a file.
    """
    embedding, encoder = _ears(settings, vocabulary, vectors)
    reader = causal(encoder)
    return NeuralLanguageModel(
        embedding,
        reader,
        _output(settings, embedding, reader.d_out, vocabulary, counts, vectors),
        vocabulary,
        begin=vocabulary.special(begin),
        end=vocabulary.special(END_SYMBOL),
        drops=dropout_rates(settings),
    )


def build_masked(
    settings: AnyNeuralLMConfig, vocabulary: Vocabulary, counts: Sequence[int], *, vectors: EmbeddingRows | None = None
) -> MaskedLanguageModel:
    """The masked language model of a config."""
    embedding, encoder = _ears(settings, vocabulary, vectors)
    output = _output(settings, embedding, encoder.d_out, vocabulary, counts, vectors)
    return MaskedLanguageModel(embedding, encoder, output, vocabulary, dropout_rates(settings))


def dropout_rates(settings: NeuralLMConfig) -> DropoutRates:
    """The dropout rates of a config."""
    return DropoutRates(settings.dropout_input, settings.dropout_output, settings.dropout_words, settings.locked)


def _ears(
    settings: AnyNeuralLMConfig, vocabulary: Vocabulary, vectors: EmbeddingRows | None
) -> tuple[Embedding, Encoder]:
    matrix, known = vectors if vectors else (None, None)
    embedding = build_embedding(settings.embedding, len(vocabulary), matrix=matrix, known=known)
    if isinstance(settings, FeedForwardLMConfig):
        own = settings.encoder
        return embedding, FeedForward(embedding.d_out, own.d, own.context, direct=own.direct, dropout=own.dropout)
    return embedding, build_encoder(settings.encoder, embedding.d_out)


def _output(
    settings: AnyNeuralLMConfig,
    embedding: Embedding,
    d_encoder: int,
    vocabulary: Vocabulary,
    counts: Sequence[int],
    vectors: EmbeddingRows | None,
) -> OutputLayer:
    tied: nn.Parameter | None = None
    if settings.tied:
        if not isinstance(embedding, EmbeddingTable):
            raise ConfigError(
                "embedding.mode must have one table of vectors if tied = true, got 'multichannel'. Set tied = false, "
                "or embedding.mode = 'random'."
            )
        tied = embedding.weight
    d_in = embedding.d_out if settings.tied else d_encoder
    words = vectors[0] if vectors else None  # a clustered tree is built from them
    return build_output(settings.output, d_in, counts, tied=tied, forbidden=non_text_ids(vocabulary), vectors=words)
