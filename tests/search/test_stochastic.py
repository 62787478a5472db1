"""Stochastic beams: samples without replacement with the right probabilities, and unbiased estimates."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from functools import partial

import pytest
import torch
from scipy.stats import chisquare

from catena.errors import ConfigError
from catena.search.filters import temperature
from catena.search.hypothesis import Hypothesis
from catena.search.stochastic import stochastic_beam
from catena.search.table_stepper import TableStepper
from tests.oracle.search import all_sequences
from tests.oracle.search import temperature as temperature_by_hand
from tests.search.models import as_model, random_table

SURE = 1e-4
ROWS = 6_000


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def key(h: Hypothesis) -> tuple[tuple[int, ...], bool]:
    return h.ids, h.finished


def _length_to_the(power: int, h: Hypothesis) -> float:
    return float(len(h.ids) ** power)


@pytest.fixture
def table() -> TableStepper:
    return random_table(3, 2, end=2, seed=9, impossible=0.2)


def test_stochastic_beam_order_matches_sampling_without_replacement(table: TableStepper) -> None:
    p = {k: math.exp(x) for k, x in all_sequences(as_model(table), table.end, 2).items()}
    assert len(p) >= 5
    drawn = stochastic_beam(table, table.start(ROWS), generator(), 2, max_length=2)
    pairs = Counter((key(d.hypotheses[0]), key(d.hypotheses[1])) for d in drawn)
    wanted = {(a, c): p[a] * p[c] / (1 - p[a]) for a in p for c in p if a != c}
    assert set(pairs) <= set(wanted)
    often = [pair for pair in wanted if ROWS * wanted[pair] >= 5]
    seen, expected = [pairs[pair] for pair in often], [ROWS * wanted[pair] for pair in often]
    seen, expected = [*seen, ROWS - sum(seen)], [*expected, ROWS - sum(expected)]
    assert chisquare(seen, expected).pvalue > SURE


def test_stochastic_beam_samples_are_distinct_sorted_and_scored(table: TableStepper) -> None:
    everything = all_sequences(as_model(table), table.end, 3)
    rows = stochastic_beam(table, table.start(50), generator(2), 4, max_length=3)
    assert len(rows) == 50
    for drawn in rows:
        keys = [key(h) for h in drawn.hypotheses]
        assert len(set(keys)) == len(keys) == 4
        assert [h.log_prob for h in drawn.hypotheses] == pytest.approx([everything[k] for k in keys])
        scores = [h.score for h in drawn.hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert drawn.threshold < scores[-1]
        wanted = [1 - math.exp(-math.exp(h.log_prob - drawn.threshold)) for h in drawn.hypotheses]
        assert drawn.inclusion() == pytest.approx(wanted)


def test_weighted_samples_mean_is_unbiased() -> None:
    table = TableStepper(torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64).log(), end=2)
    everything = all_sequences(as_model(table), table.end, 3)
    exact = sum(math.exp(log_prob) * len(ids) for (ids, _), log_prob in everything.items())
    rows = stochastic_beam(table, table.start(ROWS), generator(3), 2, max_length=3)
    for value, wanted in ((lambda h: float(len(h.ids)), exact), (lambda h: 1.0, 1.0)):
        found = [row.mean(value, normalize=False) for row in rows]
        error = statistics.stdev(found) / math.sqrt(ROWS)
        assert abs(statistics.fmean(found) - wanted) < 4 * error
        assert statistics.fmean(row.mean(value) for row in rows) == pytest.approx(wanted, abs=0.2)


def test_weighted_samples_mean_with_forbidden_ids_is_unbiased() -> None:
    table = TableStepper(torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64).log(), end=2)
    everything = all_sequences(as_model(table), table.end, 3)
    allowed = {ids: math.exp(log_prob) for (ids, _), log_prob in everything.items() if ids}
    rows = stochastic_beam(table, table.start(ROWS), generator(3), 3, max_length=3, min_length=1)
    for power in (0, 1):
        found = [row.mean(partial(_length_to_the, power), normalize=False) for row in rows]
        error = statistics.stdev(found) / math.sqrt(ROWS)
        assert abs(statistics.fmean(found) - sum(p * len(ids) ** power for ids, p in allowed.items())) < 4 * error
    assert all(h.log_prob == pytest.approx(math.log(allowed[h.ids])) for h in rows[0].hypotheses)


def test_stochastic_beam_returns_all_sequences_if_there_are_few(table: TableStepper) -> None:
    everything = all_sequences(as_model(table), table.end, 2)
    (drawn,) = stochastic_beam(table, table.start(1), generator(), 99, max_length=2)
    assert {key(h) for h in drawn.hypotheses} == set(everything)
    assert drawn.threshold == -math.inf
    assert drawn.inclusion() == [1.0] * len(everything)
    assert drawn.mean(lambda h: 1.0, normalize=False) == pytest.approx(1.0)


def test_stochastic_beam_filters_change_the_sampled_model(table: TableStepper) -> None:
    model = as_model(table)
    cold = all_sequences(lambda prefix: temperature_by_hand(model(prefix), 0.5), table.end, 2)
    (drawn,) = stochastic_beam(table, table.start(1), generator(), 99, 2, filters=[partial(temperature, t=0.5)])
    assert {key(h): h.log_prob for h in drawn.hypotheses} == pytest.approx(cold)


def test_stochastic_beam_edge_cases() -> None:
    table = random_table(3)
    (drawn,) = stochastic_beam(table, table.start(1), generator(), 2, max_length=0)
    assert [key(h) for h in drawn.hypotheses] == [((), False)]
    assert stochastic_beam(table, table.start(0), generator(), 2, max_length=2) == []
    one = TableStepper(torch.zeros(2, 1), end=0)
    (drawn,) = stochastic_beam(one, one.start(1), generator(), 2, max_length=5)
    assert [key(h) for h in drawn.hypotheses] == [((), True)]
    dead = TableStepper.of({(): [1, 0], (0,): [0, 1]}, end=1)
    gone = dead.advance(dead.start(1), torch.tensor([1]))
    assert stochastic_beam(dead, gone, generator(), 2, max_length=5)[0].hypotheses == []
    late = stochastic_beam(table, table.start(1), generator(), 9, max_length=3, min_length=2)[0]
    assert min(len(h.ids) for h in late.hypotheses) == 2
    with pytest.raises(ConfigError, match="n must be at least 1, got 0"):
        stochastic_beam(table, table.start(1), generator(), 0, max_length=2)
