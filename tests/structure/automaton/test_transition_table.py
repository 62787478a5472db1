"""Transition tables: stepping through one is reading strings, and every row is what the machine says."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import ShapeError
from catena.structure.automaton.build import edit_model, from_arcs, from_string, from_strings
from catena.structure.automaton.determinization import determinize
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.ngrams import from_ngrams
from catena.structure.automaton.regex import from_regex
from catena.structure.automaton.transition_table import TransitionTable
from catena.structure.automaton.wfsa import FAILURE
from catena.structure.semirings import BooleanSemiring, TropicalSemiring
from tests.oracle.automata import Plain, log_add, paths
from tests.structure.automaton.machines import built, near, plain_machines

deterministic = plain_machines(labels=(1, 2, 3), acceptor=True, acyclic=True, most_arcs=9)


def walked(table: TransitionTable, string: tuple[int, ...]) -> float:
    """The score of a string of ids, one step at a time."""
    state, score = torch.tensor([table.begin]), table.begin_score.item()
    for i in string:
        row = table.scores_of(state)[0, i].item()
        state, step = table.follow(state, torch.tensor([i]))
        assert near(step.item(), row, 1e-12)
        score += row
    return score + table.final_of(state).item()


@settings(max_examples=60)
@given(plain=deterministic)
def test_steps_through_a_table_add_up_to_the_weight_of_the_string(plain: Plain) -> None:
    table = TransitionTable.of(determinize(built(plain)))
    expected: dict[tuple[int, ...], list[float]] = {}
    for path in paths(plain, 4):
        expected.setdefault(path.read, []).append(path.score)
    assert near(walked(table, ()), log_add(expected.get((), [])), 1e-9)
    for length in range(1, 4):
        for string in itertools.product(range(table.v), repeat=length):
            wanted = log_add(expected.get(tuple(i + 1 for i in string), []))
            assert near(walked(table, string), wanted, 1e-9)


SCORES = st.floats(-3, 0)


@settings(max_examples=40)
@given(grams=st.dictionaries(st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple), SCORES, max_size=8))
def test_failures_are_followed_as_when_they_are_made_plain(grams: dict[tuple[int, ...], float]) -> None:
    known = {(w,): -1.0 for w in (1, 2, 9)} | grams
    machine = from_ngrams(known, dict.fromkeys(grams, -0.5), start=8, end=9)
    lazy, plain = TransitionTable.of(machine), TransitionTable.of(expand_failures(machine))
    assert (lazy.fails >= 0).any() == machine.has_failures
    assert not (plain.fails >= 0).any()
    states = torch.arange(machine.n_states)
    torch.testing.assert_close(lazy.scores_of(states), plain.scores_of(states))
    torch.testing.assert_close(lazy.final_of(states), plain.final_of(states))
    for i in range(plain.v):
        ids = torch.full_like(states, i)
        for mine, other in zip(lazy.follow(states, ids), plain.follow(states, ids), strict=True):
            torch.testing.assert_close(mine, other)


def test_rows_are_sorted_slices_of_the_arcs() -> None:
    machine = from_arcs([(0, 1, 3, 3, -0.5), (0, 0, 1, 1, -1.0), (1, 0, 2, 2, -2.0)], [0], {1: -0.25})
    table = TransitionTable.of(machine)
    assert [x.tolist() for x in table.row(0)] == [[0, 2], [0, 1], [-1.0, -0.5]]
    assert [x.tolist() for x in table.row(1)] == [[1], [0], [-2.0]]
    assert table.scores_of(torch.tensor([1, -1])).tolist() == [[-math.inf, -2.0, -math.inf], [-math.inf] * 3]
    assert table.final_of(torch.tensor([0, 1, -1])).tolist() == [-math.inf, -0.25, -math.inf]
    assert [x.tolist() for x in table.follow(torch.tensor([0, 1, -1]), torch.tensor([2, 2, 0]))] == [
        [1, -1, -1],
        [-0.5, -math.inf, -math.inf],
    ]


def test_table_maps_ids_to_labels_and_omits_other_arcs() -> None:
    table = TransitionTable.of(from_regex("[abc]*c", semiring=BooleanSemiring()), labels=[ord("c"), ord("a")])
    assert table.v == 2
    assert walked(table, (1, 1, 0)) == 0.0
    assert walked(table, (0, 1)) == -math.inf
    assert len(table.ids) == 4
    costs = TransitionTable.of(from_string([1], scores=torch.tensor([-2.0]), semiring=TropicalSemiring()))
    assert costs.scores.tolist() == [-2.0]


def test_a_label_known_by_an_arc_that_cannot_be_taken_does_not_fail() -> None:
    arcs = [(0, 1, 1, 1, -math.inf), (0, 1, FAILURE, FAILURE, 0.0), (1, 1, 1, 1, 0.0), (1, 1, 2, 2, -1.0)]
    table = TransitionTable.of(from_arcs(arcs, [0], [1]))
    assert table.scores_of(torch.tensor([0])).tolist() == [[-math.inf, -1.0]]


def test_gradients_reach_the_weights() -> None:
    machine = from_ngrams({(1,): -1.0, (9,): -1.0, (1, 1): -0.5}, {(1,): -0.25}, start=8, end=9)
    weight = machine.weight.clone().requires_grad_()

    def score(weight):
        table = TransitionTable.of(machine.with_weights(weight, machine.initial, machine.final))
        return table.scores_of(torch.tensor([0, 1])).sum() + table.follow(torch.tensor([1]), torch.tensor([0]))[1]

    assert torch.autograd.gradcheck(score, (weight,))


def test_a_machine_without_arcs_has_an_empty_table() -> None:
    table = TransitionTable.of(from_arcs([], [0], [0]), labels=[1, 2])
    assert table.scores_of(torch.tensor([0])).tolist() == [[-math.inf] * 2]
    assert table.follow(torch.tensor([0]), torch.tensor([1]))[0].tolist() == [-1]
    assert walked(table, ()) == 0.0
    nothing = TransitionTable.of(from_arcs([], [], [], n_states=1), labels=[1])
    assert nothing.begin == -1
    assert walked(nothing, ()) == -math.inf


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (edit_model("ab"), "must be an acceptor.*project"),
        (from_strings(["a", "ab"]), "must be deterministic.*determinize"),
        (from_arcs([(0, 1, 1, 1, 0.0), (0, 0, 1, 1, 0.0)], [0], [1]), "several arcs with one label"),
        (from_arcs([], [0, 1], [1]), "several initial states"),
        (from_string("ab").mapped(lambda x: x[None]), r"no batch axes in a table, got \[1\]"),
    ],
)
def test_table_of_nondeterministic_automaton_raises(machine, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        TransitionTable.of(machine)
