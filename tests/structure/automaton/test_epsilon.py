"""Epsilon removal: nothing silent is left, and every string keeps its weight."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import DivergentSumError
from catena.structure.automaton.build import from_arcs, from_string
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import total
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.rational import closure
from catena.structure.semirings import ExpectationSemiring, KBestSemiring, LogSemiring, MaxSemiring, RealSemiring
from tests.oracle.automata import Plain, log_add, matrix, paths, powers_vanish, table
from tests.structure.automaton.machines import built, listed, near, plain_machines, same_tables

LIGHT = st.one_of(st.floats(-4, -0.7), st.just(-math.inf), st.sampled_from([-1.0, -2.0]))


@settings(max_examples=60)
@given(plain=plain_machines(acyclic=True, labels=(0, 0, 1, 2), most_arcs=8))
def test_remove_epsilon_keeps_weights_of_strings(plain: Plain) -> None:
    machine = remove_epsilon(built(plain))
    assert not ((machine.input == 0) & (machine.output == 0)).any()
    assert same_tables(table(paths(listed(machine), 4), log_add), table(paths(plain, 4), log_add))
    best = remove_epsilon(built(plain, MaxSemiring()))
    assert same_tables(table(paths(listed(best), 4), max), table(paths(plain, 4), max))


@settings(max_examples=30)
@given(plain=plain_machines(scores=LIGHT, labels=(0, 0, 1, 2), most_arcs=8))
def test_cycles_of_epsilons_are_summed_exactly(plain: Plain) -> None:
    assume(powers_vanish(matrix(plain)))
    machine, given_one = remove_epsilon(built(plain)), built(plain)
    assert not ((machine.input == 0) & (machine.output == 0)).any()
    assert near(total(machine).item(), total(given_one).item())
    for x in ([], [1], [1, 2]):
        for y in ([], [2], [2, 1]):
            weight = [total(compose(compose(from_string(x), m), from_string(y))).item() for m in (machine, given_one)]
            assert near(*weight)


def test_remove_epsilon_of_divergent_cycle_raises() -> None:
    arcs = [(0, 1, 0, 0, math.log(0.5)), (1, 0, 0, 0, math.log(2.0)), (1, 2, 1, 1, 0.0)]
    with pytest.raises(DivergentSumError):
        remove_epsilon(from_arcs(arcs, [0], [2]))
    arcs[1] = (1, 0, 0, 0, 0.0)
    assert near(total(remove_epsilon(from_arcs(arcs, [0], [2]))).item(), math.log(0.5) + math.log(2))


def test_parallel_arcs_become_one_and_silent_states_go() -> None:
    arcs = [(0, 1, 0, 0, -1.0), (0, 2, 0, 0, -2.0), (1, 3, 5, 5, 0.0), (2, 3, 5, 5, 0.0)]
    machine = remove_epsilon(from_arcs(arcs, [0], [3]))
    assert (machine.n_states, machine.n_arcs) == (2, 1)
    assert near(machine.weight.item(), log_add([-1.0, -2.0]))


def test_half_silent_arcs_are_kept() -> None:
    machine = from_arcs([(0, 1, 0, 5, -1.0), (1, 2, 5, 0, -1.0)], [0], [2])
    assert remove_epsilon(machine) is machine


def test_it_is_differentiable() -> None:
    star = closure(from_arcs([(0, 1, 1, 1, -1.0), (1, 2, 0, 0, -1.0), (2, 1, 0, 0, -0.5)], [0], {2: -0.3, 0: -1.5}))

    def function(weight):
        return total(compose(from_string([1, 1]), remove_epsilon(star.with_weights(weight, star.initial, star.final))))

    inputs = (star.weight.clone().requires_grad_(),)
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_any_semiring() -> None:
    star = closure(from_arcs([(0, 1, 1, 1, -1.0), (1, 2, 0, 0, -1.0)], [0], {2: -0.3, 0: -1.5}))
    for semiring in (RealSemiring(), KBestSemiring(3)):
        machine = star.over(semiring)
        x = from_string([1, 1], semiring=semiring)
        expected, found = total(compose(x, machine)), total(compose(x, remove_epsilon(machine)))
        assert torch.allclose(found, expected)
    counted = star.over(ExpectationSemiring(), torch.ones(star.n_arcs).double())
    x = from_string([1, 1]).over(ExpectationSemiring(), torch.zeros(2).double())
    assert torch.allclose(total(compose(x, remove_epsilon(counted))), total(compose(x, counted)))
    assert isinstance(star.semiring, LogSemiring)
