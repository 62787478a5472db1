"""Diverse beams compared to a reference implementation of groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError
from catena.search.beam_search import beam
from catena.search.diverse import diverse_beam
from catena.search.ranking import average_length_penalty, stop_at_max_length, stop_when_optimal
from tests.oracle.search import diverse_by_hand
from tests.search.models import as_model, random_table


@given(
    st.integers(0, 99), st.integers(1, 5), st.sampled_from([(1, 3), (2, 2), (4, 2), (6, 3), (3, 1)]), st.integers(0, 4)
)
def test_diverse_beam_equals_reference_groups(seed: int, v: int, sizes: tuple[int, int], max_length: int) -> None:
    width, groups = sizes if sizes[0] >= sizes[1] else (3, 3)
    table = random_table(v, 2, seed=seed)
    lists = diverse_by_hand(as_model(table), table.end, width, groups, 0.9, max_length)
    found = diverse_beam(table, table.start(1), width, groups, max_length, 0.9, n_best=width)[0]
    finished = [(h.ids, round(h.log_prob, 9)) for h in found if h.finished]
    assert [log_prob for _, log_prob in finished] == [round(x, 9) for _, x in taking_turns(lists, width)]
    by_hand = {ids: round(x, 9) for group in lists for ids, x in group}
    assert all(by_hand[ids] == log_prob for ids, log_prob in finished)


Listed = list[tuple[tuple[int, ...], float]]


def taking_turns(lists: list[Listed], n: int) -> Listed:
    """The best of each list that is not taken yet, sorted, and repeated until there are ``n``."""
    taken: Listed = []
    left = [sorted(each, key=lambda pair: -pair[1]) for each in lists]
    while any(left):
        turn: Listed = []
        for each in left:
            while each and each[0] in taken + turn:
                each.pop(0)
            turn += [each.pop(0)] if each else []
        taken += sorted(turn, key=lambda pair: -pair[1])
    return taken[:n]


def test_diverse_beam_returns_a_hypothesis_of_two_groups_once() -> None:
    for seed in range(80):
        table = random_table(3, 2, seed=seed)
        lists = diverse_by_hand(as_model(table), table.end, 4, 2, 0.2, 5)
        found = diverse_beam(table, table.start(1), 4, 2, 5, 0.2, n_best=4)[0]
        finished = [h.log_prob for h in found if h.finished]
        assert finished == pytest.approx([x for _, x in taking_turns(lists, 4)])


def test_diverse_beam_returns_the_best_of_each_group_first() -> None:
    for seed in range(30):
        table = random_table(6, 2, end=5, seed=seed)
        lists = diverse_by_hand(as_model(table), 5, 4, 4, 100.0, 6)
        found = diverse_beam(table, table.start(1), 4, 4, 6, strength=100.0, n_best=4)[0]
        own = [max(each, key=lambda pair: pair[1]) for each in lists if each]
        assert {h.ids for h in found} >= {ids for ids, _ in own}
        assert not own or found[0].log_prob == pytest.approx(max(log_prob for _, log_prob in own))
        assert found[0] == diverse_beam(table, table.start(1), 4, 4, 6, strength=100.0)[0][0]


def test_diverse_beam_returns_unfinished_hypotheses_last() -> None:
    for seed in range(20):
        table = random_table(5, 2, seed=seed)
        found = diverse_beam(table, table.start(1), 4, 4, 2, strength=9.0, n_best=4)[0]
        assert len(found) == 4
        for h, after in pairwise(found):
            assert h.finished or not after.finished


def test_diverse_beam_of_one_group_equals_beam() -> None:
    for seed in range(10):
        table = random_table(4, 2, seed=seed)
        found = diverse_beam(table, table.start(2), 3, 1, 5, n_best=3)
        assert found == beam(table, table.start(2), 3, 5, n_best=3, stop=stop_at_max_length)


def test_diverse_beam_strong_penalty_gives_different_first_ids() -> None:
    table = random_table(6, 2, end=5, seed=4)
    found = diverse_beam(table, table.start(1), 3, 3, 1, strength=50.0, n_best=3)[0]
    assert len({h.ids[:1] for h in found if not h.finished}) == len([h for h in found if not h.finished])
    same = diverse_beam(table, table.start(1), 3, 3, 1, strength=0.0, n_best=3)[0]
    assert len([h for h in same if not h.finished]) == 1  # all groups find the same hypothesis, returned once


@pytest.mark.parametrize("n_best", [1, 2, 4])
def test_diverse_beam_stop_when_optimal_does_not_change_the_result(n_best: int) -> None:
    for seed in range(60):
        table = random_table(5, 2, seed=seed)
        late, soon = (
            diverse_beam(
                table, table.start(1), 4, 2, 6, 3.0, n_best=n_best, length_penalty=average_length_penalty, stop=stop
            )
            for stop in (stop_at_max_length, stop_when_optimal)
        )
        assert soon == late


def test_diverse_beam_keeps_single_hypotheses_until_their_row_is_done() -> None:
    for seed in range(20):
        table = random_table(3, 2, seed=seed)
        single, whole = (
            diverse_beam(table, table.start(1), 4, 2, 4, 1.0, n_best=2, stop=stop)
            for stop in (stop_when_optimal, lambda progress: stop_when_optimal(progress).all(dim=1, keepdim=True))
        )
        assert single == whole, "a replacement may be more probable, if no other group has chosen it"


def test_diverse_beam_rows_do_not_depend_on_the_batch() -> None:
    table = random_table(5, 3, seed=2)
    state = table.extend(table.start(3), torch.tensor([[1, 2], [3, 0], [4, 4]]), torch.tensor([2, 1, 0]))
    together = diverse_beam(table, state, 4, 2, 5, n_best=4)
    for row in (2, 0, 1):
        assert diverse_beam(table, table.select(state, torch.tensor([row])), 4, 2, 5, n_best=4) == [together[row]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam_size": 4, "groups": 3}, "beam_size must be a positive multiple of groups = 3, got 4"),
        ({"beam_size": 4, "groups": 0}, "multiple of groups"),
        ({"beam_size": 2, "groups": 2, "n_best": 3}, "n_best must be from 1 to beam_size = 2, got 3"),
    ],
)
def test_diverse_beam_invalid_options_raise(options: dict[str, Any], words: str) -> None:
    table = random_table(3)
    with pytest.raises(ConfigError, match=words):
        diverse_beam(table, table.start(1), max_length=3, **options)
