"""Causal encoders: the laws for every kind, and errors for those that depend on later positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catena.encoders.build import build_causal, build_encoder
from catena.encoders.causal import CausalEncoder
from catena.encoders.config import (
    ConvolutionConfig,
    DilatedConfig,
    EncoderConfig,
    HighwayConfig,
    RecurrentConfig,
    TransformerConfig,
)
from catena.errors import ConfigError
from tests.laws.causal_laws import SteppingLaws, read


def recurrent(**options: object) -> RecurrentConfig:
    return RecurrentConfig(**{"d": 6, "bidirectional": False, **options})


def transformer(**options: object) -> TransformerConfig:
    small = {"d": 8, "n_heads": 4, "n_layers": 2, "d_ff": 12, "max_length": 10, "causal": True}
    return TransformerConfig(**{**small, **options})


KINDS: dict[str, EncoderConfig] = {
    "elman": recurrent(cell="elman"),
    "sigmoid": recurrent(cell="elman", activation="sigmoid"),
    "leaky": recurrent(cell="leaky"),
    "lstm-skip": recurrent(cell="lstm", n_layers=2, connections="skip"),
    "peephole": recurrent(cell="peephole_lstm"),
    "coupled": recurrent(cell="coupled_lstm", n_layers=2, connections="residual"),
    "gru": recurrent(cell="gru", n_layers=2, dropout=0.5, locked=True, weight_dropout=0.5),
    "gru-first": recurrent(cell="gru_reset_first"),
    "convolution": ConvolutionConfig(windows=(2, 4), filters=4, n_layers=2, padding="causal", residual=True),
    "layer-norm": ConvolutionConfig(windows=(3,), filters=6, padding="causal", norm="layer", activation="tanh"),
    "dilated": DilatedConfig(d=8, n_layers=3, n_blocks=2),
    "dilated-wide": DilatedConfig(d=6, window=3, n_layers=2),
    "transformer": transformer(),
    "learned": transformer(positions="learned", norm="post"),
    "rotary": transformer(positions="rotary", activation="gelu"),
    "grouped": transformer(positions="rotary", n_kv_heads=2),
    "one-key-head": transformer(positions="none", n_kv_heads=1),
}


class TestStepping(SteppingLaws):
    @pytest.fixture(params=KINDS)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], CausalEncoder]:
        return lambda: build_causal(KINDS[request.param], 6)


@pytest.mark.parametrize(
    "settings",
    [RecurrentConfig(d=4), ConvolutionConfig(windows=(3,), filters=2), transformer(causal=False)],
    ids=lambda settings: settings.kind,
)
def test_non_causal_encoder_raises_in_stepping(settings: EncoderConfig) -> None:
    with pytest.raises(ConfigError, match="depends on later positions, so it cannot run step by step"):
        build_causal(settings, 5)
    encoder = build_encoder(settings, 5)
    assert isinstance(encoder, CausalEncoder)
    with pytest.raises(ConfigError, match="depends on later positions"):
        encoder.begin(1, torch.device("cpu"), torch.float32)
    with pytest.raises(ConfigError, match="depends on later positions"):
        encoder.whole(torch.zeros(1, 2, 5))


def test_causal_of_a_non_causal_encoder_raises() -> None:
    with pytest.raises(ConfigError, match=r"got highway. Choose recurrent"):
        build_causal(HighwayConfig(), 5)


def test_convolution_with_window_one_is_causal() -> None:
    assert not build_causal(ConvolutionConfig(windows=(1,), filters=3), 5).looks_ahead


@pytest.mark.parametrize("name", ["elman", "sigmoid", "lstm-skip", "peephole", "coupled", "gru"])
def test_weight_dropout_is_the_same_for_all_steps_and_only_in_training(name: str) -> None:
    settings = KINDS[name].model_copy(update={"weight_dropout": 0.5, "dropout": 0.0, "n_layers": 1})
    encoder = build_causal(settings, 6)
    x = torch.randn(2, 5, 6)
    torch.manual_seed(1)
    one = encoder.train().whole(x)
    other = encoder.whole(x)
    assert torch.equal(one[:, 0], other[:, 0]), "the first step has no past"
    assert not torch.allclose(one[:, 1:], other[:, 1:])
    assert torch.equal(encoder.eval().whole(x), encoder.whole(x))
    weights = [p for n, p in encoder.named_parameters() if "weight_h" in n]
    encoder.train().whole(x).sum().backward()
    assert any(((p.grad == 0) & (p != 0)).any() for p in weights), "a dropped weight gets no gradient"


def test_locked_dropout_drops_the_same_units_at_every_step() -> None:
    x = torch.ones(3, 40, 8)
    for locked in (True, False):
        encoder = build_encoder(
            recurrent(cell="elman", activation="identity", d=8, n_layers=2, dropout=0.5, locked=locked), 8
        ).train()
        with torch.no_grad():
            for name, p in encoder.named_parameters():
                p.copy_(torch.eye(8) if name.endswith("weight_x") else torch.zeros_like(p))
        y = encoder(x, torch.full((3,), 40))
        same = bool((y == y[:, :1]).all())
        assert same == locked
        assert {0.0, 2.0} == set(y.flatten().tolist())
        assert not torch.equal(y[0, 0], y[1, 0]), "each sequence has its own mask"


def test_dilated_receptive_field_is_as_documented() -> None:
    encoder = build_encoder(DilatedConfig(d=4, window=3, n_layers=3, n_blocks=2), 4).double()
    assert encoder.field == 1 + 2 * 2 * (1 + 2 + 4)
    x = torch.randn(1, 40, 4, dtype=torch.float64, requires_grad=True)
    encoder.whole(x)[0, -1].sum().backward()
    seen = (x.grad[0] != 0).any(-1)
    assert int(seen.sum()) == encoder.field
    assert bool(seen[-encoder.field :].all())


@pytest.mark.parametrize("name", ["transformer", "rotary", "learned", "grouped"])
def test_steps_use_changed_weights(name: str) -> None:
    encoder = build_causal(KINDS[name], 6).double().eval()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    with torch.no_grad():
        for change in (lambda p: p.add_(0.1), lambda p: p.copy_(torch.randn_like(p)), lambda p: p):
            for parameter in encoder.parameters():
                change(parameter)
            torch.testing.assert_close(read(encoder, x, [1] * 5)[0], encoder.whole(x))
        other = build_causal(KINDS[name], 6).double()
        encoder.load_state_dict(other.state_dict())
        torch.testing.assert_close(read(encoder, x, [1] * 5)[0], other.eval().whole(x))
