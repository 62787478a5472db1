"""Every smoothing method compared to dictionaries and fractions, and sums that must be one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import ConfigError, UnknownNameError
from catena.lm.ngram.estimators import (
    ESTIMATORS,
    absolute_discounting,
    add_k,
    katz,
    kneser_ney,
    stupid_backoff,
)
from tests.lm.ngram.texts import EVENTS, FIRST, histories, orders, sentences, state_after, trained
from tests.oracle import ngram as oracle
from tests.oracle.ngram import END

NAMES = sorted(oracle.ESTIMATORS)
# Enough different counts to estimate discounts, which random texts rarely have.
RICH = [[int(FIRST + (i * i // 3 + j * (i % 5)) % 3) for j in range(i % 7)] for i in range(60)]
RICH += [[1, FIRST]] + [[FIRST + 1, FIRST + 1, 1]] * 2


def distribution(model, history) -> np.ndarray:
    return np.exp(model.packed.spread(np.array([state_after(model, history)]))[0].astype(np.float64))


def check(model, prob, order) -> None:
    assert order > 0
    for history in histories(order):
        found = distribution(model, history)
        for event in EVENTS:
            wanted = float(prob(history, event))
            assert found[model.end if event == END else event] == pytest.approx(wanted, rel=3e-6, abs=1e-9), (
                history,
                event,
            )


@pytest.mark.parametrize("name", NAMES)
@given(text=sentences, order=orders)
@settings(max_examples=25)
def test_estimator_equals_its_formula(name, text, order):
    check(trained(text, order, estimator=name), oracle.ESTIMATORS[name](text, order, EVENTS), order)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("name", NAMES)
def test_estimator_equals_its_formula_on_a_richer_text(name, order):
    model = trained(RICH, order, estimator=name)
    prob = oracle.ESTIMATORS[name](RICH, order, EVENTS)
    check(model, prob, min(order, 4))


@pytest.mark.parametrize("name", NAMES)
@given(text=sentences, order=orders)
@settings(max_examples=25)
def test_estimator_probabilities_sum_to_one(name, text, order):
    model = trained(text, order, estimator=name)
    rows = model.packed.spread(np.arange(model.packed.n_states)).astype(np.float64)
    assert np.isneginf(rows[:, [0, model.begin]]).all()
    if model.normalized:
        assert np.exp(rows).sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    else:
        assert name == "stupid-backoff"


def test_only_stupid_backoff_does_not_sum_to_one():
    sums = {
        name: np.exp(model.packed.spread(np.arange(model.packed.n_states))).sum(axis=1)
        for name in NAMES
        for model in [trained(RICH, 3, estimator=name)]
    }
    assert {name for name, found in sums.items() if abs(found - 1).max() > 1e-3} == {"stupid-backoff"}


@given(text=sentences, order=st.integers(2, 4), prune=st.sampled_from([(0, 1), (0, 0, 1), (0, 1, 2), (0, 0, 0, 5)]))
def test_count_pruning_moves_probability_to_shorter_ngrams(text, order, prune):
    prune = prune[:order]
    model = trained(text, order, prune=prune)
    check(model, oracle.modified_kneser_ney(text, order, EVENTS, prune), order)


@pytest.mark.parametrize("name", NAMES)
def test_count_pruned_models_sum_to_one(name):
    model = trained(RICH, 3, estimator=name, prune=(0, 1, 3))
    assert model.packed.n_states < trained(RICH, 3, estimator=name).packed.n_states
    if model.normalized:
        assert np.exp(model.packed.spread(np.arange(model.packed.n_states))).sum(axis=1) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("prune", [(1,), (0, 2, 1), (0, 0, 0, 0), (0, -1)])
def test_prune_invalid_thresholds_raise(prune):
    with pytest.raises(ConfigError, match="at most 3 counts that never decrease and start with 0"):
        trained(RICH, 3, prune=prune)


def test_estimator_options_are_checked():
    from fractions import Fraction

    model = trained(RICH, 3, estimator=partial(add_k, k=0.25))
    check(model, oracle.add_k(RICH, 3, EVENTS, Fraction(1, 4)), 3)
    model = trained(RICH, 3, estimator=partial(stupid_backoff, weight=0.25))
    check(model, oracle.stupid_backoff(RICH, 3, EVENTS, Fraction(1, 4)), 3)
    model = trained(RICH, 3, estimator=partial(katz, most=3))
    check(model, oracle.katz(RICH, 3, EVENTS, 3), 3)
    for estimator, wrong in [
        (partial(add_k, k=0.0), "k must be above 0, got 0"),
        (partial(stupid_backoff, weight=1.5), "weight must be above 0 and at most 1, got 1.5"),
        (partial(kneser_ney, discount=-1.0), "discount must be 0 to 1, got -1"),
        (partial(absolute_discounting, discount=float("nan")), "discount must be 0 to 1, got nan"),
    ]:
        with pytest.raises(ConfigError, match=wrong):
            trained(RICH, 2, estimator=estimator)
    with pytest.raises(UnknownNameError, match="kneser-ney"):
        trained(RICH, 2, estimator="kneser-nay")


@pytest.mark.parametrize("discount", [0.0, 0.75])
@pytest.mark.parametrize("estimator", [kneser_ney, absolute_discounting])
def test_estimator_with_given_discount(estimator, discount):
    from fractions import Fraction

    model = trained(RICH, 3, estimator=partial(estimator, discount=discount))
    counts = oracle.count(RICH, 3)
    if estimator is kneser_ney:
        counts = oracle.kneser_ney_count(counts, 3)
    check(model, oracle.interpolation(counts, 3, EVENTS, lambda k, n: Fraction(discount)), 3)


def test_small_texts_get_default_discounts_and_a_note():
    model = trained([[FIRST, FIRST + 1]], 3)
    assert len(model.notes) == 3
    assert model.notes[2] == (
        "The 2 3-grams are too few, or too regular, to estimate discounts from their counts: 0.5, 1, 1.5 are used "
        "instead"
    )
    assert trained(RICH, 2).notes == () or "too few" in trained(RICH, 2).notes[0]
    assert set(ESTIMATORS) == set(NAMES)
