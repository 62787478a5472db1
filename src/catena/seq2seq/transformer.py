r"""The Transformer encoder-decoder: attention and feed-forward layers.

.. math::
    m &= \mathrm{encode}(\sqrt d\, E_x + \mathrm{positions}) \\
    h_t &= \mathrm{decode}(\sqrt d\, E_{y_{<t}} + \mathrm{positions}, m) \qquad
    p(y_t \mid y_{<t}, x) = \mathrm{output}(h_t)

Vaswani et al. 2017. The tables of the source, the target and the output may be tied (section 3.4; Press & Wolf 2017).
Dropout as in the paper (section 5.4): the embeddings with their positions, and the output of each sublayer. Time
O(t² d + t s d + t d²) for each layer of the decoder.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.accelerators import accelerator
from catena.attention.multihead import MultiHeadAttention
from catena.embeddings.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from catena.embeddings.table import EmbeddingTable
from catena.encoders.init import depth_scale_init
from catena.encoders.layers import build_activation
from catena.encoders.transformer import TransformerEncoder as TransformerEncoder
from catena.encoders.transformer import TransformerLayer
from catena.outputs.base import OutputLayer
from catena.search.stepper import Stepper
from catena.seq2seq.base import Memory, Source, VectorDecoder, VocabularyInfo, build_tables, real_targets
from catena.seq2seq.config import TransformerSeq2SeqConfig
from catena.seq2seq.transformer_decoder import DecoderLayer, TransformerDecoder
from catena.seq2seq.transformer_stepper import TransformerStepper
from catena.shapes import mask_from_lengths


class TransformerSeq2Seq(VectorDecoder):
    """A Transformer encoder-decoder, built from its parts.

    Args:
        source: the embedding of source ids.
        target: the embedding of target ids; may be the same table.
        encoder: the encoder.
        decoder: the decoder.
        output: from vectors to distributions.
        begin: the target id of the start token.
        end: the target id that ends a sequence.
    """

    def __init__(
        self,
        source: EmbeddingTable,
        target: EmbeddingTable,
        encoder: TransformerEncoder,
        decoder: TransformerDecoder,
        output: OutputLayer,
        begin: int,
        end: int,
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = source, target
        self.encoder, self.decoder, self.output = encoder, decoder, output
        self.v, self.begin, self.end = output.v, begin, end

    def encode(self, source: Source) -> Memory:
        return Memory(self.encoder(self._read(source), source.lengths), source.lengths, source)

    def _read(self, source: Source) -> Float[Tensor, "b s d"]:
        return self.source_embedding(source.ids) * math.sqrt(self.encoder.d_in)

    def hidden(self, memory: Memory, before: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        mask = mask_from_lengths(memory.lengths, memory.states.shape[1])[:, None]
        return self.decoder(self.embedded(before), self.decoder.project(memory.states), mask)

    def embedded(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """The embedded target ids, without their positions."""
        return self.target_embedding(ids) * math.sqrt(self.encoder.d_out)

    @torch.no_grad()
    def attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t s"]]:
        real = real_targets(len(source), targets, lengths)
        memory = self.encode(source)
        mask = mask_from_lengths(memory.lengths, memory.states.shape[1])[:, None]
        found = self.decoder.weights(self.embedded(self.shifted(targets)), self.decoder.project(memory.states), mask)
        return [weights.masked_fill(~real[:, None, :, None], 0.0) for weights in found]

    @torch.no_grad()
    def source_attention(self, source: Source) -> list[Float[Tensor, "b h s s"]]:
        return self.encoder.self_attention(self._read(source), source.lengths)

    @torch.no_grad()
    def target_attention(
        self, source: Source, targets: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b h t t"]]:
        real = real_targets(len(source), targets, lengths)
        memory = self.encode(source)
        mask = mask_from_lengths(memory.lengths, memory.states.shape[1])[:, None]
        before = self.embedded(self.shifted(targets))
        found = self.decoder.own_weights(before, self.decoder.project(memory.states), mask)
        return [weights.masked_fill(~real[:, None, :, None], 0.0) for weights in found]

    @torch.no_grad()
    def stepper(self, source: Source) -> Stepper[Any]:
        compiled: Stepper[Any] | None = accelerator("decoder")(self, source)
        if compiled is not None:
            return compiled
        return TransformerStepper(self.embedded, self.decoder, self.output, self.begin, self.end, self.encode(source))


def build_transformer(settings: TransformerSeq2SeqConfig, sides: VocabularyInfo) -> TransformerSeq2Seq:
    """The Transformer encoder-decoder of a config, with random weights."""
    source, target, output = build_tables(settings.share, settings.output, settings.d, sides)
    return TransformerSeq2Seq(source, target, _encoder(settings), _decoder(settings), output, sides.begin, sides.end)


def _encoder(settings: TransformerSeq2SeqConfig) -> TransformerEncoder:
    layers = []
    for i in range(settings.n_encoder_layers):
        layer = TransformerLayer(
            _attention(settings, turned=True),
            settings.d_ff,
            build_activation(settings.activation),
            norm_first=settings.norm == "pre",
            dropout=settings.dropout,
            ff_dropout=settings.ff_dropout,
        )
        if settings.init == "depth_scaled":
            depth_scale_init(layer, i + 1)
        layers.append(layer)
    return TransformerEncoder(settings.d, layers, positions=_positions(settings), dropout=settings.dropout)


def _decoder(settings: TransformerSeq2SeqConfig) -> TransformerDecoder:
    layers = []
    for i in range(settings.n_decoder_layers):
        layer = DecoderLayer(
            _attention(settings, turned=True),
            _attention(settings, turned=False),
            settings.d_ff,
            build_activation(settings.activation),
            norm_first=settings.norm == "pre",
            dropout=settings.dropout,
            ff_dropout=settings.ff_dropout,
        )
        if settings.init == "depth_scaled":
            depth_scale_init(layer, i + 1)
        layers.append(layer)
    return TransformerDecoder(layers, _positions(settings), settings.dropout)


def _attention(settings: TransformerSeq2SeqConfig, turned: bool) -> MultiHeadAttention:
    rotary = turned and settings.positions == "rotary"
    rotate = RotaryPositions(settings.d // settings.n_heads) if rotary else None
    return MultiHeadAttention(settings.d, settings.n_heads, dropout=settings.attention_dropout, rotate=rotate)


def _positions(settings: TransformerSeq2SeqConfig) -> nn.Module | None:
    match settings.positions:
        case "sinusoidal":
            return SinusoidalPositions(settings.d)
        case "learned":
            return LearnedPositions(settings.max_length, settings.d)
        case "rotary":
            return None
