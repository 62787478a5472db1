"""Recurrent encoder-decoders: the laws for each kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from catena.seq2seq.base import Source
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import RecurrentSeq2SeqConfig
from tests.laws.seq2seq_laws import ONE_VOCABULARY, SIDES, EncoderDecoderLaws, Maker, padded


def settings(**options: Any) -> RecurrentSeq2SeqConfig:
    return RecurrentSeq2SeqConfig(**{"d": 6, "d_embedding": 4, "dropout": 0.2, **options})


def maker(options: dict[str, Any]) -> Maker:
    def make() -> Any:
        torch.manual_seed(11)
        model = build_encoder_decoder(settings(**options), ONE_VOCABULARY if options.get("shared") else SIDES).double()
        with torch.no_grad():
            for parameter in model.parameters():  # far from the initial values
                parameter.mul_(2)
        return model.eval()

    return make


class TestAttention(EncoderDecoderLaws):
    @pytest.fixture(
        params=[
            {},
            {"cell": "gru", "order": "bahdanau", "n_layers": 2, "tied": False},
            {"order": "gnmt", "n_layers": 3, "residual": True, "bidirectional": "first", "bridge": "zero"},
            {"attention": "bilinear", "n_heads": 2, "cell": "coupled_lstm", "input_feeding": False, "shared": True},
        ],
        ids=lambda options: "-".join(str(value) for value in options.values()) or "plain",
    )
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return maker(request.param)


class TestLatentAndLocal(EncoderDecoderLaws):
    @pytest.fixture(
        params=[
            {"attention_kind": "hard_sampled", "attention": "concat"},
            {"attention_kind": "marginal", "input_feeding": False, "attention": "concat_product"},
            {"attention_kind": "local_monotonic", "window": 1, "order": "bahdanau"},
        ],
        ids=lambda options: options["attention_kind"],
    )
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return maker(request.param)


class TestLocalPredictive(EncoderDecoderLaws):
    sums_to_one = False

    @pytest.fixture
    def make_model(self) -> Maker:
        return maker({"attention_kind": "local_predictive", "window": 2, "n_heads": 2, "input_feeding": False})


class TestNoAttention(EncoderDecoderLaws):
    looks = False

    @pytest.fixture(
        params=[
            {"cell": "gru_reset_first", "reverse": True},
            {"encoder": "additive", "n_layers": 2, "bridge": "map"},
        ],
        ids=lambda options: "-".join(str(value) for value in options.values()),
    )
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return maker({"attention": "none", **request.param})


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("options", "before_output"),
    [
        ({}, 2 * 5 * 6),
        ({"order": "bahdanau"}, 2 * 5 * 6),
        ({"order": "gnmt", "tied": False}, 2 * 5 * 6),
        ({"input_feeding": False, "encoder": "additive"}, 2 * 5 * 6),
        ({"attention": "none", "cell": "coupled_lstm"}, 2 * 5 * 6),
        ({"attention_kind": "marginal", "input_feeding": False}, 2 * 5 * 7 * 6),
    ],
    ids=["luong", "bahdanau", "gnmt", "additive", "none", "marginal"],
)
def test_recurrent_dropout_positions_only_in_training(
    options: dict[str, Any], before_output: int, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every unit of b = 2 sources of 7 and targets of 5 that may be dropped is counted once, and no other."""
    asked = 0

    def count(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        nonlocal asked
        assert p in (0.0, 0.2)
        asked += x.numel() if p and training else 0
        return x

    monkeypatch.setattr(torch.nn.functional, "dropout", count)
    model = maker({"n_layers": 3, "d": 6, "d_embedding": 6, **options})().train(training)
    source, (targets, lengths) = Source(*padded([[4] * 7, [5] * 7])), padded([[4] * 4 + [3], [5, 3]])
    model.loss(source, targets, lengths)
    embedded, between = 2 * (7 + 5) * 6, 2 * 2 * (7 + 5) * 6
    assert asked == (embedded + between + before_output if training else 0)


@pytest.mark.parametrize("cell", ["lstm", "gru", "coupled_lstm"])
def test_recurrent_source_returns_the_last_state_of_each_direction(cell: str) -> None:
    """The forward state at the source's last real token, then the backward state at its first."""
    encoder = maker({"cell": cell})().encoder
    x, lengths = torch.randn(3, 5, 4, dtype=torch.float64), [5, 2, 1]
    states, handed = encoder(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(handed[0][0][row], torch.cat((states[row, length - 1, :3], states[row, 0, 3:])))
