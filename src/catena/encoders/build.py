"""Encoders and poolings from their configs. Register a new kind of encoder in ``ENCODERS`` under its ``kind``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import nn

from catena.attention.multihead import MultiHeadAttention
from catena.attention.scores import build_score
from catena.embeddings.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from catena.encoders import pooling
from catena.encoders.base import Encoder
from catena.encoders.causal import CausalEncoder, causal
from catena.encoders.cells import CoupledLSTM, Elman, GRUResetFirst, Leaky, PeepholeLSTM, Recurrence
from catena.encoders.config import (
    ConvolutionConfig,
    DilatedConfig,
    EncoderConfig,
    HighwayConfig,
    PoolingConfig,
    RecurrentConfig,
    SelfAttentiveRecurrentConfig,
    SpectrogramConfig,
    TransformerConfig,
)
from catena.encoders.convolution import Convolution, ConvolutionLayer
from catena.encoders.custom import build_custom
from catena.encoders.dilated import Dilated
from catena.encoders.fused import FusedRecurrence
from catena.encoders.highway import Highway, HighwayLayer
from catena.encoders.init import depth_scale_init, init_weights
from catena.encoders.layers import build_activation, build_norm
from catena.encoders.recurrent import Recurrent
from catena.encoders.self_attentive import SelfAttentiveRecurrent
from catena.encoders.spectrogram import SpectralLayer, Spectrogram, count_spectral_features
from catena.encoders.transformer import TransformerEncoder, TransformerLayer
from catena.registry import Registry

ENCODERS: Registry[Callable[[Any, int], Encoder]] = Registry("encoder")
ENCODERS.register("custom")(build_custom)


def build_encoder(settings: EncoderConfig | SpectrogramConfig, d_in: int) -> Encoder:
    """The encoder of a config for vectors of size ``d_in``.

    Args:
        settings: the kind of encoder and its options.
        d_in: size of the input vectors.
    """
    return ENCODERS[settings.kind](settings, d_in)


def build_causal(settings: EncoderConfig, d_in: int) -> CausalEncoder:
    """The encoder of a config, which must be causal."""
    return causal(build_encoder(settings, d_in))


@ENCODERS.register("recurrent")
def build_recurrent(settings: RecurrentConfig, d_in: int) -> Recurrent:
    """Stacked recurrent layers, in one direction or both."""

    def make(d_in: int, layer: int) -> Recurrence:
        recurrence = build_recurrence(settings, d_in)
        recurrence.weight_dropout = settings.weight_dropout
        init_weights(recurrence, settings.init, layer, settings.forget_bias)
        return recurrence

    return Recurrent(
        d_in,
        make,
        n_layers=settings.n_layers,
        bidirectional=settings.bidirectional,
        connections=settings.connections,
        dropout=settings.dropout,
        locked=settings.locked,
    )


def build_recurrence(settings: RecurrentConfig, d_in: int) -> Recurrence:
    """One layer in one direction, on torch's fused implementation if there is one."""
    d, activation = settings.d, settings.activation
    match settings.cell:
        case "elman" if activation == "tanh":
            return FusedRecurrence("elman_tanh", d_in, d)
        case "elman" if activation == "relu":
            return FusedRecurrence("elman_relu", d_in, d)
        case "elman":
            return Elman(d_in, d, build_activation(activation))
        case "leaky":
            return Leaky(d_in, d, build_activation(activation), settings.leak, settings.learn_leak)
        case "lstm":
            return FusedRecurrence("lstm", d_in, d)
        case "peephole_lstm":
            return PeepholeLSTM(d_in, d, settings.peephole)
        case "coupled_lstm":
            return CoupledLSTM(d_in, d)
        case "gru":
            return FusedRecurrence("gru", d_in, d)
        case "gru_reset_first":
            return GRUResetFirst(d_in, d)


@ENCODERS.register("self_attentive_recurrent")
def build_self_attentive_recurrent(settings: SelfAttentiveRecurrentConfig, d_in: int) -> SelfAttentiveRecurrent:
    """A recurrent encoder that attends to its own states."""
    recurrent = build_recurrent(settings.recurrent, d_in)
    score = build_score(settings.score, recurrent.d_out, recurrent.d_out)
    return SelfAttentiveRecurrent(recurrent, score, causal=settings.causal)


