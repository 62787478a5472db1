"""Matching brackets: the stepper laws, all allowed sequences by enumeration, and trees from every search."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import ConfigError, ImpossibleError, ShapeError
from catena.search.brackets import Bracketed, BracketIds
from catena.search.build import search
from catena.search.config import (
    BaseSearchConfig,
    BeamConfig,
    DiverseBeamConfig,
    GreedyConfig,
    SampleConfig,
    StochasticBeamConfig,
)
from tests.laws.stepper_laws import StepperLaws
from tests.oracle.bracketed import Symbol, leaves_of, most_opened
from tests.search.models import random_table

SYMBOLS: dict[int, Symbol] = {1: ("(", "A"), 2: ("(", "B"), 4: (")", "B"), 5: (")", "A"), 6: ("leaf", "x")}
"""Ids in another order than their labels; 0 is the end, and 3 is never generated."""
IDS = BracketIds(opening=(1, 2), closing=(5, 4), leaves=(6,))
V, END = 7, 0


def trees(leaves: list[int], limits: list[int], seed: int = 3, most: int = 12) -> Bracketed:
    return Bracketed(random_table(V, 2, END, seed), IDS, torch.tensor(leaves), torch.tensor(limits), most)


class TestBracketed(StepperLaws):
    normalized = False

    @pytest.fixture
    def make(self) -> Callable[[], Bracketed]:
        return lambda: trees([1, 2, 3, 2, 4], [6, 9, 6, 5, 12])


def written(stepper: Bracketed) -> set[tuple[int, ...]]:
    """All sequences that the first row can generate. No prefix may be a dead end."""
    found, waiting = set(), [((), stepper.start(1))]
    while waiting:
        prefix, state = waiting.pop()
        possible = (stepper.log_probs(state)[0] > -torch.inf).nonzero()[:, 0].tolist()
        assert possible, f"{prefix} is a dead end"
        for id in possible:
            if id == END:
                found.add(prefix)
            else:
                waiting.append(((*prefix, id), stepper.advance(state, torch.tensor([id]))))
    return found


@pytest.mark.parametrize(
    ("n", "limit", "most"), [(1, 4, 5), (1, 7, 5), (2, 7, 5), (2, 7, 1), (3, 8, 5), (1, 8, 2), (4, 7, 3)]
)
def test_bracketed_generates_exactly_the_trees_within_limits(n: int, limit: int, most: int) -> None:
    wanted = {
        ids
        for length in range(1, limit)
        for ids in product(SYMBOLS, repeat=length)
        if ids[0] in IDS.opening and ids.count(6) == n  # all trees, few enough to check one by one
        if leaves_of([SYMBOLS[id] for id in ids]) == n and most_opened([SYMBOLS[id] for id in ids]) <= most
    }
    assert wanted
    assert written(trees([n], [limit], most=most)) == wanted


SEARCHES: list[BaseSearchConfig] = [
    GreedyConfig(),
    SampleConfig(n=3),
    SampleConfig(n=2, top_k=2, temperature=2.0),
    BeamConfig(beam_size=4, n_best=4),
    BeamConfig(beam_size=3, n_best=2, normalize="average", stop="count"),
    DiverseBeamConfig(beam_size=4, groups=2, n_best=2),
    StochasticBeamConfig(n=4),
]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(SEARCHES),
    st.lists(st.tuples(st.integers(1, 7), st.integers(0, 14)), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_every_search_returns_trees_with_the_given_number_of_leaves(
    constraint: BaseSearchConfig, rows: list[tuple[int, int]], seed: int
) -> None:
    leaves, limits = [n for n, _ in rows], [n + 3 + more for n, more in rows]
    stepper = trees(leaves, limits, seed)
    found = search(
        constraint.model_copy(update={"max_length": max(limits)}),
        stepper,
        stepper.start(len(rows)),
        torch.Generator().manual_seed(seed),
    )
    for row, n, limit in zip(found, leaves, limits, strict=True):
        assert row
        for one in row:
            assert one.finished
            assert leaves_of([SYMBOLS[id] for id in one.ids]) == n
            assert len(one.ids) < limit


def test_bracketed_keeps_the_probabilities_of_the_model() -> None:
    free, bound = random_table(V, 2, END), trees([2], [9])
    ids = torch.tensor([[1, 6, 6, 5, END]])
    lengths = torch.tensor([5])
    assert torch.equal(bound.token_log_probs(ids, lengths), free.token_log_probs(ids, lengths))


@pytest.mark.parametrize("wrong", [[6], [END], [1, 5], [1, 6, 4], [1, 6, 5], [1, 3], [1, 6, END], [1, 2, 6, 5]])
def test_bracketed_row_is_dead_after_an_invalid_id(wrong: list[int]) -> None:
    stepper = trees([2], [12])
    state = stepper.start(1)
    for id in wrong[:-1]:
        assert (stepper.log_probs(state) > -torch.inf).any()
        state = stepper.advance(state, torch.tensor([id]))
    assert stepper.log_probs(state)[0, wrong[-1]] == -torch.inf
    for id in (wrong[-1], 6, 5, END):
        state = stepper.advance(state, torch.tensor([id]))
        assert (stepper.log_probs(state) == -torch.inf).all()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: trees([2, 3], [5, 5]), ImpossibleError, "got limit 5 and 3 leaves in row 1"),
        (lambda: trees([0], [5]), ImpossibleError, "leaves at least 1"),
        (lambda: trees([1], [5], most=0), ConfigError, "most_opened must be at least 1, got 0"),
        (lambda: trees([1], [5]).start(2), ShapeError, "n must be 1, the number of rows of leaves, got 2"),
        (lambda: BracketIds((1, 2), (3,), (4,)), ConfigError, "got 2, 1 and 1 ids"),
        (lambda: BracketIds((1, 2), (3, 1), (4,)), ConfigError, "got 1 twice"),
        (
            lambda: Bracketed(random_table(4, 2, 3), BracketIds((1,), (2,), (3,)), *[torch.tensor([4])] * 2),
            ImpossibleError,
            "Raise the limit",
        ),
        (
            lambda: Bracketed(
                random_table(4, 2, 3), BracketIds((1,), (2,), (3,)), torch.tensor([1]), torch.tensor([9])
            ),
            ConfigError,
            "not the end 3, got 3",
        ),
    ],
)
def test_bracketed_invalid_arguments_raise(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()
