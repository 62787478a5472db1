"""Encoders from configs: every kind and every cell is built, with the documented sizes."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from catena.encoders.build import ENCODERS, POOLINGS, build_encoder, build_pooling, build_recurrence
from catena.encoders.cells import CoupledLSTM, Elman, GRUResetFirst, Leaky, PeepholeLSTM
from catena.encoders.config import (
    CellName,
    CustomEncoderConfig,
    EncoderConfig,
    PoolingConfig,
    PoolingName,
    RecurrentConfig,
    SpectrogramConfig,
)
from catena.encoders.fused import FusedRecurrence

SECTIONS = [section for section in get_args(get_args(EncoderConfig)[0]) if section is not CustomEncoderConfig]


def test_every_encoder_kind_has_a_builder() -> None:
    assert {section().kind for section in (*SECTIONS, SpectrogramConfig, CustomEncoderConfig)} == set(ENCODERS)
    assert set(get_args(PoolingName)) == set(POOLINGS)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_default_config_of_every_kind_builds_and_runs(section: type[EncoderConfig]) -> None:
    encoder = build_encoder(section(), 12)
    y = encoder(torch.randn(2, 3, 12), torch.tensor([3, 1]))
    assert encoder.d_in == 12
    assert y.shape == (2, 3, encoder.d_out)


@pytest.mark.parametrize("kind", get_args(PoolingName))
def test_build_pooling_has_the_documented_size(kind: str) -> None:
    pooling = build_pooling(PoolingConfig(kind=kind, k=3), 12)
    assert pooling(torch.randn(2, 5, 12), torch.tensor([5, 1])).shape == (2, pooling.d_out)
    assert pooling.d_out == {"first_last": 24, "k_max": 36}.get(kind, 12)


def test_standard_cells_are_fused_and_others_are_stepped() -> None:
    classes = {
        "elman": FusedRecurrence,
        "lstm": FusedRecurrence,
        "gru": FusedRecurrence,
        "leaky": Leaky,
        "peephole_lstm": PeepholeLSTM,
        "coupled_lstm": CoupledLSTM,
        "gru_reset_first": GRUResetFirst,
    }
    assert set(classes) == set(get_args(CellName))
    for cell, expected in classes.items():
        assert type(build_recurrence(RecurrentConfig(cell=cell), 3)) is expected
    for activation in ("identity", "sigmoid", "hard_tanh"):
        assert type(build_recurrence(RecurrentConfig(cell="elman", activation=activation), 3)) is Elman
    relu = build_recurrence(RecurrentConfig(cell="elman", activation="relu"), 3)
    assert isinstance(relu, FusedRecurrence)
    assert relu.network.nonlinearity == "relu"


def test_widths_of_stacked_recurrent_encoders() -> None:
    for options, d_out in (
        ({"bidirectional": False}, 5),
        ({}, 10),
        ({"n_layers": 3}, 10),
        ({"n_layers": 3, "connections": "skip"}, 30),
        ({"n_layers": 3, "connections": "skip", "bidirectional": False}, 15),
    ):
        assert build_encoder(RecurrentConfig(d=5, **options), 4).d_out == d_out
