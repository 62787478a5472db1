"""Tests of a difference: against all resamples, all swaps and exact binomials, and by how often they cry wolf."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics import significance
from catena.metrics.classification import ACCURACY, f1_measure
from catena.metrics.measure import mean_score, mean_statistics
from catena.metrics.significance import Comparison, approximate_randomization, mcnemar, paired_bootstrap
from tests.oracle import metrics as oracle

TESTS = [paired_bootstrap, approximate_randomization]


def mean(rows: list[list[float]]) -> float:
    return math.fsum(row[0] for row in rows) / len(rows)


def binary_f1(rows: list[list[float]]) -> float:
    hits, predicted, gold = (sum(row[i] for row in rows) for i in range(3))
    return float(Fraction(2 * int(hits), int(predicted + gold))) if predicted + gold else 0.0


def binary_f1_of_sums(sums: np.ndarray) -> np.ndarray:
    below = sums[..., 1] + sums[..., 2]
    return np.divide(2 * sums[..., 0], below, out=np.zeros(below.shape), where=below > 0)


def sample(seed: int, n: int, first: float, second: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether two systems with these accuracies are right, drawn independently."""
    rng = np.random.default_rng(seed)
    return (rng.random(n) < first).astype(float), (rng.random(n) < second).astype(float)


# --- against enumeration --------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(data=st.data(), n=st.integers(2, 5))
def test_the_bootstrap_agrees_with_all_resamples(data: st.DataObject, n: int) -> None:
    bits = st.lists(st.lists(st.integers(0, 1).map(float), min_size=3, max_size=3), min_size=n, max_size=n)
    first, second = data.draw(bits), data.draw(bits)
    every = list(oracle.bootstrap_differences(first, second, binary_f1))
    against = min(sum(d <= 1e-9 for d in every), sum(d >= -1e-9 for d in every)) / len(every)
    found = paired_bootstrap(
        np.array(first), np.array(second), binary_f1_of_sums, np.random.default_rng(0), resamples=4000
    )
    assert found.difference == pytest.approx(binary_f1(first) - binary_f1(second))
    assert found.p_value == pytest.approx(min(1.0, 2 * against), abs=0.06)  # four standard errors
    for end, share in ((found.interval.low, 0.025), (found.interval.high, 0.975)):
        below = np.quantile(every, share - 0.01, method="lower")
        above = np.quantile(every, share + 0.01, method="higher")
        assert below - 1e-9 <= end <= above + 1e-9


@settings(max_examples=15)
@given(data=st.data(), n=st.integers(1, 9))
def test_randomization_agrees_with_all_swaps(data: st.DataObject, n: int) -> None:
    numbers = st.lists(st.integers(-3, 3).map(lambda x: [x / 10]), min_size=n, max_size=n)
    first, second = data.draw(numbers), data.draw(numbers)
    every = list(oracle.swapped_differences(first, second, mean))
    observed = abs(mean(first) - mean(second))
    exact = sum(abs(d) >= observed - 1e-9 for d in every) / len(every)
    rows = [mean_statistics([row[0] for row in rows]) for rows in (first, second)]
    found = approximate_randomization(*rows, mean_score, np.random.default_rng(0), shuffles=50)
    assert found.p_value == pytest.approx(exact, rel=1e-12)
    differing = sum(a != b for a, b in zip(first, second, strict=True))
    assert found.signature == f"score|test:exact-randomization|differing:{differing}|n={n}"
    assert found.differing == differing


@settings(max_examples=10)
@given(data=st.data(), n=st.integers(1, 7))
def test_sampled_swaps_agree_with_all_swaps(data: st.DataObject, n: int) -> None:
    numbers = st.lists(st.lists(st.integers(0, 3).map(float), min_size=3, max_size=3), min_size=n, max_size=n)
    first, second = data.draw(numbers), data.draw(numbers)
    every = list(oracle.swapped_differences(first, second, binary_f1))
    observed = abs(binary_f1(first) - binary_f1(second))
    exact = sum(abs(d) >= observed - 1e-9 for d in every) / len(every)
    rows = np.array(first), np.array(second)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(significance, "MAX_EXACT", -1)
        found = approximate_randomization(*rows, binary_f1_of_sums, np.random.default_rng(0), shuffles=4000)
    assert found.p_value == pytest.approx(exact, abs=0.035)
    assert found.signature == f"score|test:approximate-randomization|shuffles:4000|n={n}"


@pytest.mark.parametrize(("n", "k"), [(1, 1), (10, 3), (1000, 5), (1000, 7), (1000, 16), (1000, 17)])
def test_few_differing_examples_have_the_p_value_of_the_binomial(n: int, k: int) -> None:
    first, second = np.ones(n), np.ones(n)
    second[:k] = 0
    rows = mean_statistics(first), mean_statistics(second)
    found = approximate_randomization(*rows, mean_score, np.random.default_rng(0), shuffles=2000)
    assert found.p_value == pytest.approx(2 / 2**k, rel=1e-12) if k <= 16 else found.p_value < 0.002
    assert found.p_value >= mcnemar(first > 0, second > 0).p_value - 1e-12
    assert found.differing == k