@ENCODERS.register("convolution")
def build_convolution(settings: ConvolutionConfig, d_in: int) -> Convolution:
    """Convolution layers with one vector for each position."""
    width = settings.filters * len(settings.windows)
    layers = [
        ConvolutionLayer(
            d_in if i == 0 else width,
            settings.windows,
            settings.filters,
            build_activation(settings.activation),
            build_norm(settings.norm, width),
            padding=settings.padding,
            dilation=settings.dilations[i % len(settings.dilations)],
        )
        for i in range(settings.n_layers)
    ]
    return Convolution(d_in, layers, residual=settings.residual, dropout=settings.dropout)


@ENCODERS.register("dilated")
def build_dilated(settings: DilatedConfig, d_in: int) -> Dilated:
    """Dilated causal convolution."""
    return Dilated(
        d_in,
        settings.d,
        window=settings.window,
        n_layers=settings.n_layers,
        n_blocks=settings.n_blocks,
        dropout=settings.dropout,
    )


@ENCODERS.register("spectrogram")
def build_spectrogram(settings: SpectrogramConfig, d_in: int) -> Spectrogram:
    """Convolution over time and frequency, and an encoder over time."""
    sizes = (1, *settings.channels)
    layers = [SpectralLayer(c_in, c_out, settings.causal) for c_in, c_out in pairwise(sizes)]
    inner = build_encoder(settings.encoder, count_spectral_features(d_in, settings.channels))
    return Spectrogram(d_in, layers, inner)


@ENCODERS.register("highway")
def build_highway(settings: HighwayConfig, d_in: int) -> Highway:
    """Highway layers of the size of the input."""
    layers = [
        HighwayLayer(d_in, build_activation(settings.activation), carry=settings.carry, bias=settings.bias)
        for _ in range(settings.n_layers)
    ]
    return Highway(d_in, layers)


@ENCODERS.register("transformer")
def build_transformer(settings: TransformerConfig, d_in: int) -> TransformerEncoder:
    """A Transformer encoder."""
    layers = []
    for i in range(settings.n_layers):
        rotate = RotaryPositions(settings.d // settings.n_heads) if settings.positions == "rotary" else None
        layer = TransformerLayer(
            MultiHeadAttention(
                settings.d,
                settings.n_heads,
                n_kv_heads=settings.n_kv_heads,
                dropout=settings.dropout,
                rotate=rotate,
            ),
            settings.d_ff,
            build_activation(settings.activation),
            norm_first=settings.norm == "pre",
            dropout=settings.dropout,
        )
        if settings.init == "depth_scaled":
            depth_scale_init(layer, i + 1)
        elif settings.init == "small":
            layer.draw_small(2 * settings.n_layers)
        layers.append(layer)
    positions: nn.Module | None = None
    if settings.positions == "sinusoidal":
        positions = SinusoidalPositions(settings.d)
    elif settings.positions == "learned":
        positions = LearnedPositions(settings.max_length, settings.d)
    return TransformerEncoder(d_in, layers, positions=positions, causal=settings.causal, dropout=settings.dropout)


POOLINGS: Registry[Callable[[PoolingConfig, int], pooling.Pooling]] = Registry("pooling")
POOLINGS.register("last")(lambda settings, d_in: pooling.LastPooling(d_in))
POOLINGS.register("first_last")(lambda settings, d_in: pooling.FirstLastPooling(d_in))
POOLINGS.register("ends")(lambda settings, d_in: pooling.EndsPooling(d_in))
POOLINGS.register("max")(lambda settings, d_in: pooling.MaxPooling(d_in))
POOLINGS.register("min")(lambda settings, d_in: pooling.MinPooling(d_in))
POOLINGS.register("mean")(lambda settings, d_in: pooling.MeanPooling(d_in))
POOLINGS.register("attention")(lambda settings, d_in: pooling.AttentionPooling(d_in, settings.d_attention))
POOLINGS.register("k_max")(lambda settings, d_in: pooling.KMaxPooling(d_in, settings.k))


def build_pooling(settings: PoolingConfig, d_in: int) -> pooling.Pooling:
    """The pooling of a config for vectors of size ``d_in``.

    Args:
        settings: the kind of pooling and its options.
        d_in: size of the vectors that are pooled.
    """
    return POOLINGS[settings.kind](settings, d_in)
