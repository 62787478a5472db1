r"""Convolutional sequence to sequence: gated convolutions, with attention to the source in every decoder layer.

.. math::
    a \otimes b &= \mathrm{glu}(K * \mathrm{window}(x)) = a \circ \sigma(b) \\
    d_i &= \sqrt{\tfrac 1 2}\,(W_d h_i + g_i) \qquad w_i = \mathrm{softmax}(d_i \cdot z_j) \qquad
    c_i = \sqrt s \sum_j w_{ij} \sqrt{\tfrac 1 2}\,(z_j + e_j) \\
    x' &= \sqrt{\tfrac 1 2}\,\Big(x + \sqrt{\tfrac 1 2}\,(h + W_c c)\Big)

where h is the gated convolution of a layer, z the encoder's vectors, e and g the embeddings of source and target with
their learned positions, and s the length of the source. Gehring et al. 2017, section 3; the factors of section 3.4 keep
variances at 1. A window of the decoder ends at its position. Time O((t + s) w d² + t s d) for each layer; the cost of
a step does not depend on the length of the prefix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.embeddings.positions import LearnedPositions
from catena.embeddings.table import EmbeddingTable
from catena.encoders.conv_state import ConvState, append_to_state
from catena.numerics import masked_softmax
from catena.outputs.base import OutputLayer
from catena.search.stepper import Stepper
from catena.seq2seq.base import Memory, Source, VectorDecoder, VocabularyInfo, build_tables, real_targets
from catena.seq2seq.config import ConvolutionalSeq2SeqConfig
from catena.seq2seq.convolutional_stepper import ConvolutionalStepper
from catena.seq2seq.grouped import Projected
from catena.shapes import mask_from_lengths

_HALF = math.sqrt(0.5)


class GatedConvolution(nn.Module):
    """A convolution with a gated linear unit: the second half of its features gates the first."""

    def __init__(self, d: int, window: int, dropout: float) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d, 2 * d, window)
        nn.init.normal_(self.convolution.weight, std=math.sqrt(4 * (1 - dropout) / (window * d)))
        nn.init.zeros_(cast(Tensor, self.convolution.bias))
        self.window, self.dropout = window, nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "b s d"]) -> Float[Tensor, "b t d"]:
        """The outputs for ``x``, which has the additional positions that the window needs."""
        return F.glu(self.convolution(self.dropout(x).transpose(1, 2)), dim=1).transpose(1, 2)


class ConvolutionalEncoder(nn.Module):
    """Gated convolutions with residual connections; returns keys (the values also add the embeddings)."""

    def __init__(self, d_embedding: int, d: int, n_layers: int, window: int, dropout: float) -> None:
        super().__init__()
        self.enter, self.leave = linear(d_embedding, d, dropout), linear(d, d_embedding)
        self.layers = nn.ModuleList(GatedConvolution(d, window, dropout) for _ in range(n_layers))

    def forward(self, embedded: Float[Tensor, "b s d"], mask: Bool[Tensor, "b s"]) -> Float[Tensor, "b s d"]:
        padded = ~mask[..., None]
        x = self.enter(embedded).masked_fill(padded, 0.0)
        for layer in self.layers:
            before = (cast(GatedConvolution, layer).window - 1) // 2
            beyond = cast(GatedConvolution, layer).window - 1 - before
            x = ((x + layer(F.pad(x, (0, 0, before, beyond)))) * _HALF).masked_fill(padded, 0.0)
        return self.leave(x).masked_fill(padded, 0.0)


class LookingConvolution(nn.Module):
    """A decoder layer: a gated convolution, and attention to the source."""

    def __init__(self, d_embedding: int, d: int, window: int, dropout: float) -> None:
        super().__init__()
        self.gated = GatedConvolution(d, window, dropout)
        self.query, self.context = linear(d, d_embedding), linear(d_embedding, d)

    def forward(
        self,
        x: Float[Tensor, "n wide d"],
        embedded: Float[Tensor, "n t e"],
        source: Projected,
        mask: Bool[Tensor, "b s"],
    ) -> tuple[Float[Tensor, "n t d"], Float[Tensor, "n t s"]]:
        """The outputs of the last ``t`` positions of ``x``, and their attention weights.

        The ``n`` rows are the same number of adjacent rows for each of the ``b`` sources.
        """
        n, t, e = embedded.shape
        keys, values = source[0][:, 0], source[1][:, 0]
        b, s, _ = keys.shape
        h = self.gated(x)
        query = ((self.query(h) + embedded) * _HALF).reshape(b, n // b * t if b else t, e)
        weights = masked_softmax(query @ keys.transpose(1, 2), mask[:, None])
        size = mask.sum(dim=1, dtype=weights.dtype).sqrt()[:, None, None]
        context = (weights @ values * size).view(n, t, e)
        made = (h + self.context(context)) * _HALF
        return (x[:, x.shape[1] - t :] + made) * _HALF, weights.view(n, t, s)


class ConvDecoderState(NamedTuple):
    """Output of the decoder: vectors, the tails of its layers, and the attention weights of each layer."""

    vectors: Float[Tensor, "n t e"]
    tails: ConvState
    weights: list[Float[Tensor, "n t s"]]


class ConvolutionalDecoder(nn.Module):
    """Stacked decoder layers."""

    def __init__(self, d_embedding: int, d: int, n_layers: int, window: int, dropout: float) -> None:
        super().__init__()
        self.enter, self.leave = linear(d_embedding, d, dropout), linear(d, d_embedding)
        self.layers = nn.ModuleList(LookingConvolution(d_embedding, d, window, dropout) for _ in range(n_layers))
        self.tail_sizes = [(window - 1, d)] * n_layers
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, embedded: Float[Tensor, "n t e"], tails: Sequence[Tensor], source: Projected, mask: Bool[Tensor, "b s"]
    ) -> ConvDecoderState:
        """Continue from the tails of earlier positions."""
        x, after, weights = self.enter(embedded), [], []
        for layer, tail in zip(self.layers, tails, strict=True):
            joined, end = append_to_state(tail, x)
            after.append(end)
            x, looked = layer(joined, embedded, source, mask)
            weights.append(looked)
        return ConvDecoderState(self.dropout(self.leave(x)), tuple(after), weights)


class ConvolutionalSeq2Seq(VectorDecoder):
    """A convolutional encoder-decoder, built from its parts.

    Args:
        source: vectors of source ids, their positions, and the encoder.
        target: vectors of target ids, their positions, and the decoder.
        output: predicts the next id.
        dropout: fraction of the embedded features that are set to 0 in training.
        begin: id of the begin token.
        end: id of the end token.
    """

    def __init__(
        self,
        source: tuple[EmbeddingTable, LearnedPositions, ConvolutionalEncoder],
        target: tuple[EmbeddingTable, LearnedPositions, ConvolutionalDecoder],
        output: OutputLayer,
        dropout: float,
        begin: int,
        end: int,
    ) -> None:
        super().__init__()
        self.source_embedding, self.source_positions, self.encoder = source
        self.target_embedding, self.target_positions, self.decoder = target
        self.output, self.dropout = output, nn.Dropout(dropout)
        self.v, self.begin, self.end = output.v, begin, end

    def encode(self, source: Source) -> Memory:
        """Encode the sources; ``more`` has the values, the sums of states and embeddings."""
        mask = mask_from_lengths(source.lengths, source.ids.shape[1])
        x = self.source_embedding(source.ids)
        embedded = self.dropout(self.source_positions(x * math.sqrt(x.shape[-1])))
        states = self.encoder(embedded, mask)
        values = ((states + embedded) * _HALF).masked_fill(~mask[..., None], 0.0)
        return Memory(states, source.lengths, source, (values,))

    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return self._written(memory, before).vectors

    def embedded(self, ids: Int[Tensor, "n t"], start: int | Int[Tensor, " n"]) -> Float[Tensor, "n t d"]:
        """The embedded target ids with their positions."""
        x = self.target_embedding(ids)
        return self.dropout(self.target_positions(x * math.sqrt(x.shape[-1]), start))

    @torch.no_grad()
    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        real = real_targets(len(source), targets, lengths)
        found = self._written(self.encode(source), self.shifted(targets)).weights
        return [weights.masked_fill(~real[..., None], 0.0)[:, None] for weights in found]

    @torch.no_grad()
    def stepper(self, source: Source) -> Stepper[Any]:
        memory = self.encode(source)
        return ConvolutionalStepper(self.embedded, self.decoder, self.output, self.begin, self.end, memory)

    def _written(self, memory: Memory, before: Int[Tensor, "b t"]) -> ConvDecoderState:
        states, (values,) = memory.states, memory.more
        tails = [states.new_zeros(len(states), n, d) for n, d in self.decoder.tail_sizes]
        mask = mask_from_lengths(memory.lengths, states.shape[1])
        return self.decoder(self.embedded(before, 0), tails, (states[:, None], values[:, None]), mask)


def linear(d_in: int, d_out: int, dropout: float = 0.0) -> nn.Linear:
    """A linear layer that keeps the variance of its input (Gehring et al. 2017, section 3.5)."""
    layer = nn.Linear(d_in, d_out)
    nn.init.normal_(layer.weight, std=math.sqrt((1 - dropout) / d_in))
    nn.init.zeros_(layer.bias)
    return layer


def build_convolutional(settings: ConvolutionalSeq2SeqConfig, sides: VocabularyInfo) -> ConvolutionalSeq2Seq:
    """The convolutional encoder-decoder of a config, with random weights."""
    e, dropout = settings.d_embedding, settings.dropout
    source, target, output = build_tables(settings.share, settings.output, e, sides)
    encoder = ConvolutionalEncoder(e, settings.d, settings.n_encoder_layers, settings.window, dropout)
    decoder = ConvolutionalDecoder(e, settings.d, settings.n_decoder_layers, settings.window, dropout)
    places = [LearnedPositions(settings.max_length, e) for _ in range(2)]
    for table in places:  # as large as the embeddings: nothing else distinguishes distant positions
        nn.init.normal_(table.weight)
    sides_of_it = (source, places[0], encoder), (target, places[1], decoder)
    return ConvolutionalSeq2Seq(*sides_of_it, output, dropout, sides.begin, sides.end)
