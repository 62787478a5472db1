"""Sampling: frequencies match the model, streams match samples, rows do not depend on the batch."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from catena.errors import ConfigError
from catena.search.filters import Filter, log_normalize, min_p, temperature, top_k, top_p, typical
from catena.search.hypothesis import Hypothesis
from catena.search.repeats import NoRepeatNgram
from catena.search.sampling import SampleId, sample, stream
from catena.search.table_stepper import TableStepper
from tests.oracle import search as oracle
from tests.search.models import as_model, random_table

SURE = 1e-4  # the seeds are fixed: a test that passes once always passes


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def agree(drawn: list[Hypothesis], log_probs: dict[tuple[tuple[int, ...], bool], float]) -> None:
    """Chi-square test of the sampled sequences against the listed ones, with rare ones pooled."""
    counts, n = Counter((h.ids, h.finished) for h in drawn), len(drawn)
    assert set(counts) <= set(log_probs)
    often = [key for key, log_prob in log_probs.items() if n * math.exp(log_prob) >= 5]
    seen, wanted = [counts[key] for key in often], [n * math.exp(log_probs[key]) for key in often]
    rest = n - sum(wanted)
    if rest > 1e-6 * n:
        seen, wanted = [*seen, n - sum(seen)], [*wanted, rest]
    assert len(seen) > 1
    assert chisquare(seen, wanted).pvalue > SURE


@pytest.mark.parametrize(("v", "order", "impossible"), [(2, 2, 0.0), (4, 2, 0.3), (3, 3, 0.0), (5, 1, 0.4)])
def test_sampled_frequencies_match_the_model(v: int, order: int, impossible: float) -> None:
    table = random_table(v, order, impossible=impossible)
    drawn = sample(table, table.start(1), generator(), max_length=3, n=20_000)[0]
    everything = oracle.all_sequences(as_model(table), table.end, 3)
    agree(drawn, everything)
    for h in drawn[:50]:
        assert h.log_prob == pytest.approx(everything[h.ids, h.finished])
        assert h.score == pytest.approx(h.log_prob)


FILTERS = [
    (partial(temperature, t=0.5), partial(oracle.temperature, t=0.5)),
    (partial(top_k, k=2), partial(oracle.top_k, k=2)),
    (partial(top_p, p=0.7), partial(oracle.top_p, mass=0.7)),
    (partial(typical, p=0.7), partial(oracle.typical, mass=0.7)),
    (partial(min_p, p=0.2), partial(oracle.min_p, share=0.2)),
]


@pytest.mark.parametrize(("filter", "by_hand"), FILTERS, ids=lambda f: f.func.__name__)
def test_filtered_frequencies_match_the_filtered_model(filter: Filter, by_hand: partial[list[float]]) -> None:
    table = random_table(4, 2, end=2, seed=8)
    model = as_model(table)
    drawn = sample(table, table.start(1), generator(), max_length=3, filters=[filter], n=10_000)[0]
    filtered = oracle.all_sequences(lambda prefix: by_hand(model(prefix)), table.end, 3)
    agree(drawn, filtered)
    whole = oracle.all_sequences(model, table.end, 3)
    for h in drawn[:50]:
        assert h.log_prob == pytest.approx(whole[h.ids, h.finished])
        assert h.score == pytest.approx(filtered[h.ids, h.finished])


def test_sample_min_length_delays_the_end() -> None:
    table = random_table(3, 2)
    drawn = sample(table, table.start(2), generator(), max_length=4, min_length=2, n=200)
    assert {len(h.ids) for row in drawn for h in row if h.finished} == {2, 3}


def test_sample_scores_are_the_sampling_log_probabilities() -> None:
    """With any forbidden ids: Σ p(y) over possible samples is the mean of the unbiased importance weights."""
    table = random_table(4, 2, end=3, seed=5)
    p = as_model(table)
    for stepper, min_length, n in ((table, 2, 0), (NoRepeatNgram(table, 1), 0, 1), (NoRepeatNgram(table, 1), 1, 1)):
        generator = torch.Generator().manual_seed(1)
        (drawn,) = sample(stepper, stepper.start(1), generator, 4, min_length=min_length, n=40)
        assert len(drawn) == 40
        for one in drawn:
            path = [*one.ids, 3] if one.finished else [*one.ids]
            log_prob = score = 0.0
            for t, id in enumerate(path):
                may = [w for w in range(4) if (w != 3 or t >= min_length) and (w == 3 or not n or w not in path[:t])]
                row = p(tuple(path[:t]))
                log_prob += math.log(row[id])
                score += math.log(row[id] / sum(row[w] for w in may))
            assert one.log_prob == pytest.approx(log_prob, abs=1e-6)
            assert one.score == pytest.approx(score, abs=1e-6)


def test_sample_row_with_its_own_generator_does_not_depend_on_the_batch() -> None:
    table = random_table(5, 3, end=4)
    prompts, lengths = torch.tensor([[0, 1], [2, 4], [3, 3]]), torch.tensor([2, 1, 0])
    state = table.extend(table.start(3), prompts, lengths)

    def drawn(rows: list[int]) -> list[list[Hypothesis]]:
        return sample(table, table.select(state, torch.tensor(rows)), [generator(row) for row in rows], max_length=9)

    together = drawn([0, 1, 2])
    assert len({h.ids for row in together for h in row}) > 1
    assert drawn([2, 0, 1]) == [together[2], together[0], together[1]]
    for row in range(3):
        assert drawn([row]) == [together[row]]


def test_stream_yields_the_ids_of_sample() -> None:
    table = random_table(4, 2, end=3, seed=5)
    whole = sample(table, table.start(3), generator(4), max_length=8, filters=[partial(top_k, k=3)])
    rows: list[list[int]] = [[], [], []]
    grad_was = torch.is_grad_enabled()
    for ids in stream(table, table.start(3), generator(4), max_length=8, filters=[partial(top_k, k=3)]):
        assert torch.is_grad_enabled() == grad_was
        for row, id in zip(rows, ids, strict=True):
            row += [] if id is None else [id]
    assert [tuple(row) for row in rows] == [h.ids for (h,) in whole]


def test_stream_yields_each_id_immediately() -> None:
    asked = []

    class Watched(TableStepper):
        def log_probs(self, state: torch.Tensor) -> torch.Tensor:
            asked.append(1)
            return super().log_probs(state)

    table = Watched(random_table(3, 1, end=0, impossible=0.0).table, end=0)
    for i, _ in enumerate(stream(table, table.start(1), generator(2), max_length=6, min_length=5)):
        assert len(asked) == i + 1
    assert len(asked) >= 5


def test_sample_without_steps_or_rows() -> None:
    table = random_table(3)
    assert sample(table, table.start(2), generator(), 0, n=2) == [[Hypothesis((), 0.0, 0.0, False)] * 2] * 2
    assert sample(table, table.start(0), generator(), 3) == []
    assert list(stream(table, table.start(2), generator(), 0)) == []


def test_sample_row_at_a_dead_end_stops_and_others_continue() -> None:
    table = TableStepper.of({(): [1, 0, 0], (0,): [0, 1, 0], (0, 1): [0, 0, 1]}, end=2)
    state = table.join([table.start(1), table.advance(table.start(1), torch.tensor([1]))])
    found = sample(table, state, generator(), 4)
    assert [[(h.ids, h.finished, h.log_prob) for h in row] for row in found] == [
        [((0, 1), True, 0.0)],
        [((), False, 0.0)],
    ]


def test_sample_of_a_single_possible_id_is_certain() -> None:
    table = TableStepper(torch.zeros(2, 1), end=0)
    assert sample(table, table.start(1), generator(), 3) == [[Hypothesis((), 0.0, 0.0, True)]]
    assert log_normalize(torch.tensor([[-math.inf]])).tolist() == [[-math.inf]]


def test_sample_wrong_number_of_generators_raises() -> None:
    table = random_table(3)
    with pytest.raises(ConfigError, match="one generator for each of 4 rows, got 2"):
        sample(table, table.start(2), [generator(), generator()], 3, n=2)


@pytest.mark.parametrize(("given", "kind"), [(None, "NoneType"), (5, "int"), ([generator(), 5], "int")])
def test_sample_generator_of_wrong_type_raises(given: Any, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"got a {kind}. Pass torch.Generator"):
        SampleId.__post_init__(SimpleNamespace(generators=given))  # type: ignore[arg-type]  # bypasses the type checks of the tests
