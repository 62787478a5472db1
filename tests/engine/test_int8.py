"""Encoder-decoders in 8 bits equal plain torch with rounded weights and vectors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from catena.engine.decoder import CompiledStepper, get_plan
from catena.engine.int8 import quantize_int8_
from catena.errors import ConfigError
from catena.kernels.linear.int8_weight import Int8Weight
from catena.seq2seq.base import EncoderDecoder, Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import (
    ConvolutionalSeq2SeqConfig,
    CopyNetConfig,
    RecurrentSeq2SeqConfig,
    TransformerSeq2SeqConfig,
)
from catena.seq2seq.transformer import TransformerSeq2Seq

V = 50
SIDES = VocabularyInfo(V, [1] * V, 2, 3, (0, 2), shared=True)
SMALL = {"d": 24, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 42}
KINDS = {
    "transformer": TransformerSeq2SeqConfig(**SMALL),
    "post": TransformerSeq2SeqConfig(**SMALL, norm="post", share="embeddings", positions="rotary"),
    "lstm": RecurrentSeq2SeqConfig(cell="lstm", d=20, d_embedding=12, input_feeding=True),
    "unfed": RecurrentSeq2SeqConfig(cell="lstm", d=20, d_embedding=12, input_feeding=False),
    "gru": RecurrentSeq2SeqConfig(cell="gru", d=20, d_embedding=12, order="bahdanau"),
    "plain": RecurrentSeq2SeqConfig(cell="gru", d=20, d_embedding=12, attention="none"),
    "convolutional": ConvolutionalSeq2SeqConfig(d=16, d_embedding=12),
    "copy": CopyNetConfig(d=20, d_embedding=12),
}
IDS = torch.tensor([[4, 5, 6, 7, 3], [9, 3, 0, 0, 0]])
SOURCE = Source(IDS, torch.tensor([5, 2]), IDS)
TARGETS = torch.tensor([[8, 9, 10, 3], [11, 3, 0, 0]])
LENGTHS = torch.tensor([4, 2])


def made(kind: str) -> EncoderDecoder:
    torch.manual_seed(3)
    model = build_encoder_decoder(KINDS[kind], SIDES).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def in_int8(kind: str) -> EncoderDecoder:
    model = made(kind)
    quantize_int8_(model)
    return model


def rounded(x: Tensor) -> Tensor:
    """Each row rounded to 255 levels."""
    scale = x.abs().amax(dim=-1, keepdim=True) / 127
    return (x / scale.clamp_min(1e-30)).round() * scale


class RoundedLinear(nn.Module):
    """A linear layer of rounded vectors and rounded weights, in plain torch."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = rounded(layer.weight.detach()), layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(rounded(x), self.weight, self.bias)


def rounded_by_hand(model: TransformerSeq2Seq) -> TransformerSeq2Seq:
    """A Transformer whose linear layers are all rounded."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, RoundedLinear(child))
    tables: list[Any] = [model.source_embedding, model.target_embedding, model.output.scores]
    for weight in {id(table.weight): table.weight for table in tables}.values():
        weight.data.copy_(rounded(weight.data))
    return model


@pytest.mark.parametrize("kind", ["transformer", "post"])
def test_int8_transformer_equals_explicit_rounding(kind: str) -> None:
    model, by_hand = made(kind), rounded_by_hand(made(kind))
    hidden = by_hand.hidden(by_hand.encode(SOURCE), by_hand.shifted(TARGETS))  # with gradients: by the modules only
    wanted = nn.functional.linear(rounded(hidden), by_hand.output.scores.weight, by_hand.output.final_bias)
    wanted = wanted.log_softmax(dim=-1).gather(2, TARGETS[:, :, None])[:, :, 0].detach()
    plain = model.token_log_probs(SOURCE, TARGETS, LENGTHS)
    quantize_int8_(model)
    with torch.no_grad():
        found = model.token_log_probs(SOURCE, TARGETS, LENGTHS)
    real = torch.arange(4) < LENGTHS[:, None]
    # A value in the middle of two levels may be rounded to either: only a few are.
    torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=2e-3)
    assert (found - plain).abs().max() > 5e-3, "the rounding must have an effect"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "copy"])
@torch.no_grad()
def test_int8_steps_equal_one_pass_and_are_close_to_float32(kind: str) -> None:
    model = in_int8(kind)
    whole = model.token_log_probs(SOURCE, TARGETS, LENGTHS)
    stepper = model.stepper(SOURCE)
    state, steps = stepper.start(2), []
    for ids in TARGETS.t():
        steps.append(stepper.log_probs(state).gather(1, ids[:, None])[:, 0])
        state = stepper.advance(state, ids)
    found = torch.stack(steps, dim=1)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(found[row, :length], whole[row, :length], rtol=0, atol=1e-2)
    torch.testing.assert_close(whole, made(kind).token_log_probs(SOURCE, TARGETS, LENGTHS), rtol=0, atol=0.15)


@torch.no_grad()
def test_int8_copy_models_are_close_to_float32() -> None:
    found, wanted = (model.token_log_probs(SOURCE, TARGETS, LENGTHS) for model in (in_int8("copy"), made("copy")))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.1)
    assert not torch.equal(found, wanted)


def test_int8_compiled_step_uses_bytes() -> None:
    model = in_int8("transformer")
    stepper = model.stepper(SOURCE)
    assert isinstance(stepper, CompiledStepper)
    assert get_plan(stepper.decoder).weights.rise.dtype.name == "int8"


def test_quantize_int8_keeps_tied_tables_and_other_parameters() -> None:
    model = in_int8("transformer")
    assert isinstance(model, TransformerSeq2Seq)
    tables: list[Any] = [model.source_embedding, model.target_embedding, model.output.scores]
    assert len({id(table.weight) for table in tables}) == 1
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, Int8Weight) == (parameter.dim() == 2), name


def test_quantize_int8_needs_a_quarter_of_the_memory() -> None:
    model = build_encoder_decoder(
        TransformerSeq2SeqConfig(d=128, n_heads=2, n_encoder_layers=1, n_decoder_layers=1), SIDES
    )
    floats = sum(4 * parameter.numel() for parameter in model.parameters())
    quantize_int8_(model)
    held = {id(p): p.matrix.panels.nbytes if isinstance(p, Int8Weight) else 4 * p.numel() for p in model.parameters()}
    assert 0.25 < sum(held.values()) / floats < 0.28


def test_quantize_int8_without_matrices_raises() -> None:
    with pytest.raises(ConfigError, match="must have a matrix that can be quantized, got a LayerNorm"):
        quantize_int8_(nn.LayerNorm(3))


def test_quantize_int8_on_another_device_raises() -> None:
    with pytest.raises(ConfigError, match="device must be 'cpu' for 8-bit weights, got meta"):
        quantize_int8_(nn.Linear(3, 3, device="meta"))
