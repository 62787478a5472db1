"""Scheduled sampling: the schedules, and the inputs of a decoder in training."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError

from catena.seq2seq.base import Source
from catena.seq2seq.config import ScheduledSamplingConfig
from catena.seq2seq.recurrent import RecurrentEncoderDecoder, draw, teacher_forcing_prob
from tests.laws.seq2seq_laws import SIDES, padded
from tests.seq2seq.test_recurrent import maker

SOURCE = Source(*padded([[4, 5, 6], [7, 1]]))
TARGETS = padded([[6, 4, 5, 3], [4, 4, 3]])


def test_teacher_forcing_prob_equals_the_formulas() -> None:
    linear = ScheduledSamplingConfig(schedule="linear", k=0.9, c=0.01, least=0.25)
    assert [teacher_forcing_prob(linear, i) for i in (0, 20, 1000)] == pytest.approx([0.9, 0.7, 0.25])
    exponential = ScheduledSamplingConfig(schedule="exponential", k=0.99)
    assert [teacher_forcing_prob(exponential, i) for i in (0, 1, 50)] == pytest.approx([1.0, 0.99, 0.99**50])
    sigmoid = ScheduledSamplingConfig(schedule="inverse_sigmoid", k=20)
    wanted = [20 / (20 + math.exp(i / 20)) for i in (0, 60, 200)]
    assert [teacher_forcing_prob(sigmoid, i) for i in (0, 60, 200)] == pytest.approx(wanted)
    assert teacher_forcing_prob(sigmoid, 10**7) == 0.0
    assert teacher_forcing_prob(ScheduledSamplingConfig(), 10**7) == 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"schedule": "linear", "k": 2},
            "k must be at most 1 for a linear schedule, got 2.0",
        ),
        ({"schedule": "exponential", "k": 1}, "k must be below 1 for an exponential schedule, got 1.0"),
        ({"schedule": "inverse_sigmoid", "k": 0.5}, "k must be at least 1 for inverse_sigmoid, got 0.5"),
    ],
)
def test_scheduled_sampling_invalid_config_raises(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ScheduledSamplingConfig(**values)


def test_draw_samples_by_probability_and_never_impossible_ids() -> None:
    p = torch.tensor([0.5, 0.0, 0.2, 0.3])
    drawn = draw(p.log().expand(20_000, 4))
    assert torch.allclose(drawn.bincount(minlength=4) / 20_000, p, atol=0.015)
    assert not (drawn == 1).any()


def model_with(way: str, **options: Any) -> RecurrentEncoderDecoder:
    sampling = {"schedule": "linear", "k": 1.0, "c": 0.01, "way": way}
    model = maker({"sampling": sampling, "dropout": 0.0, **options})()
    assert isinstance(model, RecurrentEncoderDecoder)
    return model.train()


WAYS = [
    ("steps", {}),
    ("steps", {"order": "bahdanau", "n_layers": 2}),
    ("steps", {"attention": "none"}),
    ("steps", {"attention_kind": "marginal", "input_feeding": False}),
    ("passes", {}),
    ("passes", {"attention": "none"}),
    ("passes", {"attention_kind": "marginal", "input_feeding": False}),
]


@pytest.mark.parametrize(("way", "options"), WAYS, ids=str)
def test_scheduled_sampling_starts_with_gold_tokens(way: str, options: dict[str, Any]) -> None:
    model = model_with(way, **options)
    loss = model.loss(SOURCE, *TARGETS)
    assert torch.equal(loss, model.eval().loss(SOURCE, *TARGETS))


@pytest.mark.parametrize(("way", "options"), WAYS, ids=str)
def test_scheduled_sampling_replaces_some_tokens_by_samples(way: str, options: dict[str, Any]) -> None:
    """The sampled tokens are recorded, and the loss equals the loss of reading them explicitly."""
    model = model_with(way, **options)
    model.set_progress(50)
    assert model.teacher_forcing_prob == pytest.approx(0.5)
    read: list[torch.Tensor] = []
    decoder = model.target
    handle = decoder.register_forward_hook(lambda _, given, __: read.append(given[0]))
    torch.manual_seed(4)
    loss = model.loss(SOURCE, *TARGETS)
    handle.remove()
    targets, lengths = TARGETS
    before = torch.cat(read, dim=1) if way == "steps" else read[-1]
    assert before.shape == targets.shape
    assert (before[:, 0] == SIDES.begin).all()
    true = before[:, 1:] == targets[:, :-1]
    assert true.any()
    assert not true.all()
    model.eval()
    decoded = model.decode(model.encode(SOURCE), before)
    log_probs = cast(Any, model)._log_prob(decoded, targets, torch.arange(4) < lengths[:, None])
    assert loss.item() == pytest.approx(-log_probs.sum().item() / 7, abs=1e-10)


@pytest.mark.parametrize("way", ["steps", "passes"])
def test_scheduled_sampling_ends_with_samples_only(way: str) -> None:
    """A model that is certain of one id reads it, for any gold tokens."""
    model = model_with(way)
    model.set_progress(100)
    with torch.no_grad():
        cast(Any, model.output).scores.bias[7] = 60.0
    read: list[torch.Tensor] = []
    handle = model.target.register_forward_hook(lambda _, given, __: read.append(given[0]))
    model.loss(SOURCE, *TARGETS)
    handle.remove()
    before = torch.cat(read, dim=1) if way == "steps" else read[-1]
    assert (before[:, 1:] == 7).all()


def test_scheduled_sampling_is_reproducible() -> None:
    losses = []
    for _ in range(2):
        model = model_with("steps")
        model.set_progress(70)
        torch.manual_seed(9)
        losses.append(model.loss(SOURCE, *TARGETS))
    assert torch.equal(*losses)
    assert not torch.equal(losses[0], model.eval().loss(SOURCE, *TARGETS))
