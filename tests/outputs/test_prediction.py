"""Mixtures of logistic distributions around predictions, compared with the formula in plain ``math``."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.data.mulaw import decode_mulaw, encode_mulaw
from catena.errors import ConfigError, DataError
from catena.outputs.prediction import CENTER, EVEN, MIN_SCALE, SPREAD, PredictionMixture

D = 4


def layer(v: int = 9, p: int = 2, k: int = 3, spread: float = 1.0) -> PredictionMixture:
    torch.manual_seed(2)
    made = PredictionMixture(D, v, p, k).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return made


def vectors(n: int, p: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    hidden = torch.randn(n, D, generator=generator, dtype=torch.float64)
    means = torch.rand(n, p, 1, generator=generator, dtype=torch.float64) - 0.5
    logs = torch.randn(n, p, 2, generator=generator, dtype=torch.float64)
    return torch.cat((hidden, torch.cat((means, logs), dim=2).flatten(1)), dim=1)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def expected_probability(raw: list[float], predictions: list[float], level: int, v: int) -> float:
    """The formula for one level."""
    p = len(predictions) // 3
    k = len(raw) // (4 + p)
    low, high = -math.inf, math.inf
    if level > 0:
        low = math.copysign(((v) ** abs((2 * level - v) / (v - 1)) - 1) / (v - 1), 2 * level - v)
    if level < v - 1:
        high = math.copysign(((v) ** abs((2 * level + 2 - v) / (v - 1)) - 1) / (v - 1), 2 * level + 2 - v)
    total = sum(math.exp(w) for w in raw[:k])
    found = 0.0
    for i in range(k):
        mixed = [math.exp(x) for x in raw[4 * k + i * p : 4 * k + (i + 1) * p]]
        alphas = [x / sum(mixed) for x in mixed]
        gamma = sigmoid(raw[3 * k + i])
        log_scale = raw[2 * k + i] + sum(
            a * (CENTER + SPREAD * (gamma * predictions[3 * j + 1] + (1 - gamma) * predictions[3 * j + 2]))
            for j, a in enumerate(alphas)
        )
        scale = math.exp(min(log_scale, 2.0)) + MIN_SCALE
        mean = sum(a * predictions[3 * j] for j, a in enumerate(alphas)) + raw[k + i] * scale
        above = 1.0 if high == math.inf else sigmoid((high - mean) / scale)
        below = 0.0 if low == -math.inf else sigmoid((low - mean) / scale)
        found += math.exp(raw[i]) / total * (above - below)
    return (1 - EVEN) * found + EVEN / v


@pytest.mark.parametrize(("v", "p", "k"), [(2, 1, 1), (9, 2, 3), (256, 3, 10)])
def test_probabilities_equal_the_formula_and_sum_to_one(v: int, p: int, k: int) -> None:
    made, hidden = layer(v, p, k), vectors(5, p)
    log_probs = made.log_probs(hidden)
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(5, dtype=torch.float64), atol=1e-6, rtol=0)
    raw = made.parts(hidden[:, :D]).tolist()
    for row in range(5):
        found = log_probs[row].exp().tolist()
        expected = [expected_probability(raw[row], hidden[row, D:].tolist(), level, v) for level in range(v)]
        assert found == pytest.approx(expected, abs=1e-6)


def test_log_prob_of_targets_equals_log_probs_and_gives_the_loss() -> None:
    made, hidden, targets = layer(), vectors(5, 2), torch.tensor([0, 8, 3, 3, 1])
    found = made.log_prob(hidden, targets)
    torch.testing.assert_close(found, made.log_probs(hidden).gather(1, targets[:, None])[:, 0])
    torch.testing.assert_close(made.loss(hidden, targets), -found.mean())
    assert made.loss(hidden[:0], targets[:0]) == 0
    with pytest.raises(DataError, match="targets must be ids from 0 to 8, got 9"):
        made.log_prob(hidden, targets + 1)


def test_first_distribution_is_around_the_prediction_for_any_vector() -> None:
    made = PredictionMixture(D, 256, 1, 6)
    for mean in (-0.7, -0.01, 0.0, 0.3):
        logs = (math.log(0.002) - CENTER) / SPREAD
        hidden = torch.tensor([[*torch.randn(D).tolist(), mean, logs, logs]])
        p = made.log_probs(hidden)[0].exp().detach().double().numpy()
        assert abs(int(p.argmax()) - int(encode_mulaw(np.array([mean]))[0])) <= 3
        assert float(p @ decode_mulaw(np.arange(256)) / p.sum()) == pytest.approx(mean, abs=0.01)


@pytest.mark.parametrize("log_scale", [-9.0, 0.0, 9.0])
@pytest.mark.parametrize("mean", [-1.0, 0.0, 1.0])
def test_extreme_predictions_keep_their_logs_and_gradients(mean: float, log_scale: float) -> None:
    made = PredictionMixture(D, 256, 1, 3)
    hidden = torch.tensor([[0.5] * D + [mean, log_scale, log_scale]])
    log_probs = made.log_probs(hidden)[0]
    assert (log_probs >= math.log(EVEN / 256) - 1e-3).all()
    assert log_probs.exp().sum().item() == pytest.approx(1, abs=1e-4)
    log_probs.sum().backward()
    assert made.parts.bias.grad.isfinite().all()
    assert made.parts.weight.grad.isfinite().all()


def test_it_learns_which_predictor_is_right() -> None:
    torch.manual_seed(0)
    made = PredictionMixture(D, 256, 2, 4)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.05)
    means = torch.rand(500, 2) - 0.5
    targets = torch.from_numpy(encode_mulaw((means[:, 1] + 0.001 * torch.randn(500)).numpy())).long()
    logs = torch.full((500, 2), (math.log(0.01) - CENTER) / SPREAD)
    hidden = torch.cat((torch.randn(500, D), torch.stack((means, logs, logs), dim=2).flatten(1)), dim=1)
    before = made.loss(hidden, targets).item()
    for _ in range(60):
        loss = made.loss(hidden, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < before - 1


def test_wrong_sizes_raise() -> None:
    with pytest.raises(ConfigError, match="n_predictors and n_logistics at least 1, got 256, 0 and 3"):
        PredictionMixture(D, 256, 0, 3)
