"""Recurrent encoder-decoders from their configs."""

from __future__ import annotations

import torch
from torch import nn

from catena.attention.cross import CrossAttention, build_cross
from catena.attention.hard import SampledHardAttention, StraightThroughAttention
from catena.attention.local import LocalMonotonic, LocalPredictive
from catena.attention.weighting import AttentionWeighting, SoftAttention
from catena.embeddings.table import EmbeddingTable
from catena.encoders import config as encoders
from catena.encoders.build import build_recurrence
from catena.encoders.cells import Recurrence
from catena.encoders.init import init_weights
from catena.errors import ConfigError
from catena.outputs.build import build_output
from catena.seq2seq.base import VocabularyInfo
from catena.seq2seq.config import RecurrentSeq2SeqConfig
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.seq2seq.recurrent_bridge import BRIDGES
from catena.seq2seq.recurrent_decoder import (
    BahdanauDecoder,
    GNMTDecoder,
    LuongDecoder,
    NoAttentionDecoder,
    RecurrentDecoder,
    RecurrentStack,
)
from catena.seq2seq.recurrent_encoder import AdditiveLayer, FusedLayer, Layer, RecurrentSource, SteppedLayer
from catena.seq2seq.recurrent_latent import Marginal, Reinforce

_RESIDUAL_FROM = 2
"""Residual connections start with the third layer (Wu et al. 2016, section 3.1)."""

_NETWORKS: dict[str, type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]] = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}


def build_recurrent(settings: RecurrentSeq2SeqConfig, sides: VocabularyInfo) -> RecurrentEncoderDecoder:
    """The recurrent encoder-decoder of a config."""
    target = _table(settings, sides.v)
    source = target if settings.shared else _table(settings, sides.n_source)
    if settings.shared and not sides.shared:
        raise ConfigError(
            "shared must be false if source and target have different vocabularies, got true. Build one vocabulary for "
            "both, or set shared = false."
        )
    encoder = RecurrentSource(
        settings.d_embedding,
        settings.n_layers,
        lambda i, d_in: _layer(settings, i, d_in),
        residual_from=_RESIDUAL_FROM if settings.residual else None,
        dropout=settings.dropout,
    )
    attention = _attention(settings, encoder.d_out)
    decoder = _decoder(settings, attention)
    return RecurrentEncoderDecoder(
        source,
        target,
        encoder,
        BRIDGES[settings.bridge](settings.n_layers, settings.d, decoder.stack[0].n_states),
        decoder,
        build_output(
            settings.output,
            decoder.d_out,
            sides.counts,
            tied=target.weight if settings.tied else None,
            forbidden=sides.forbidden,
        ),
        sides,
        attention=attention,
        reversed_source=settings.reverse,
        reinforce=Reinforce(remembers=decoder.remembers) if settings.attention_kind == "hard_sampled" else None,
        sampling=settings.sampling,
    )


def _table(settings: RecurrentSeq2SeqConfig, n: int) -> EmbeddingTable:
    return EmbeddingTable(n, settings.d_embedding, scale=0.1, dropout=settings.dropout)


def _layer(settings: RecurrentSeq2SeqConfig, i: int, d_in: int) -> Layer:
    if settings.encoder == "additive":
        return AdditiveLayer(d_in, settings.d, _recurrence(settings, 1, 1).n_states)
    both = settings.bidirectional == "all" or (settings.bidirectional == "first" and i == 0)
    d = settings.d // 2 if both else settings.d
    if settings.cell not in _NETWORKS:
        return SteppedLayer(_recurrence(settings, d_in, d), _recurrence(settings, d_in, d) if both else None)
    network = _NETWORKS[settings.cell](d_in, d, bidirectional=both, batch_first=True)
    forget_start(network)
    return FusedLayer(network)


@torch.no_grad()
def forget_start(network: nn.RNNBase) -> None:
    """Set the bias of an LSTM's forget gates to 1 in place (Jozefowicz et al. 2015, section 2.2)."""
    if isinstance(network, nn.LSTM):
        for name, bias in network.named_parameters():
            if name.startswith("bias"):
                bias[network.hidden_size : 2 * network.hidden_size] = 1.0 if name.startswith("bias_ih") else 0.0


def _recurrence(settings: RecurrentSeq2SeqConfig, d_in: int, d: int) -> Recurrence:
    recurrence = build_recurrence(encoders.RecurrentConfig(cell=settings.cell, d=d), d_in)
    init_weights(recurrence, "default", forget_bias=1.0)
    return recurrence


def _attention(settings: RecurrentSeq2SeqConfig, d_memory: int) -> CrossAttention | None:
    if settings.attention == "none":
        return None
    return build_cross(
        settings.attention,
        settings.d,
        d_memory,
        settings.n_heads,
        settings.d_attention,
        _focus(settings),
        apart=settings.attention_kind == "marginal",
    )


def _focus(settings: RecurrentSeq2SeqConfig) -> AttentionWeighting:
    match settings.attention_kind:
        case "soft" | "marginal":
            return SoftAttention()
        case "hard_straight_through":
            return StraightThroughAttention()
        case "hard_sampled":
            return SampledHardAttention()
        case "local_monotonic":
            return LocalMonotonic(settings.window)
        case "local_predictive":
            return LocalPredictive(settings.d, settings.window)


def _decoder(settings: RecurrentSeq2SeqConfig, attention: CrossAttention | None) -> RecurrentDecoder:
    d, d_in = settings.d, settings.d_embedding
    d_out = d_in if settings.tied else d
    if attention is None:
        return NoAttentionDecoder(_stack(settings, d_in, 0), d_out)
    if attention.apart:
        return Marginal(_stack(settings, d_in, 0), attention.d_out, d_out)
    match settings.order:
        case "luong":
            fed = d_out if settings.input_feeding else 0
            return LuongDecoder(_stack(settings, d_in + fed, 0), attention.d_out, d_out, feeding=settings.input_feeding)
        case "bahdanau":
            return BahdanauDecoder(_stack(settings, d_in + attention.d_out, 0), d_in, attention.d_out, d_out)
        case "gnmt":
            return GNMTDecoder(_stack(settings, d_in + attention.d_out, attention.d_out), d_out)


def _stack(settings: RecurrentSeq2SeqConfig, d_in: int, beside: int) -> RecurrentStack:
    """Layers, the lowest with inputs of size ``d_in``, the others with ``beside`` additional features."""
    layers = [_recurrence(settings, settings.d + beside if i else d_in, settings.d) for i in range(settings.n_layers)]
    return RecurrentStack(layers, _RESIDUAL_FROM if settings.residual else None, settings.dropout)
