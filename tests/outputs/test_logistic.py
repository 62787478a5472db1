"""Mixtures of logistic distributions, compared with the formula in plain ``math``."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.errors import ConfigError, DataError
from catena.outputs.logistic import LogisticMixture


def layer(v: int = 9, k: int = 3, spread: float = 1.0) -> LogisticMixture:
    torch.manual_seed(2)
    made = LogisticMixture(4, v, k).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return made


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def probability(raw: list[float], level: int, v: int) -> float:
    """The formula for one level; ``raw`` has the weights, the means and the log-scales."""
    k = len(raw) // 3
    total = sum(math.exp(w) for w in raw[:k])
    found = 0.0
    for i in range(k):
        mean, scale = (v - 1) / 2 * (1 + raw[k + i]), math.exp(max(raw[2 * k + i], -5.0))
        above = 1.0 if level == v - 1 else sigmoid((level + 0.5 - mean) / scale)
        below = 0.0 if level == 0 else sigmoid((level - 0.5 - mean) / scale)
        found += math.exp(raw[i]) / total * (above - below)
    return found


@pytest.mark.parametrize(("v", "k"), [(2, 1), (9, 3), (256, 10)])
def test_probabilities_equal_the_formula_and_sum_to_one(v: int, k: int) -> None:
    made, hidden = layer(v, k), torch.randn(5, 4, dtype=torch.float64)
    log_probs = made.log_probs(hidden)
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(5, dtype=torch.float64))
    raw = made.parts(hidden).tolist()
    for row in range(5):
        expected = [probability(raw[row], level, v) for level in range(v)]
        assert log_probs[row].exp().tolist() == pytest.approx(expected, abs=1e-12)


def test_log_prob_of_targets_equals_log_probs_and_gives_the_loss() -> None:
    made, hidden, targets = layer(), torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 8, 3, 3, 1])
    found = made.log_prob(hidden, targets)
    torch.testing.assert_close(found, made.log_probs(hidden).gather(1, targets[:, None])[:, 0])
    torch.testing.assert_close(made.loss(hidden, targets), -found.mean())
    assert made.loss(hidden[:0], targets[:0]) == 0
    with pytest.raises(DataError, match="targets must be ids from 0 to 8, got 9"):
        made.log_prob(hidden, targets + 1)


def test_distant_levels_keep_their_logs_and_gradients() -> None:
    made = LogisticMixture(2, 256, 1)
    with torch.no_grad():
        made.parts.weight.zero_()
        made.parts.bias.copy_(torch.tensor([0.0, 0.0, -3.0]))  # mean 127.5, scale 0.05
    log_probs = made.log_probs(torch.zeros(1, 2))[0]
    assert log_probs.isfinite().all()
    assert log_probs[200].item() == pytest.approx(-(200 - 128) / math.exp(-3), rel=1e-3)
    log_probs[[0, 50, 127, 255]].sum().backward()
    assert made.parts.bias.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["even", "narrow", "skewed"])
def test_start_is_near_the_frequencies(kind: str) -> None:
    levels = np.arange(256)
    frequencies = {
        "even": np.ones(256),
        "narrow": np.exp(-((levels - 128) ** 2) / 200) + 1e-9,
        "skewed": np.exp(-levels / 20),
    }[kind]
    made = LogisticMixture(3, 256, 10)
    made.start_at(frequencies)
    with torch.no_grad():
        q = made.log_probs(torch.zeros(1, 3))[0].double().numpy()
    p = frequencies / frequencies.sum()
    divergence = float((p * (np.log(p) - q)).sum())
    assert 0 <= divergence < 0.35
    made.start_at(np.ones(256))
    even = made.log_probs(torch.zeros(1, 3))[0].detach().double().numpy()
    assert kind == "even" or divergence < float((p * (np.log(p) - even)).sum()) / 2


def test_half_precision_input_is_summed_in_float32() -> None:
    made, hidden = LogisticMixture(4, 256), torch.randn(3, 4)
    with torch.autocast("cpu", torch.bfloat16):
        rough: Tensor = made.log_probs(hidden.bfloat16())
    assert rough.dtype == torch.float32
    assert (rough - made.log_probs(hidden)).abs().max() < 0.1


def test_wrong_sizes_raise() -> None:
    for v, k in ((1, 3), (5, 0)):
        with pytest.raises(ConfigError, match=f"got {v} and {k}"):
            LogisticMixture(3, v, k)