def test_differences_within_the_tolerance_are_none() -> None:
    rng = np.random.default_rng(4)
    nats, tokens = rng.uniform(5, 60, 200), rng.integers(2, 20, 200).astype(float)
    rounded = nats + rng.choice([-1, 1], 200) * 1e-6 * nats
    first, second = (np.stack((column, tokens), axis=-1) for column in (nats, rounded - 1e-7))
    for test in TESTS:
        exact = test(first, second, mean_score, np.random.default_rng(0), tolerance=1e-5, **draws(test, 200))
        assert (exact.p_value, exact.differing, exact.difference) == (1, 0, 0)
        assert exact.sentence().endswith(
            "p = 1: the difference is not significant; the two do not differ on any example"
        )
    second[7, 0] += 0.1
    assert approximate_randomization(first, second, mean_score, rng, tolerance=1e-5, shuffles=50).differing == 1


@given(data=st.data(), n=st.integers(1, 40))
def test_mcnemar_equals_the_binomial(data: st.DataObject, n: int) -> None:
    bits = st.lists(st.booleans(), min_size=n, max_size=n)
    first, second = data.draw(bits), data.draw(bits)
    wins = sum(a and not b for a, b in zip(first, second, strict=True))
    losses = sum(b and not a for a, b in zip(first, second, strict=True))
    exact = min(Fraction(1), 2 * oracle.binomial_at_most(min(wins, losses), wins + losses))
    found = mcnemar(first, second)
    assert found.p_value == pytest.approx(float(exact), rel=1e-9)
    assert (found.first, found.second) == pytest.approx((sum(first) / n, sum(second) / n))
    assert found.difference == pytest.approx(found.interval.value)
    assert -1 <= found.interval.low <= found.interval.high <= 1


def test_the_exact_test_and_randomization_agree_on_accuracies() -> None:
    first, second = sample(1, 200, 0.8, 0.72)
    exact = mcnemar(first.astype(bool), second.astype(bool)).p_value
    rows = mean_statistics(first), mean_statistics(second)
    found = approximate_randomization(*rows, mean_score, np.random.default_rng(0), shuffles=20_000)
    assert found.p_value == pytest.approx(exact, abs=0.015)


def test_mcnemars_interval_by_hand() -> None:
    # 10 wins, 4 losses, 86 ties; with half an example in each cell 10.5, 4.5 of 102
    found = mcnemar([True] * 10 + [False] * 4 + [True] * 86, [False] * 10 + [True] * 4 + [True] * 86)
    half = 1.959964 * math.sqrt(15 - 36 / 102) / 102
    assert (found.interval.low, found.interval.high) == pytest.approx((6 / 102 - half, 6 / 102 + half), abs=1e-7)


# --- how often they cry wolf, and how often they miss one -----------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
def test_equal_systems_rarely_differ_significantly(test: object) -> None:
    alarms = 0
    for seed in range(150):
        first, second = sample(seed, 80, 0.7, 0.7)
        rows = mean_statistics(first), mean_statistics(second)
        alarms += test(*rows, mean_score, np.random.default_rng(seed), **draws(test, 300)).p_value < 0.05
    assert alarms / 150 < 0.1  # 0.05 and two standard errors and a half


@pytest.mark.parametrize("test", TESTS)
def test_different_systems_mostly_differ_significantly(test: object) -> None:
    caught = 0
    for seed in range(30):
        first, second = sample(seed, 300, 0.85, 0.7)
        rows = mean_statistics(first), mean_statistics(second)
        found = test(*rows, mean_score, np.random.default_rng(seed), **draws(test, 300))
        caught += found.p_value < 0.05
        assert (found.p_value < 0.04) <= (0 not in found.interval or test is approximate_randomization)
    assert caught >= 27


def draws(test: object, number: int) -> dict[str, int]:
    return {"resamples": number} if test is paired_bootstrap else {"shuffles": number}


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        first, second = sample(seed, 100, 0.8, 0.7)
        found = mcnemar(first > 0, second > 0)
        held += 0.1 in found.interval
    assert 0.9 < held / 200 < 0.99


# --- laws -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
def test_a_system_does_not_differ_from_itself(test: object) -> None:
    rows = mean_statistics(np.random.default_rng(0).normal(size=40))
    found = test(rows, rows, mean_score, np.random.default_rng(1), **draws(test, 200))
    assert (found.p_value, found.difference) == (1, 0)
    assert (found.interval.low, found.interval.high) == (0, 0)


