"""Markov chains compared to enumeration: they converge to their target."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from catena.errors import ConfigError, DataError, LimitError
from catena.search.channel import EditChannel
from catena.search.mcmc import AnnealingSchedule, Samples, effective_sample_size, gibbs, metropolis_hastings
from catena.search.mcmc_moves import EditMoves, ModelProposal
from catena.search.mcmc_target import NoisyChannelPosterior, Texts
from tests.oracle.search import all_sequences, channel_by_hand
from tests.search.models import as_model, random_table

SURE = 1e-4
SYMBOLS, END, MOST = [0, 1, 2], 3, 3
TABLE = random_table(4, 2, END, seed=12)
RATES = {"insert": 0.1, "delete": 0.1, "substitute": 0.3, "transpose": 0.1}
CHANNEL = EditChannel(SYMBOLS, 4, **RATES, confusions={0: [1]})
OBSERVED = (0, 2)


def posterior_by_hand() -> dict[tuple[int, ...], float]:
    weights = {
        ids: math.exp(log_prob) * channel_by_hand(ids, OBSERVED, 3, RATES, CHANNEL.substitution)
        for (ids, done), log_prob in all_sequences(as_model(TABLE), END, MOST + 1).items()
        if done
    }
    total = math.fsum(weights.values())
    return {ids: weight / total for ids, weight in weights.items()}


def agree(samples: Samples, wanted: dict[tuple[int, ...], float]) -> None:
    drawn = [ids for chain in samples.chains for ids in chain]
    counts, n = Counter(drawn), len(drawn)
    assert set(counts) <= set(wanted)
    often = [ids for ids in wanted if n * wanted[ids] >= 8]
    seen, expected = [counts[ids] for ids in often], [n * wanted[ids] for ids in often]
    seen, expected = [*seen, n - sum(seen)], [*expected, n - sum(expected)]
    assert len(seen) > 4
    assert chisquare(seen, expected).pvalue > SURE


def test_exact_posterior_equals_manual_computation() -> None:
    found = NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED).exact(SYMBOLS, MOST)
    assert found == pytest.approx(posterior_by_hand(), abs=1e-12)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    prior = Texts(TABLE).exact(SYMBOLS, MOST)
    listed = {ids: math.exp(x) for (ids, done), x in all_sequences(as_model(TABLE), END, MOST + 1).items() if done}
    assert prior == pytest.approx({ids: p / math.fsum(listed.values()) for ids, p in listed.items()})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"confusions": {0: [1], 2: [1, 0]}, "favorites": [0, 2], "near": 0.5},
        {"rates": {"substitute": 0.3, "insert": 0.4, "delete": 0.2, "transpose": 0.1}, "favorites": [1]},
        {"confusions": {0: [1]}, "favorites": [0], "guide": ModelProposal(TABLE, SYMBOLS), "near": 0.3},
    ],
    ids=["plain", "confusions", "uneven", "guided"],
)
def test_metropolis_hastings_converges_to_the_posterior(options: dict[str, Any]) -> None:
    moves = EditMoves(SYMBOLS, MOST, **options)
    schedule = AnnealingSchedule(steps=3_000, burn_in=100, thin=15, chains=8)
    generator = np.random.default_rng(7)
    samples = metropolis_hastings(NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED), OBSERVED, moves, schedule, generator)
    agree(samples, posterior_by_hand())
    assert set(samples.accepted) == {"substitute", "insert", "delete", "transpose", "all"}
    assert 0 < samples.accepted["all"] < 1


def test_gibbs_converges_to_the_posterior_of_its_length() -> None:
    schedule = AnnealingSchedule(steps=1_500, burn_in=20, thin=6, chains=8)
    target = NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED)
    samples = gibbs(target, OBSERVED, SYMBOLS, schedule, np.random.default_rng(3))
    same = {ids: p for ids, p in posterior_by_hand().items() if len(ids) == 2}
    agree(samples, {ids: p / math.fsum(same.values()) for ids, p in same.items()})
    assert samples.accepted == {"all": 1.0}


def test_gibbs_with_candidates_for_each_position() -> None:
    target = NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED)
    samples = gibbs(
        target, OBSERVED, [[0, 1], [2]], AnnealingSchedule(3_000, chains=2, thin=2), np.random.default_rng(3)
    )
    both = {ids: p for ids, p in posterior_by_hand().items() if ids in ((0, 2), (1, 2))}
    wanted = both[1, 2] / math.fsum(both.values())
    assert samples.frequencies()[1, 2] == pytest.approx(wanted, abs=0.04)


def test_gibbs_duplicate_candidates_do_not_change_probabilities() -> None:
    target = Texts(TABLE)
    assert target.exact([0, 1, 2, 0, 0], MOST) == target.exact(SYMBOLS, MOST)
    for candidates, again in (([0, 1, 2], [0, 1, 2, 0, 0]), ([[0, 1], [2]], [[0, 1, 0, 0], [2, 2]])):
        once, twice = (
            gibbs(target, OBSERVED, some, AnnealingSchedule(100), np.random.default_rng(3)).chains
            for some in (candidates, again)
        )
        assert twice == once


def test_samples_report_frequencies_and_best() -> None:
    samples = Samples([[(1,), (2,)], [(1,), (1,)]], [[-1.0, -3.0], [-1.0, -1.0]], {"all": 0.5})
    assert samples.frequencies() == {(1,): 0.75, (2,): 0.25}
    assert samples.best == (1,)


def test_target_weights_are_computed_once() -> None:
    asked: list[tuple[int, ...]] = []

    class Watched(Texts):
        def score(self, sequences: Any) -> list[float]:
            asked.extend(sequences)
            return super().score(sequences)

    moves = EditMoves(SYMBOLS, 2)
    metropolis_hastings(Watched(TABLE), (0,), moves, AnnealingSchedule(400, chains=3), np.random.default_rng(1))
    assert len(asked) == len(set(asked)) <= 13


def test_posterior_sharpness_raises_the_language_model_weight() -> None:
    sharp = NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED, sharpness=2.0)
    plain, model = NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED), Texts(TABLE)
    for ids in [(), (0, 2), (1, 1, 2)]:
        (a,), (b,), (c,) = (target.log_weights([ids]) for target in (sharp, plain, model))
        assert a == pytest.approx(b + c)


# --- effective sample size ----------------------------------------------------------------------------------


def test_effective_sample_size_of_independent_samples_is_their_number() -> None:
    draws = np.random.default_rng(1).normal(size=(4, 2_000))
    assert effective_sample_size(draws) == pytest.approx(8_000, rel=0.15)


def test_effective_sample_size_of_autoregression_matches_theory() -> None:
    generator, rho = np.random.default_rng(2), 0.8
    traces = np.zeros((4, 20_000))
    for t in range(1, traces.shape[1]):
        traces[:, t] = rho * traces[:, t - 1] + generator.normal(size=4)
    assert effective_sample_size(traces) == pytest.approx(80_000 * (1 - rho) / (1 + rho), rel=0.15)


def test_effective_sample_size_of_constant_chains_is_one_each() -> None:
    assert effective_sample_size(np.full((3, 50), -7.3)) == 3.0


# --- errors -------------------------------------------------------------------------------------------------


def test_mcmc_invalid_arguments_raise() -> None:
    target = NoisyChannelPosterior(TABLE, CHANNEL, OBSERVED)
    with pytest.raises(LimitError, match="at most 4 of 3 symbols must be at most limit = 100, got 121"):
        target.exact(SYMBOLS, 4, limit=100)
    with pytest.raises(ConfigError, match="steps, thin and chains must be at least 1"):
        AnnealingSchedule(0)
    with pytest.raises(ConfigError, match="rates must be of substitute, insert, delete, transpose"):
        EditMoves(SYMBOLS, 3, rates={"swap": 1.0})
    with pytest.raises(ConfigError, match="both insert and delete or neither"):
        EditMoves(SYMBOLS, 3, rates={"insert": 1.0})
    with pytest.raises(
        ConfigError, match=r"near \+ guided must be below 1, both at least 0, got near = 0.7 and guided = 0.4"
    ):
        EditMoves(SYMBOLS, 3, near=0.7)
    generator = np.random.default_rng(1)
    with pytest.raises(ConfigError, match="a list for each of 2 positions, got 1"):
        gibbs(target, OBSERVED, [[0]], AnnealingSchedule(1), generator)
    with pytest.raises(ConfigError, match="must contain the start id 2, got \\[0, 1\\]"):
        gibbs(target, OBSERVED, [0, 1], AnnealingSchedule(1), generator)
    exact = EditChannel(SYMBOLS, 4, insert=0.0, delete=0.0, substitute=0.0, transpose=0.0)
    with pytest.raises(DataError, match="start must be a possible sequence, got \\[1\\]"):
        metropolis_hastings(
            NoisyChannelPosterior(TABLE, exact, OBSERVED), (1,), EditMoves(SYMBOLS, 3), AnnealingSchedule(1), generator
        )


@pytest.mark.parametrize("start", [(), (0,), (0, 1, 2)])
def test_chains_continue_from_every_length(start: tuple[int, ...]) -> None:
    moves = EditMoves(SYMBOLS, 3)
    samples = metropolis_hastings(Texts(TABLE), start, moves, AnnealingSchedule(300), np.random.default_rng(1))
    assert {len(ids) for ids in samples.chains[0]} >= {0, 1, 2}
    assert max(len(ids) for ids in samples.chains[0]) <= 3
    assert samples.effective > 2
