"""The Transformer encoder: the laws, and torch's layer with copied weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder, build_transformer
from catena.encoders.config import TransformerConfig
from catena.encoders.transformer import TransformerEncoder
from catena.errors import ShapeError
from tests.laws.encoder_laws import CausalEncoderLaws, EncoderLaws, sees_the_future


def settings(**options: object) -> TransformerConfig:
    return TransformerConfig(**{"d": 8, "n_heads": 2, "n_layers": 2, "d_ff": 12, "max_length": 10, **options})


class TestTransformer(EncoderLaws):
    @pytest.fixture(
        params=[
            {"positions": "sinusoidal"},
            {"positions": "learned"},
            {"positions": "rotary", "activation": "gelu"},
            {"norm": "post", "positions": "none"},
        ],
        ids=lambda options: options["positions"],
    )
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        return lambda: build_encoder(settings(**request.param), 5)


class TestCausalTransformer(CausalEncoderLaws):
    @pytest.fixture(params=["sinusoidal", "rotary"])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        return lambda: build_encoder(settings(causal=True, positions=request.param), 8)


def test_transformer_without_causal_depends_on_later_positions() -> None:
    assert sees_the_future(build_encoder(settings(), 5).double().eval())


def stranger_of(encoder: TransformerEncoder, norm_first: bool) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, activation="relu", batch_first=True, norm_first=norm_first
    )
    final = nn.LayerNorm(8) if norm_first else None
    stranger = nn.TransformerEncoder(layer, len(encoder.layers), norm=final, enable_nested_tensor=False)
    with torch.no_grad():
        for theirs, ours in zip(stranger.layers, encoder.layers, strict=True):
            a = ours.attention
            pairs = {
                theirs.self_attn.in_proj_weight: torch.cat((a.query.weight, a.keys.weight, a.values.weight)),
                theirs.self_attn.in_proj_bias: torch.cat((a.query.bias, a.keys.bias, a.values.bias)),
                theirs.self_attn.out_proj.weight: a.output.weight,
                theirs.self_attn.out_proj.bias: a.output.bias,
                theirs.linear1.weight: ours.feed[0].weight,
                theirs.linear1.bias: ours.feed[0].bias,
                theirs.linear2.weight: ours.feed[3].weight,
                theirs.linear2.bias: ours.feed[3].bias,
                theirs.norm1.weight: ours.attention_norm.weight,
                theirs.norm1.bias: ours.attention_norm.bias,
                theirs.norm2.weight: ours.feed_norm.weight,
                theirs.norm2.bias: ours.feed_norm.bias,
            }
            for theirs_parameter, value in pairs.items():
                theirs_parameter.copy_(value)
    return stranger


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_equals_torch_in_values_and_gradients(norm: str) -> None:
    encoder = build_transformer(settings(norm=norm, positions="none", dropout=0.0), 8)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "bias" in name or "norm" in name:
                parameter += torch.randn_like(parameter) * 0.3
        if norm == "pre":
            encoder.leave.weight.fill_(1.0)
            encoder.leave.bias.fill_(0.0)
    stranger = stranger_of(encoder, norm == "pre")
    lengths = torch.tensor([6, 2, 4])
    padded = torch.arange(6) >= lengths[:, None]
    x = torch.randn(3, 6, 8).masked_fill(padded[..., None], 0.0)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = encoder(ours, lengths)
    expected = stranger(theirs, src_key_padding_mask=padded).masked_fill(padded[..., None], 0.0)
    torch.testing.assert_close(y, expected, atol=1e-5, rtol=1e-4)
    weights = torch.randn_like(y)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-3)


def test_transformer_depends_on_order_only_with_positions() -> None:
    x, lengths = torch.randn(1, 5, 8), torch.tensor([5])
    order = torch.tensor([3, 1, 4, 0, 2])
    for positions in ("sinusoidal", "learned", "rotary", "none"):
        encoder = build_encoder(settings(positions=positions), 8).eval()
        with torch.no_grad():
            if positions == "learned":
                encoder.positions.weight.normal_()
            same = torch.allclose(encoder(x[:, order], lengths), encoder(x, lengths)[:, order], atol=1e-5)
        assert same == (positions == "none"), positions


def test_transformer_projects_only_inputs_of_another_size() -> None:
    assert isinstance(build_transformer(settings(), 8).enter, nn.Identity)
    mapped = build_transformer(settings(), 5).enter
    assert isinstance(mapped, nn.Linear)
    assert (mapped.in_features, mapped.out_features) == (5, 8)


def test_transformer_dropout_applies_only_in_training() -> None:
    encoder = build_encoder(settings(dropout=0.5), 8)
    x, lengths = torch.randn(2, 4, 8), torch.tensor([4, 3])
    assert not torch.equal(encoder(x, lengths), encoder(x, lengths))
    encoder.eval()
    assert torch.equal(encoder(x, lengths), encoder(x, lengths))


def test_depth_scaled_weights_decrease_with_the_layer() -> None:
    encoder = build_transformer(settings(d=32, d_ff=64, n_layers=4, init="depth_scaled"), 32)
    assert len(encoder.layers) > 0
    for number, layer in enumerate(encoder.layers, start=1):
        for weight, bound in (
            (layer.attention.query.weight, math.sqrt(6 / 64)),
            (layer.attention.output.weight, math.sqrt(6 / 64)),
            (layer.feed[0].weight, math.sqrt(6 / 96)),
            (layer.feed[3].weight, math.sqrt(6 / 96)),
        ):
            assert weight.abs().max().item() == pytest.approx(bound / math.sqrt(number), rel=0.03)


def test_learned_positions_raise_for_longer_sequences() -> None:
    encoder = build_encoder(settings(positions="learned"), 8)
    encoder(torch.randn(1, 10, 8), torch.tensor([10]))
    with pytest.raises(ShapeError, match="at most max_length = 10, got 11"):
        encoder(torch.randn(1, 11, 8), torch.tensor([11]))


def test_small_init_has_small_weights_and_smaller_output_matrices() -> None:
    encoder = build_transformer(settings(d=64, d_ff=256, n_layers=8, init="small"), 64)
    assert len(encoder.layers) > 0
    for layer in encoder.layers:
        for weight, deviation in (
            (layer.attention.query.weight, 0.02),
            (layer.attention.values.weight, 0.02),
            (layer.feed[0].weight, 0.02),
            (layer.attention.output.weight, 0.02 / 4),
            (layer.feed[3].weight, 0.02 / 4),
        ):
            assert weight.std().item() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize(
    "options", [{}, {"norm": "post", "positions": "learned"}, {"positions": "rotary", "n_kv_heads": 1}], ids=str
)
def test_transformer_without_gradients_skips_padding(options: dict[str, object]) -> None:
    encoder = build_transformer(settings(**options), 8).double().eval()
    lengths = torch.tensor([6, 1, 4])
    x = torch.randn(3, 6, 8, dtype=torch.float64)
    seen: list[int] = []
    encoder.layers[0].feed[0].register_forward_hook(lambda module, given, result: seen.append(given[0][..., 0].numel()))
    wanted = encoder(x, lengths)
    with torch.no_grad():
        found = encoder(x, lengths)
    torch.testing.assert_close(found, wanted.detach(), rtol=0.0, atol=1e-12)
    assert seen == [18, 11]
    with torch.no_grad():
        assert encoder(x[:0], lengths[:0]).shape == (0, 6, encoder.d_out), "an empty batch"
