"""Recurrent encoders: the laws, stacking and both directions compared to the oracle, and torch's networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder, build_recurrent
from catena.encoders.config import RecurrentConfig
from catena.encoders.recurrent import Recurrent
from tests.laws.encoder_laws import CausalEncoderLaws, EncoderLaws, sees_the_future
from tests.oracle import recurrent as oracle

CELLS = [
    {"cell": "elman"},
    {"cell": "elman", "activation": "relu"},
    {"cell": "elman", "activation": "sigmoid"},
    {"cell": "leaky", "leak": 0.3},
    {"cell": "leaky", "learn_leak": True},
    {"cell": "lstm"},
    {"cell": "peephole_lstm", "peephole": "full"},
    {"cell": "peephole_lstm", "peephole": "diagonal"},
    {"cell": "coupled_lstm"},
    {"cell": "gru"},
    {"cell": "gru_reset_first"},
]


def name(options: dict[str, object]) -> str:
    return "-".join(str(value) for value in options.values())


class TestOneDirection(CausalEncoderLaws):
    @pytest.fixture(params=CELLS, ids=name)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        settings = RecurrentConfig(d=24, bidirectional=False, **request.param)
        return lambda: build_encoder(settings, 5)


class TestBothDirections(EncoderLaws):
    @pytest.fixture(params=[*CELLS[5:7], CELLS[-1]], ids=name)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        settings = RecurrentConfig(d=4, bidirectional=True, **request.param)
        return lambda: build_encoder(settings, 5)


class TestStacked(EncoderLaws):
    @pytest.fixture(
        params=[
            {"connections": "none", "dropout": 0.5},
            {"connections": "residual"},
            {"connections": "skip"},
            {"connections": "skip", "bidirectional": False},
        ],
        ids=name,
    )
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        settings = RecurrentConfig(cell="gru", d=4, n_layers=3, **request.param)
        return lambda: build_encoder(settings, 5)


class TestStackedOneDirection(CausalEncoderLaws):
    @pytest.fixture
    def make(self) -> Callable[[], Encoder]:
        settings = RecurrentConfig(d=4, n_layers=2, bidirectional=False, connections="residual")
        return lambda: build_encoder(settings, 4)


def test_bidirectional_encoder_depends_on_later_positions() -> None:
    assert sees_the_future(build_encoder(RecurrentConfig(d=4), 5).double())


def elman_weights(encoder: Recurrent) -> list[list[tuple[np.ndarray, ...]]]:
    """For each layer, for each direction: the weights of x, of h and the bias."""
    layers = zip(encoder.forwards, encoder.backwards, strict=True)
    return [
        [(r.weight_x.detach().numpy(), r.weight_h.detach().numpy(), r.bias.detach().numpy()) for r in pair]
        for pair in layers
    ]


def run_both(x: np.ndarray, weights: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray]:
    ahead = oracle.elman(x, *weights[0], f=oracle.sigmoid)
    back = oracle.elman(x[::-1], *weights[1], f=oracle.sigmoid)[::-1]
    return ahead, back


@pytest.mark.parametrize("connections", ["none", "residual", "skip"])
def test_bidirectional_stack_equals_the_oracle(connections: str) -> None:
    encoder = build_recurrent(
        RecurrentConfig(cell="elman", activation="sigmoid", d=3, n_layers=3, connections=connections), 4
    ).double()
    lengths = torch.tensor([5, 2, 4])
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    y = encoder(x, lengths)
    for i, n in enumerate(lengths.tolist()):
        first = below = x[i, :n].numpy()
        states: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for layer, weights in enumerate(elman_weights(encoder)):
            read = np.hstack((below, first)) if connections == "skip" and layer > 0 else below
            ahead, back = run_both(read, weights)
            states[0].append(ahead)
            states[1].append(back)
            above = np.hstack((ahead, back))
            below = above + below if connections == "residual" and layer > 0 else above
        wanted = np.hstack((*states[0], *states[1])) if connections == "skip" else below
        np.testing.assert_allclose(y[i, :n].detach().numpy(), wanted, atol=1e-12)


def strangers() -> list[tuple[str, dict[str, object], Callable[..., nn.RNNBase]]]:
    return [
        ("lstm", {"cell": "lstm"}, nn.LSTM),
        ("gru", {"cell": "gru"}, nn.GRU),
        ("tanh", {"cell": "elman"}, nn.RNN),
        (
            "relu",
            {"cell": "elman", "activation": "relu"},
            lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
        ),
    ]


def copy_into(stranger: nn.RNNBase, encoder: Recurrent) -> None:
    with torch.no_grad():
        for suffix, recurrences in (("", encoder.forwards), ("_reverse", encoder.backwards)):
            for layer, recurrence in enumerate(recurrences):
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    ours = getattr(recurrence.network, f"{kind}_l0")
                    getattr(stranger, f"{kind}_l{layer}{suffix}").copy_(ours)


@pytest.mark.parametrize(("options", "stranger_class"), [s[1:] for s in strangers()], ids=[s[0] for s in strangers()])
def test_fused_cells_equal_torch_packed_networks(
    options: dict[str, object], stranger_class: Callable[..., nn.RNNBase]
) -> None:
    encoder = build_recurrent(RecurrentConfig(d=6, n_layers=2, **options), 5)
    stranger = stranger_class(5, 6, num_layers=2, bidirectional=True, batch_first=True)
    copy_into(stranger, encoder)
    x, lengths = torch.randn(4, 9, 5), torch.tensor([9, 1, 4, 7])
    theirs, ours = x.clone().requires_grad_(), x.clone().requires_grad_()

    packed = pack_padded_sequence(theirs, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(stranger(packed)[0], batch_first=True)
    y = encoder(ours, lengths)
    torch.testing.assert_close(y, expected, atol=1e-6, rtol=1e-5)

    weights = torch.randn_like(y)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-4)
    for suffix, recurrences in (("", encoder.forwards), ("_reverse", encoder.backwards)):
        for layer, recurrence in enumerate(recurrences):
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                torch.testing.assert_close(
                    getattr(recurrence.network, f"{kind}_l0").grad,
                    getattr(stranger, f"{kind}_l{layer}{suffix}").grad,
                    atol=1e-5,
                    rtol=1e-4,
                )


@pytest.mark.parametrize("options", [{"cell": "lstm"}, {"cell": "gru"}, {"cell": "elman"}], ids=name)
@pytest.mark.parametrize("connections", ["none", "skip"])
def test_joint_directions_equal_separate_ones(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object], connections: str
) -> None:
    encoder = build_recurrent(RecurrentConfig(d=3, n_layers=2, connections=connections, **options), 4).double()
    x, lengths = torch.randn(3, 5, 4, dtype=torch.float64), torch.tensor([5, 2, 4])
    results = []
    for joint in (False, True):
        monkeypatch.setattr(encoder, "_is_joint", lambda i, x, joint=joint: joint)
        encoder.zero_grad()
        y = encoder(x, lengths)
        y.square().sum().backward()
        results.append([y, *(p.grad for p in encoder.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-12)


def test_directions_are_joint_on_a_gpu_only() -> None:
    encoder = build_recurrent(RecurrentConfig(d=3), 4)
    encoder.joint_directions = True
    assert not encoder._is_joint(0, torch.randn(1, 1, 4))


def test_recurrent_dropout_is_between_layers_and_only_in_training() -> None:
    x, lengths = torch.randn(2, 3, 4), torch.tensor([3, 3])
    one = build_encoder(RecurrentConfig(d=4, dropout=0.9), 4).train()
    assert torch.equal(one(x, lengths), one(x, lengths))
    two = build_encoder(RecurrentConfig(d=4, n_layers=2, dropout=0.9), 4).train()
    assert not torch.equal(two(x, lengths), two(x, lengths))
    two.eval()
    assert torch.equal(two(x, lengths), two(x, lengths))


def test_residual_layers_add_their_input_before_dropout() -> None:
    encoder = build_recurrent(
        RecurrentConfig(d=2, n_layers=2, connections="residual", dropout=0.999, bidirectional=False), 2
    ).train()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
    x = torch.randn(1, 3, 2)
    assert torch.equal(encoder(x, torch.tensor([3])), x)


def copied_state(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(s.detach().clone() for s in state)


@pytest.mark.parametrize("options", CELLS, ids=name)
def test_recurrence_continues_from_its_state(options: dict[str, object]) -> None:
    encoder = build_recurrent(RecurrentConfig(d=4, bidirectional=False, **options), 3).double()
    recurrence = encoder.forwards[0]
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    whole, end = recurrence(x)
    first, state = recurrence(x[:4])
    second, last = recurrence(x[4:], copied_state(state))
    torch.testing.assert_close(torch.cat((first, second)), whole, atol=1e-12, rtol=0)
    torch.testing.assert_close(last, end, atol=1e-12, rtol=0)


@pytest.mark.parametrize("options", [{}, {"bidirectional": False}, {"n_layers": 2}, {"cell": "gru"}])
@pytest.mark.parametrize("connections", ["none", "residual", "skip"])
def test_states_without_gradients_equal_those_with(options: dict[str, object], connections: str) -> None:
    settings = RecurrentConfig.model_validate({"d": 3, "connections": connections, **options})
    encoder = build_recurrent(settings, 6).eval()
    x, lengths = torch.randn(4, 5, 6), torch.tensor([2, 5, 0, 3])
    for _ in range(2):
        with torch.inference_mode():
            found = encoder(x, lengths)
        torch.testing.assert_close(found, encoder(x, lengths))
        with torch.no_grad():
            for weight in encoder.parameters():
                weight.mul_(-1.5)  # a packed copy must notice
