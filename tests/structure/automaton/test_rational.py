"""Union, concatenation, closure and their like: the weight of every string is what the name says."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings

from catena.errors import DivergentSumError
from catena.structure.automaton.build import edit_model, from_arcs, from_string, from_strings
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import total
from catena.structure.automaton.rational import (
    closure,
    concatenate,
    connect,
    invert,
    project,
    reverse,
    single_start_state,
    union,
)
from catena.structure.semirings import LogSemiring, MaxSemiring
from tests.oracle.automata import Plain, log_add, matrix, paths, powers_vanish, table
from tests.structure.automaton.machines import built, listed, near, plain_machines, same_tables

acyclic = plain_machines(most_states=3, most_arcs=5, acyclic=True)
LONGEST = 14


def weights(machine) -> dict:
    return table(paths(listed(machine), LONGEST), log_add)


def in_oracle(plain: Plain) -> dict:
    return table(paths(plain, LONGEST), log_add)


def combined(tables: list[dict]) -> dict:
    keys = set().union(*tables)
    return {k: log_add([t[k] for t in tables if k in t]) for k in keys}


@settings(max_examples=40)
@given(a=acyclic, b=acyclic)
def test_union_adds_weights_and_commutes(a: Plain, b: Plain) -> None:
    expected = combined([in_oracle(a), in_oracle(b)])
    assert same_tables(weights(union(built(a), built(b))), expected)
    assert same_tables(weights(union(built(b), built(a))), expected)
    assert near(total(union(built(a), built(b))).item(), log_add([total(built(m)).item() for m in (a, b)]))


@settings(max_examples=40)
@given(a=acyclic, b=acyclic)
def test_concatenation_sums_over_all_cuts(a: Plain, b: Plain) -> None:
    lists: dict = {}
    for (x, u), v in in_oracle(a).items():
        for (y, w), z in in_oracle(b).items():
            lists.setdefault((x + y, u + w), []).append(v + z)
    assert same_tables(weights(concatenate(built(a), built(b))), {k: log_add(v) for k, v in lists.items()})


@settings(max_examples=25)
@given(a=plain_machines(most_states=3, most_arcs=4, acyclic=True, labels=(1, 2)))
def test_closure_sums_over_all_numbers_of_pieces(a: Plain) -> None:
    """Up to two symbols, without the empty string, whose repetitions would never end."""
    assume(in_oracle(a).get(((), ()), -math.inf) == -math.inf)
    one = {k: v for k, v in in_oracle(a).items() if len(k[0]) <= 2}
    two: dict = {}
    for ((x, u), v), ((y, w), z) in itertools.product(one.items(), one.items()):
        if len(x + y) <= 2:
            two.setdefault((x + y, u + w), []).append(v + z)
    expected = combined([one, {k: log_add(v) for k, v in two.items()}])
    for at_least_one in (True, False):
        machine = closure(built(a), at_least_one)
        for (x, u), weight in expected.items():
            found = compose(compose(from_string(x), machine), from_string(u))
            assert near(total(found).item(), weight)
        empty = total(compose(from_string(""), machine)).item()
        assert near(empty, -math.inf if at_least_one else 0.0)


def test_closure_of_empty_string_is_exact_or_diverges() -> None:
    maybe = from_arcs([(0, 1, 1, 1, -1.0)], [0], {0: math.log(0.5), 1: 0.0})
    star = closure(maybe)
    assert near(total(compose(from_string(""), star)).item(), math.log(2))
    # The one symbol with any number of empty pieces before and after it.
    assert near(total(compose(from_string([1]), star)).item(), -1.0 + 2 * math.log(2))
    with pytest.raises(DivergentSumError):
        total(compose(from_string([1]), closure(from_arcs([(0, 1, 1, 1, 0.0)], [0], [0, 1]))))


@settings(max_examples=40)
@given(a=acyclic)
def test_reverse_invert_and_project_keep_weights(a: Plain) -> None:
    machine, expected = built(a), in_oracle(a)
    assert same_tables(weights(reverse(machine)), {(x[::-1], y[::-1]): w for (x, y), w in expected.items()})
    assert same_tables(weights(reverse(reverse(machine))), expected)
    assert same_tables(weights(invert(machine)), {(y, x): w for (x, y), w in expected.items()})
    for side, place in (("input", 0), ("output", 1)):
        merged = combined([{(k[place], k[place]): v} for k, v in expected.items()])
        assert same_tables(weights(project(machine, side)), merged)
        assert project(machine, side).is_acceptor


@settings(max_examples=40)
@given(a=plain_machines())
def test_trimming_keeps_weights_and_nothing_useless(a: Plain) -> None:
    machine = connect(built(a))
    assert same_tables(table(paths(listed(machine), 4), log_add), table(paths(a, 4), log_add))
    found = listed(machine)
    n = len(found.final)
    near_paths = list(paths(found, n * 2))
    assert {arc for path in near_paths for arc in path.arcs} == set(range(len(found.arcs)))
    assert all(w > -math.inf for *_, w in found.arcs)


@settings(max_examples=40)
@given(a=plain_machines(most_states=3, most_arcs=5))
def test_single_start_state_keeps_weights(a: Plain) -> None:
    machine = single_start_state(built(a))
    longer = machine.n_states - len(a.final)
    assert same_tables(table(paths(listed(machine), 3 + longer), log_add), table(paths(a, 3), log_add))
    assert machine.initial.tolist() == [0.0] + [-math.inf] * (machine.n_states - 1)


def test_single_start_state_returns_same_automaton() -> None:
    machine = from_string("ab")
    assert single_start_state(machine) is machine


def test_gradients_flow_through_all_of_them() -> None:
    machine = from_arcs([(0, 1, 1, 1, -1.0), (1, 0, 2, 2, -2.0), (0, 0, 1, 2, -1.5)], {0: -0.1}, {1: -0.2, 0: -1.7})

    def function(*x):
        a = machine.with_weights(*x)
        b = concatenate(closure(a, at_least_one=True), union(a, reverse(a)))
        return total(connect(invert(b)))

    inputs = (machine.weight, machine.initial.clamp_min(-9), machine.final)
    assert torch.autograd.gradcheck(function, tuple(x.clone().requires_grad_() for x in inputs))


def test_machines_must_be_over_one_semiring() -> None:
    for join in (union, concatenate):
        with pytest.raises(TypeError, match="over LogSemiring, got MaxSemiring"):
            join(from_string("a"), from_string("a", semiring=MaxSemiring()))


def test_projection_names_its_side() -> None:
    with pytest.raises(ValueError, match="'input' or 'output'"):
        project(edit_model("ab"), "both")


def test_union_of_many() -> None:
    words = ["a", "ab", "b"]
    machine = union(*(from_string(w) for w in words))
    assert same_tables(weights(machine), weights(from_strings(words)))
    assert isinstance(machine.semiring, LogSemiring)
    assert powers_vanish(matrix(listed(machine)))
