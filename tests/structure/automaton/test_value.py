"""The class Automaton: invalid arguments, and conversion between semirings."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import pytest
import torch

from catena.errors import FormatError, ShapeError, UnknownNameError
from catena.structure.automaton.build import from_arcs, from_string
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.wfsa import EPSILON, FAILURE, Automaton
from catena.structure.semirings import (
    BooleanSemiring,
    CountingSemiring,
    EntropySemiring,
    ExpectationSemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    RealSemiring,
    TropicalSemiring,
)


def ids(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def test_a_machine_is_frozen_and_knows_itself() -> None:
    machine = from_arcs([(0, 1, 5, 5, -1.0), (1, 1, EPSILON, 6, -2.0)], [0], [1])
    assert (machine.n_states, machine.n_arcs) == (2, 2)
    assert not machine.is_acceptor
    assert not machine.is_acyclic
    assert not machine.has_failures
    assert from_string("abc").is_acyclic
    with pytest.raises(FrozenInstanceError):
        machine.weight = machine.initial  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arcs", "words"),
    [
        ((0, 2, 1, 1), "target of arc 0 must be a state from 0 to 1, got 2"),
        ((-1, 1, 1, 1), "source of arc 0 must be a state from 0 to 1, got -1"),
        ((0, 1, -2, 1), "input of arc 0 must be a positive label.* got -2"),
        ((0, 1, 1, -3), "output of arc 0 must be a positive label.* got -3"),
        ((0, 1, FAILURE, 1), "input and output -1, got -1 and 1 for arc 0"),
        ((0, 1, 1, FAILURE), "got 1 and -1 for arc 0"),
        ((0, 0, FAILURE, FAILURE), "form a cycle"),
    ],
)
def test_invalid_arcs_raise(arcs: tuple[int, int, int, int], words: str) -> None:
    columns = [ids(x) for x in arcs]
    with pytest.raises(ShapeError, match=words):
        Automaton(columns[0], columns[1], columns[2], columns[3], torch.zeros(1), torch.zeros(2), torch.zeros(2))


def test_two_failure_arcs_of_a_state_raise() -> None:
    with pytest.raises(ShapeError, match="at most one failure arc, got several for state 0"):
        from_arcs([(0, 1, FAILURE, FAILURE, 0.0), (0, 2, FAILURE, FAILURE, 0.0)], [0], [1])


def test_weights_of_wrong_shape_raise() -> None:
    machine = from_string("abc")
    with pytest.raises(ShapeError, match=r"weight must have .* for 4 states and 3 arcs over LogSemiring"):
        machine.with_weights(torch.zeros(2), torch.zeros(4), torch.zeros(4))
    with pytest.raises(ShapeError, match=r"initial must have shape \[\.\.\., 4\]"):
        machine.with_weights(torch.zeros(2, 3), torch.zeros(4), torch.zeros(2, 4))
    with pytest.raises(ShapeError, match=r"must have shape \[2, \.\.\., 3\] .* over KBestSemiring"):
        machine.with_weights(torch.zeros(3), torch.zeros(4), torch.zeros(4), KBestSemiring(2))


def test_log_weights_are_carried_from_one_semiring_to_another() -> None:
    scores = [-1.0, -math.inf, 0.5]
    machine = from_string("abc", scores=torch.tensor(scores).double())
    for semiring in (LogSemiring(), MaxSemiring(), TropicalSemiring(), RealSemiring()):
        back = machine.over(semiring).over(LogSemiring())
        assert back.weight.tolist() == pytest.approx(scores)
        assert back.initial.tolist() == machine.initial.tolist()
    assert machine.over(TropicalSemiring()).weight.tolist() == [1.0, math.inf, -0.5]
    assert machine.over(BooleanSemiring()).weight.tolist() == [True, False, True]
    assert machine.over(BooleanSemiring()).over(LogSemiring()).weight.tolist() == [0.0, -math.inf, 0.0]
    assert machine.over(CountingSemiring()).weight.tolist() == [1.0, 0.0, 1.0]
    values = torch.tensor([1.0, 2.0, 3.0]).double()
    assert machine.over(ExpectationSemiring(), values).weight.tolist() == [scores, [1.0, 0.0, 3.0]]
    with pytest.raises(ValueError, match="values must have length 1 for ExpectationSemiring, got 0"):
        machine.over(ExpectationSemiring())
    with pytest.raises(TypeError, match="EntropySemiring has no log-weights"):
        machine.over(EntropySemiring()).over(LogSemiring())


def test_topology_is_reused() -> None:
    machine = from_string("abc")
    assert machine.detach().topology is machine.topology
    assert machine.over(MaxSemiring()).topology is machine.topology


def test_detach_removes_gradients() -> None:
    machine = from_string("ab", scores=torch.zeros(2).double().requires_grad_())
    assert machine.requires_grad
    assert not machine.detach().requires_grad


def test_symbol_table_maps_names_and_labels() -> None:
    table = SymbolTable(["the", "cat", "the"])
    assert len(table) == 3
    assert list(table) == ["<eps>", "the", "cat"]
    assert table.labels(["cat", "the"]) == [2, 1]
    assert table.names([2, 0, 1]) == ["cat", "the"]
    assert "cat" in table
    assert table == SymbolTable.of({"<eps>": 0, "the": 1, "cat": 2})
    assert hash(table) == hash(SymbolTable(["the", "cat"]))
    assert table != SymbolTable(["the"])
    with pytest.raises(UnknownNameError, match=r"'catt'.*did you mean 'cat'"):
        table.label("catt")
    with pytest.raises(UnknownNameError, match="No symbol of the table has the label 9"):
        table.name(9)
    with pytest.raises(FormatError, match="got 1 for 'a' and 'b'"):
        SymbolTable.of({"a": 1, "b": 1})
    with pytest.raises(FormatError, match="not be negative"):
        SymbolTable.of({"a": -1})
