"""The compiled step of a Transformer equals the reference, for every configuration, batch and history."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from catena.encoders.build import build_causal
from catena.encoders.config import TransformerConfig
from catena.encoders.transformer import TransformerEncoder
from catena.encoders.transformer_step import FlatPlan
from catena.engine.encoder import COMPILED, CompiledPlan, compile_encoder
from catena.engine.int8 import quantize_int8_

CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def encoder(**options: object) -> TransformerEncoder:
    small = {"d": 24, "n_heads": 4, "n_layers": 2, "d_ff": 44, "max_length": 40, "causal": True}
    torch.manual_seed(3)
    built = build_causal(TransformerConfig(**{**small, **options}), 24)
    assert isinstance(built, TransformerEncoder)
    for p in built.parameters():  # biases and norms too
        p.data += 0.1 * torch.randn_like(p)
    return built.eval()


@torch.no_grad()
def steps(model: TransformerEncoder, x: Tensor) -> Tensor:
    state, found = model.begin(len(x), x.device, x.dtype), []
    for i in range(x.shape[1]):
        y, state = model.continue_(x[:, i : i + 1], state)
        found.append(y)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize(
    ("norm", "positions", "n_kv_heads", "activation"),
    [
        *product(("pre", "post"), ("rotary", "learned"), (4, 2), ("gelu",)),
        ("pre", "none", 1, "relu"),
        ("pre", "sinusoidal", 4, "swish"),
        ("post", "none", 4, "identity"),
    ],
)
def test_compiled_steps_equal_one_pass(norm: str, positions: str, n_kv_heads: int, activation: str) -> None:
    model = encoder(norm=norm, positions=positions, n_kv_heads=n_kv_heads, activation=activation)
    x = 2 * torch.randn(3, 9, 24)
    assert isinstance(compile_encoder(model), CompiledPlan)
    assert isinstance(model._step_plan(), CompiledPlan)
    whole = model.double().whole(x.double())
    torch.testing.assert_close(steps(model.float(), x), whole.float(), **CLOSE)


@pytest.mark.parametrize("b", [1, 2, 5, 8, 15, 37])
def test_compiled_step_with_every_batch_size(b: int) -> None:
    model, x = encoder(positions="rotary"), torch.randn(b, 5, 24)
    torch.testing.assert_close(steps(model, x), model.whole(x).detach(), **CLOSE)


@torch.no_grad()
def test_compiled_step_with_different_lengths() -> None:
    model = encoder(positions="rotary", n_kv_heads=2)
    x = torch.randn(3, 8, 24)
    whole = model.whole(x)
    states = []
    for row, t in enumerate((5, 2, 4)):
        states.append(model.continue_(x[row : row + 1, :t], model.begin(1, x.device, x.dtype))[1])
    state = model.join(states)
    assert state.begins is not None
    for i in range(3):
        now = torch.stack([x[row, t + i] for row, t in enumerate((5, 2, 4))])
        y, state = model.continue_(now[:, None], state)
        wanted = torch.stack([whole[row, t + i] for row, t in enumerate((5, 2, 4))])
        torch.testing.assert_close(y[:, 0], wanted, **CLOSE)


@torch.no_grad()
def test_compiled_step_state_may_be_reused_and_selected() -> None:
    model, x = encoder(), torch.randn(2, 6, 24)
    whole = model.whole(x)
    _, state = model.continue_(x[:, :4], model.begin(2, x.device, x.dtype))
    model.continue_(torch.randn(2, 1, 24), state)
    rows = torch.tensor([1, 0, 1])
    _, chosen = model.continue_(x[rows, 4:5], model.select(state, rows))
    torch.testing.assert_close(model.continue_(x[rows, 5:], chosen)[0], whole[rows, 5:], **CLOSE)


def test_compiled_step_uses_changed_weights() -> None:
    model, x = encoder(), torch.randn(2, 3, 24)
    before = steps(model, x)
    with torch.no_grad():
        model.layers[1].feed[3].weight.mul_(2.0)
    torch.testing.assert_close(steps(model, x), model.whole(x).detach(), **CLOSE)
    assert not torch.allclose(steps(model, x), before)


def test_compiled_step_does_not_change_its_input() -> None:
    model, x = encoder(positions="none"), torch.randn(2, 1, 24)
    kept = x.clone()
    steps(model, x)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_unsupported_activations_and_dtypes_use_torch(activation: str) -> None:
    assert isinstance(encoder(activation=activation)._step_plan(), FlatPlan)
    assert isinstance(encoder().double()._step_plan(), FlatPlan)
    rough = encoder()
    for layer in rough.layers:
        layer.feed[1] = nn.GELU(approximate="tanh")
    assert compile_encoder(rough) is None
    assert isinstance(rough._step_plan(), FlatPlan)


@torch.no_grad()
def test_compiled_activation_is_exact_in_its_tails() -> None:
    """x Φ(x) is exact to single precision on both sides of zero, also where the curve is nearly flat."""
    model = encoder(n_layers=1, positions="none", norm="pre", activation="gelu")
    layer = model.layers[0]
    layer.attention.output.weight.zero_()
    layer.attention.output.bias.zero_()
    layer.feed_norm.weight.zero_()
    layer.feed_norm.bias.zero_()
    layer.feed[0].weight.zero_()
    for low in torch.linspace(-9, 9, 19):
        layer.feed[0].bias.copy_(torch.linspace(float(low) - 0.5, float(low) + 0.5, 44))
        layer.feed[3].weight.copy_(torch.eye(24, 44))
        layer.feed[3].bias.zero_()
        x = torch.zeros(1, 24)
        cache = model.begin(1, x.device, x.dtype).grown(1)
        found = CompiledPlan([layer], nn.Identity()).step(x, cache)[0]
        exact = layer.feed[0].bias.double()[:24]
        wanted = exact * torch.erfc(-exact / 2**0.5) / 2
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-30)
    assert COMPILED[nn.GELU] == "gelu"


@torch.no_grad()
def test_compiled_step_uses_untracked_weight_changes_after_training() -> None:
    model, x = encoder(positions="rotary"), torch.randn(3, 6, 24)
    state = model.begin(3, x.device, x.dtype)
    before = steps(model, x), model.continue_(x, state)[0]
    model.train()
    for p in model.parameters():
        p.data *= 0.5  # as fused optimizers do, without a version change
    whole = model.eval().whole(x)
    for found, old in zip((steps(model, x), model.continue_(x, state)[0]), before, strict=True):
        torch.testing.assert_close(found, whole, **CLOSE)
        assert not torch.allclose(found, old, atol=0.01)


@pytest.mark.parametrize(("norm", "n_kv_heads", "d_ff"), [("pre", 2, 44), ("post", 4, 42)])
@torch.no_grad()
def test_int8_steps_equal_one_int8_pass(norm: str, n_kv_heads: int, d_ff: int) -> None:
    model = encoder(norm=norm, n_kv_heads=n_kv_heads, d_ff=d_ff, positions="rotary")
    x = torch.randn(3, 6, 24)
    floats = model.whole(x)
    quantize_int8_(model)
    plan = model._step_plan()
    assert isinstance(plan, CompiledPlan)
    assert plan.weights.rise.dtype.name == "int8"
    whole = model.whole(x)
    torch.testing.assert_close(steps(model, x), whole, rtol=0, atol=0.02)
    assert 0.01 < (whole - floats).abs().max() < 0.3
