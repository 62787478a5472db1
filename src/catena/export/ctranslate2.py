"""Export of Transformers to CTranslate2, a fast translation engine for CPUs and GPUs.

The folder has the files that its ``Translator`` reads: the weights, in single precision or in 8 bits, and the tokens of
both sides. Its input and output are tokens: use the tokenizer of the run to tokenize and detokenize texts. A source
must end with the end token used in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from catena.data.special_tokens import UNK_SYMBOL
from catena.embeddings.positions import RotaryPositions
from catena.encoders.transformer_step import feed_forward_part
from catena.errors import ConfigError
from catena.extras import require
from catena.outputs.softmax import Softmax
from catena.seq2seq.transformer import TransformerSeq2Seq

_ACTIVATIONS = {nn.ReLU: "RELU", nn.GELU: "GELU", nn.SiLU: "SWISH", nn.Tanh: "Tanh", nn.Sigmoid: "Sigmoid"}
_LONGEST = 2048
"""Number of positions to write if they are computed."""
_NEVER = -1e9
"""The score of impossible tokens: the format has no -inf in 8 bits."""


@dataclass(frozen=True)
class SpecialTokenNames:
    """The token strings of a model by id."""

    source: Sequence[str]
    target: Sequence[str]
    unknown: str = UNK_SYMBOL


def to_ctranslate2(
    model: TransformerSeq2Seq, tokens: SpecialTokenNames, folder: Path, quantization: str | None = None
) -> None:
    """Write the model into a new folder.

    Args:
        model: the model to export.
        tokens: its token strings.
        folder: the folder to create; it must not exist.
        quantization: ``int8`` or another type of CTranslate2; None for single precision.
    """
    require("ctranslate2", "ctranslate2", "exporting to CTranslate2")
    from ctranslate2.specs import TransformerSpec, common_spec

    check(model)
    if folder.exists():
        raise ConfigError(f"The folder {folder} already exists. Choose another one.")
    layers: list[Any] = list(model.decoder.layers)
    spec = TransformerSpec.from_config(
        (len(model.encoder.layers), len(layers)),
        layers[0].attention.n_heads,
        pre_norm=layers[0].norm_first,
        activation=getattr(common_spec.Activation, _ACTIVATIONS[type(feed_forward_part(layers[0])[1])]),
    )
    _fill_side(spec.encoder, model.encoder, model.encoder.positions)
    spec.encoder.embeddings[0].weight = _array(model.source_embedding.weight)
    _fill_side(spec.decoder, model.decoder, model.decoder.positions)
    spec.decoder.embeddings.weight = _array(model.target_embedding.weight)
    scores: Any = model.output.scores
    spec.decoder.projection.weight = _array(scores.weight)
    if scores.effective_bias is not None:
        spec.decoder.projection.bias = _array(scores.effective_bias).clip(min=_NEVER)
    spec.register_source_vocabulary(list(tokens.source))
    spec.register_target_vocabulary(list(tokens.target))
    spec.config.unk_token = tokens.unknown
    spec.config.bos_token = spec.config.decoder_start_token = tokens.target[model.begin]
    spec.config.eos_token = tokens.target[model.end]
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True)
    spec.save(str(folder))


def check(model: TransformerSeq2Seq) -> None:
    """Raise ConfigError if the format cannot represent the model."""
    layer: Any = model.decoder.layers[0]
    if isinstance(layer.attention.rotate, RotaryPositions):
        raise ConfigError(
            "CTranslate2 does not support rotary positions in encoder-decoders. Train with positions = 'sinusoidal' or "
            "'learned', or export to ONNX."
        )
    activation = type(feed_forward_part(layer)[1])
    if activation not in _ACTIVATIONS:
        known = ", ".join(kind.__name__ for kind in _ACTIVATIONS)
        raise ConfigError(f"activation must be one of {known} for CTranslate2, got {activation.__name__}. Use ONNX.")
    if not isinstance(model.output, Softmax) or model.output.temperature != 1:
        raise ConfigError("CTranslate2 supports only softmax at temperature 1. Train with output.kind = 'softmax'.")


def _fill_side(spec: Any, side: Any, positions: nn.Module) -> None:
    d = side.layers[0].attention.d
    spec.scale_embeddings = True
    longest = getattr(positions, "max_length", _LONGEST)
    spec.position_encodings.encodings = _array(positions(torch.zeros(1, longest, d))[0])
    if isinstance(side.leave, nn.LayerNorm):
        _fill_norm(spec.layer_norm, side.leave)
    for into, layer in zip(spec.layer, side.layers, strict=True):
        own = layer.attention
        _fill_map(into.self_attention.linear[0], own.query, own.keys, own.values)
        _fill_map(into.self_attention.linear[1], own.output)
        _fill_norm(into.self_attention.layer_norm, layer.attention_norm)
        if hasattr(layer, "cross"):
            _fill_map(into.attention.linear[0], layer.cross.query)
            _fill_map(into.attention.linear[1], layer.cross.keys, layer.cross.values)
            _fill_map(into.attention.linear[2], layer.cross.output)
            _fill_norm(into.attention.layer_norm, layer.cross_norm)
        _fill_map(into.ffn.linear_0, layer.feed[0])
        _fill_map(into.ffn.linear_1, layer.feed[3])
        _fill_norm(into.ffn.layer_norm, layer.feed_norm)


def _fill_map(spec: Any, *maps: nn.Linear) -> None:
    spec.weight = np.concatenate([_array(m.weight) for m in maps])
    spec.bias = np.concatenate([_array(m.bias) for m in maps])


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(x: Tensor) -> np.ndarray:
    # A copy, because weights are quantized in place.
    return x.detach().cpu().float().numpy().copy(order="C")