@pytest.mark.parametrize("test", TESTS)
def test_swapping_the_systems_changes_only_the_sign(test: object) -> None:
    first, second = (mean_statistics(column) for column in sample(3, 60, 0.8, 0.6))
    one = test(first, second, mean_score, np.random.default_rng(1), **draws(test, 500))
    other = test(second, first, mean_score, np.random.default_rng(1), **draws(test, 500))
    assert one.p_value == other.p_value
    assert one.difference == -other.difference
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))


@pytest.mark.parametrize("test", TESTS)
def test_the_p_value_is_never_zero(test: object) -> None:
    first, second = mean_statistics(np.ones(100)), mean_statistics(np.zeros(100))
    found = test(first, second, mean_score, np.random.default_rng(0), **draws(test, 99))
    assert found.p_value == pytest.approx(0.02 if test is paired_bootstrap else 0.01)


def test_sums_in_another_order_do_not_hide_a_tie() -> None:
    # Every swap gives the same difference up to rounding, so all are as far apart as what was seen.
    first, second = mean_statistics([0.1, 0.2, 0.3]), mean_statistics([0.3, 0.1, 0.2])
    found = approximate_randomization(first, second, mean_score, np.random.default_rng(0), shuffles=100)
    assert found.p_value == 1


def test_metrics_of_a_whole_corpus_can_be_compared() -> None:
    rng = np.random.default_rng(9)
    gold = rng.integers(0, 3, 400)
    good = np.where(rng.random(400) < 0.8, gold, rng.integers(0, 3, 400))
    poor = np.where(rng.random(400) < 0.5, gold, rng.integers(0, 3, 400))
    measure = f1_measure([0, 1, 2])
    rows = measure.statistics(gold, good), measure.statistics(gold, poor)
    found = paired_bootstrap(*rows, measure.score, rng, metric=measure.name, resamples=500)
    assert (found.first, found.second) == (measure(gold, good), measure(gold, poor))
    assert found.p_value < 0.01
    assert found.signature == "f1|average:macro|labels:3|test:paired-bootstrap|resamples:500|n=400"
    shuffled = approximate_randomization(*rows, measure.score, rng, metric=measure.name, shuffles=500)
    assert shuffled.p_value < 0.01
    assert shuffled.signature == "f1|average:macro|labels:3|test:approximate-randomization|shuffles:500|n=400"
    assert shuffled.interval.low > 0


# --- words ----------------------------------------------------------------------------------------------------


def test_sentence_states_the_result() -> None:
    found = mcnemar([True] * 90 + [False] * 10, [True] * 60 + [False] * 40)
    assert found.signature == "accuracy|test:mcnemar|n=100"
    assert found.sentence("CNN", "MaxEnt") == (
        "CNN scores 0.9000 and MaxEnt 0.6000 on 100 examples: a difference of +0.3000 "
        "(95 % interval +0.2036 to +0.3846), p = 1.9e-09: the difference is significant"
    )
    few = mcnemar([True] * 90 + [False] * 10, [True] * 88 + [False] * 12)
    assert few.sentence().endswith("p = 0.5: the difference is not significant; the two differ on 2 examples only")
    one = mcnemar([True, True], [True, False])
    assert one.sentence().endswith("p = 1: the difference is not significant; the two differ on 1 example only")
    same = Comparison(0.5, 0.5, found.interval, 1.0, 1200, "")
    assert same.sentence().startswith("the first scores 0.5000 and the second 0.5000 on 1,200 examples")
    assert same.sentence().endswith("p = 1: the difference is not significant")


@pytest.mark.parametrize("test", TESTS)
def test_invalid_input_raises_error(test: object) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(
        DataError, match=r"^Both systems must have statistics of the same shape, got \(3, 2\) and \(2, 2\)"
    ):
        test.__wrapped__(np.ones((3, 2)), np.ones((2, 2)), mean_score, rng)
    with pytest.raises(DataError, match=r"^Resampling needs at least one example"):
        test(np.ones((0, 2)), np.ones((0, 2)), mean_score, rng)
    with pytest.raises(ValueError, match=r"^The number of resamples must be at least 1, got 0"):
        test(np.ones((3, 2)), np.ones((3, 2)), mean_score, rng, **draws(test, 0))
    with pytest.raises(ValueError, match=r"^level must be between 0 and 1"):
        test(np.ones((3, 2)), np.ones((3, 2)), mean_score, rng, level=95.0)


def test_mcnemar_invalid_input_raises_error() -> None:
    with pytest.raises(DataError, match=r"^McNemar's test needs one prediction for each reference"):
        mcnemar([True], [True, False])
    with pytest.raises(ValueError, match=r"^level must be between 0 and 1"):
        mcnemar([True], [True], level=95.0)
    assert ACCURACY(["a"], ["a"]) == 1
