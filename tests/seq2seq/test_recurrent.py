"""Recurrent encoder-decoders: the laws for each kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.recurrent_settings import RecurrentSettings
from tests.laws.seq2seq_laws import ONE_VOCABULARY, SIDES, EncoderDecoderLaws, Maker


def settings(**options: Any) -> RecurrentSettings:
    return RecurrentSettings(**{"d": 6, "d_embedding": 4, "dropout": 0.2, **options})


def maker(options: dict[str, Any]) -> Maker:
    def make() -> Any:
        torch.manual_seed(11)
        model = build_encoder_decoder(settings(**options), ONE_VOCABULARY if options.get("shared") else SIDES).double()
        with torch.no_grad():
            for parameter in model.parameters():  # far from the flat beginning
                parameter.mul_(2)
        return model.eval()

    return make


class TestAttention(EncoderDecoderLaws):
    @pytest.fixture(
        params=[
            {},
            {"cell": "gru", "order": "bahdanau", "n_layers": 2, "tied": False},
            {"order": "gnmt", "n_layers": 3, "residual": True, "bidirectional": "first", "handover": "zero"},
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
            {"encoder": "additive", "n_layers": 2, "handover": "map"},
        ],
        ids=lambda options: "-".join(str(value) for value in options.values()),
    )
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return maker({"attention": "none", **request.param})
