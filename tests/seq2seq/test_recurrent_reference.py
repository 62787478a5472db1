"""Recurrent encoder-decoders compared to the same model written step by step: values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from catena.search.stepper import Stepper
from catena.seq2seq.base import Source
from tests.laws.seq2seq_laws import SIDES, padded
from tests.oracle import translation
from tests.seq2seq.test_recurrent import maker

SOURCES = [[4, 5, 6], [7], [5, 8, 4, 1]]
TARGETS = [[4, 5, 3], [3], [6, 7, 7, 4, 3]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cell": "gru", "n_layers": 2, "attention": "bilinear", "bridge": "map"},
        {"attention": "dot", "input_feeding": False, "tied": False, "bridge": "mean", "bidirectional": "none"},
        {"order": "bahdanau", "n_layers": 3, "residual": True, "bridge": "map"},
        {"order": "bahdanau", "cell": "gru", "attention": "concat", "reverse": True, "bridge": "zero"},
        {"order": "gnmt", "n_layers": 3, "residual": True, "bidirectional": "first", "attention": "scaled"},
        {"order": "gnmt", "n_layers": 4, "residual": True, "bidirectional": "none", "tied": False},
        {"attention": "none", "reverse": True, "n_layers": 3, "residual": True, "bidirectional": "none"},
        {"attention": "none", "encoder": "additive", "n_layers": 2, "bridge": "mean"},
        {"attention_kind": "marginal", "input_feeding": False, "attention": "concat_product"},
        {"attention_kind": "local_monotonic", "window": 1, "reverse": True},
        {"attention_kind": "local_monotonic", "window": 1, "input_feeding": False},
        {"attention_kind": "local_monotonic", "window": 1, "order": "gnmt", "n_layers": 2},
        {"attention_kind": "local_predictive", "window": 2, "input_feeding": False},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()) or "plain",
)
def test_recurrent_values_and_gradients_equal_single_steps(options: dict[str, Any]) -> None:
    model = maker(options)()
    options = {"cell": "lstm", **options}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    wanted = [
        one
        for source, target in zip(SOURCES, TARGETS, strict=True)
        for one in translation.token_log_probs(parameters, source, target, options, SIDES.begin, SIDES.forbidden)
    ]
    source = Source(*padded(SOURCES))
    targets, lengths = padded(TARGETS)
    found = model.token_log_probs(source, targets, lengths)
    assert torch.allclose(found[found != 0], torch.stack(wanted), rtol=0, atol=1e-9)
    assert torch.allclose(found, Stepper.token_log_probs(model.stepper(source), targets, lengths), rtol=0, atol=1e-9)
    unique = list(model.parameters())
    slow = torch.autograd.grad(-torch.stack(wanted).mean(), unique, allow_unused=True)
    fast = torch.autograd.grad(model.loss(source, targets, lengths), unique, allow_unused=True)
    for name, a, b in zip(dict(model.named_parameters()), fast, slow, strict=True):
        assert a is not None, name
        assert torch.allclose(a, torch.zeros_like(a) if b is None else b, rtol=0, atol=1e-9), name
