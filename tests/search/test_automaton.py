"""Weighted automata as steppers: exact next ids, compared to tables and enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from catena.errors import ConfigError, DivergentSumError, ImpossibleError, ShapeError
from catena.search.automaton import AutomatonStepper
from catena.search.beam_search import beam
from catena.structure.automaton.build import from_arcs, from_string, from_strings
from catena.structure.automaton.ngrams import from_ngram_table
from catena.structure.automaton.wfsa import EPSILON, FAILURE, Automaton
from tests.laws.stepper_laws import StepperLaws
from tests.search.models import as_model

V, END = 4, 3


def cyclic() -> Automaton:
    """Two states, a loop, two paths for one string, an epsilon arc and a failure arc."""
    arcs = [
        (0, 0, 1, 1, math.log(0.2)),
        (0, 1, 1, 1, math.log(0.3)),
        (1, 0, 2, 2, math.log(0.1)),
        (1, 2, EPSILON, EPSILON, math.log(0.5)),
        (2, 2, 3, 3, math.log(0.4)),
        (0, 3, FAILURE, FAILURE, math.log(0.7)),
        (3, 2, 2, 2, math.log(0.6)),
    ]
    return from_arcs(arcs, {0: 0.0}, {1: math.log(0.3), 2: math.log(0.9)})


class TestAutomata(StepperLaws):
    @pytest.fixture
    def make(self) -> Callable[[], AutomatonStepper]:
        return lambda: AutomatonStepper(cyclic(), V, END)


def test_automaton_stepper_probabilities_are_proportional_to_weights() -> None:
    machine = from_strings([[1], [1, 2], [1, 2], [3, 3, 1]], [0.0, 0.5, -0.2, 1.0])
    weights = {(0,): 1.0, (0, 1): math.exp(0.5) + math.exp(-0.2), (2, 2, 0): math.exp(1.0)}
    stepper = AutomatonStepper(machine, V, END)
    found = beam(stepper, stepper.start(1), 9, 5, n_best=9)[0]
    wanted = {ids: math.log(w / sum(weights.values())) for ids, w in weights.items()}
    assert {h.ids: h.log_prob for h in found} == pytest.approx(wanted)


def test_automaton_stepper_of_ngram_table_equals_the_table() -> None:
    scores = torch.randn(V + 1, V + 1, dtype=torch.float64)
    scores[:, V] = -math.inf  # the start is never generated
    table = scores.log_softmax(dim=1)
    stepper = AutomatonStepper(from_ngram_table(table, start=V, end=END), V, END)
    for prefix, row in [((), V), ((0,), 0), ((2, 1), 1)]:
        assert as_model(stepper)(prefix) == pytest.approx(table[row, :V].exp().tolist())


def test_automaton_stepper_sums_all_paths_and_cycles() -> None:
    # One state, which reads 0 with weight 1/2 and ends with weight 1: the string 0^n has weight 2^-n.
    machine = from_arcs([(0, 0, 1, 1, math.log(0.5))], [0], [0])
    stepper = AutomatonStepper(machine, 2, 1)
    assert as_model(stepper)((0, 0)) == pytest.approx([0.5, 0.5])


def test_automaton_stepper_with_labels_drops_labels_without_an_id() -> None:
    machine = from_strings([[7], [9], [5, 7]])
    stepper = AutomatonStepper(machine, 3, 0, labels=[0, 7, 5])
    assert as_model(stepper)(()) == pytest.approx([0.0, 0.5, 0.5])


def test_automaton_stepper_without_a_distribution_raises() -> None:
    with pytest.raises(ImpossibleError, match="must accept a string of the"):
        AutomatonStepper(from_string([9]), V, END)
    with pytest.raises(DivergentSumError):
        AutomatonStepper(from_arcs([(0, 0, 1, 1, 0.1)], [0], [0]), V, END)
    with pytest.raises(ConfigError, match="end must be an id below v = 4, got 4"):
        AutomatonStepper(cyclic(), V, 4)
    single = from_string([1])
    batch = single.with_weights(single.weight.expand(2, -1), single.initial.expand(2, -1), single.final.expand(2, -1))
    with pytest.raises(ShapeError, match=r"must have no batch axes in AutomatonStepper, got \[2\]"):
        AutomatonStepper(batch, V, END)


def test_weights_of_nan_on_a_path_raise_an_error() -> None:
    nan = float("nan")
    for arcs in ([(0, 1, 1, 1, nan), (0, 1, 2, 2, -1.0)], [(0, 0, 1, 1, nan), (0, 1, 2, 2, -1.0)]):
        with pytest.raises(ValueError, match="comparable weights in AutomatonStepper, got nan"):
            AutomatonStepper(from_arcs(arcs, [0], [1]), V, END)
    unread = from_arcs([(0, 1, 2, 2, -1.0), (1, 2, 1, 1, nan), (3, 3, 1, 1, 0.7), (3, 1, 1, 1, 0.0)], [0], [1])
    stepper = AutomatonStepper(unread, V, END)
    assert stepper.log_probs(stepper.start(1)).exp().sum() == pytest.approx(1.0)


@pytest.mark.parametrize("labels", [[1, 2], [1, 1, 2, 3], [1, -1, 2, 3]])
def test_automaton_stepper_invalid_labels_raise(labels: list[int]) -> None:
    with pytest.raises(ConfigError, match="labels must be 4 different labels above 0"):
        AutomatonStepper(from_string([1]), V, END, labels)
