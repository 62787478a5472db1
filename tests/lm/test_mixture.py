"""Mixtures of language models, their weights, and the cache."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError, DataError, ShapeError
from catena.lm.mixture import CacheModel, LinearMixture, fit_weights, mix_log_probs
from catena.lm.ngram.model import NgramModel
from tests.laws.stepper_laws import StepperLaws

TEXT = ["the dog ran away", "the dog ran home", "a dog ran", "the cat ran away", ""]


def models() -> list[NgramModel]:
    trigram = NgramModel.train(TEXT, order=3)
    return [trigram, NgramModel.train(TEXT, 1, "witten-bell", vocabulary=trigram.vocabulary)]


class TestMixture(StepperLaws):
    cpu_only = True

    atol = 1e-5

    @pytest.fixture
    def make(self):
        return lambda: LinearMixture(models(), [0.75, 0.25])


class TestCache(StepperLaws):
    cpu_only = True

    atol = 1e-5

    @pytest.fixture
    def make(self):
        return lambda: CacheModel(models()[0].vocabulary, size=3, decay=0.5)


class TestMixtureWithACache(StepperLaws):
    cpu_only = True

    atol = 1e-5

    @pytest.fixture
    def make(self):
        return lambda: LinearMixture([*models(), CacheModel(models()[0].vocabulary)], [0.5, 0.25, 0.25])


def test_linear_mixture_is_the_weighted_mean_of_probabilities():
    a, b = models()
    mixture = LinearMixture([a, b], [0.75, 0.25])
    state = mixture.advance(mixture.start(1), torch.tensor(a.vocabulary.ids(["the"])))
    wanted = 0.75 * a.log_probs(state[0]).exp() + 0.25 * b.log_probs(state[1]).exp()
    assert torch.allclose(mixture.log_probs(state).exp(), wanted, atol=1e-6)


def test_linear_mixture_weight_zero_ignores_the_model():
    a, b = models()
    state = a.start(1)
    assert torch.allclose(LinearMixture([a, b], [1.0, 0.0]).log_probs((state, b.start(1))), a.log_probs(state))
    impossible = torch.tensor([[-1.0], [-math.inf]])
    assert mix_log_probs(impossible, [0.5, 0.5]).item() == pytest.approx(-1 - math.log(2))
    assert mix_log_probs(impossible, [0.0, 1.0]).item() == -math.inf


@given(st.lists(st.lists(st.floats(-5, 0), min_size=3, max_size=3), min_size=2, max_size=12), st.integers(0, 2))
def test_fit_weights_maximizes_the_likelihood(columns, away):
    log_probs = torch.tensor(columns, dtype=torch.float64).T
    fit = fit_weights(log_probs, most=20_000, tolerance=1e-13)
    assert sum(fit.weights) == pytest.approx(1.0)
    rises = [after - before for before, after in zip(fit.log_likelihoods, fit.log_likelihoods[1:], strict=False)]
    assert all(rise > -1e-12 for rise in rises)
    best = float(mix_log_probs(log_probs, fit.weights).mean())
    for share in (0.01, 0.1, 0.5, 1.0):  # the function is concave: no step toward a single model may gain
        moved = [(1 - share) * weight + share * (i == away) for i, weight in enumerate(fit.weights)]
        assert float(mix_log_probs(log_probs, moved).mean()) <= best + 1e-5


def test_fit_weights_equals_the_analytic_solution():
    log_probs = torch.log(torch.tensor([[0.9, 0.9, 0.9, 0.1], [0.1, 0.1, 0.1, 0.9]], dtype=torch.float64))
    # Maximize 3 log(0.1 + 0.8 x) + log(0.9 - 0.8 x): x = (3·0.9 - 0.1) / (0.8·4) = 0.8125.
    assert fit_weights(log_probs).weights[0] == pytest.approx(0.8125, abs=1e-4)
    assert fit_weights(log_probs, start=[0.0, 1.0]).weights == (0.0, 1.0)


def test_mixture_invalid_arguments_raise():
    with pytest.raises(DataError, match="2 models, 1 tokens and 1 impossible ones"):
        fit_weights(torch.full((2, 1), -math.inf))
    with pytest.raises(DataError, match="2 models, 0 tokens"):
        fit_weights(torch.zeros(2, 0))
    with pytest.raises(DataError, match=r"must be 2 weights from 0 that sum to 1, got \[0.5, 0.6\]"):
        LinearMixture(models(), [0.5, 0.6])
    with pytest.raises(ConfigError, match="steppers must have the same"):
        LinearMixture([models()[0], NgramModel.train(["x"], 1)], [0.5, 0.5])
    with pytest.raises(DataError, match="size must be at least 1 and decay above 0 and at most 1, got 0 and 1"):
        CacheModel(models()[0].vocabulary, size=0)


@given(st.lists(st.integers(3, 7), max_size=30), st.integers(1, 6), st.sampled_from([1.0, 0.9, 0.5]))
def test_cache_model_text_log_probs_equal_its_steps(words, size, decay):
    model = CacheModel(models()[0].vocabulary, size, decay)
    ids = torch.tensor(words, dtype=torch.int64)
    found = model.text_log_probs(ids)
    state = model.start(1)
    for t, word in enumerate(words):
        recent = words[max(0, t - size) : t]
        weights = {w: sum(decay ** (len(recent) - 1 - i) for i, x in enumerate(recent) if x == w) for w in recent}
        wanted = weights.get(word, 0.0) / sum(weights.values()) if recent else math.exp(float(found[0]))
        assert math.exp(found[t].item()) == pytest.approx(wanted, abs=1e-5)
        assert model.log_probs(state)[0, word].exp().item() == pytest.approx(wanted, abs=1e-5)
        state = model.advance(state, torch.tensor([word]))
    with pytest.raises(ShapeError, match="ids must be from 0 to"):
        model.text_log_probs(torch.tensor([10_000]))


def test_cache_model_old_word_with_fast_decay_is_possible():
    model = CacheModel(models()[0].vocabulary, size=62, decay=0.5)
    ids = torch.tensor([3, *[4] * 60, 3, *[4] * 70, 3])
    found = model.text_log_probs(ids)
    assert found[61].item() == pytest.approx(-61 * math.log(2), abs=1e-3)
    assert found[-1] == -math.inf, "it has left the cache"


@pytest.mark.parametrize("decay", [0.99, 0.9, 0.7, 0.3])
def test_cache_model_word_that_left_the_cache_is_impossible(decay):
    ids = torch.tensor([*[3, 4, 3] * 5, *[4] * 20, 3])
    assert CacheModel(models()[0].vocabulary, size=20, decay=decay).text_log_probs(ids)[-1] == -math.inf


def test_cache_model_helps_with_repeated_words():
    trigram = models()[0]
    cache = CacheModel(trigram.vocabulary, size=20)
    text = ["home home away home", "home home home home"]
    ids = torch.tensor([i for line in text for i in [*trigram.vocabulary.ids(line.split()), trigram.end]])
    own = torch.tensor([value for line in text for _, value in trigram.token_scores(line)])
    both = torch.stack((own, cache.text_log_probs(ids)))
    fit = fit_weights(both)
    assert fit.weights[1] > 0.2
    assert mix_log_probs(both, fit.weights).mean() > own.mean()
