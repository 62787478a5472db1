"""Constrained steppers: the stepper laws, and the best of the set compared to enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import ConfigError, ImpossibleError
from catena.search.acceptor import Acceptor, Intersection
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.beam_search import beam
from catena.search.constrained import Constrained
from catena.search.greedy_search import greedy
from catena.search.phrases import with_phrase, without_phrases
from catena.search.ranking import stop_at_max_length
from catena.search.sampling import sample
from catena.structure.automaton.build import from_string, from_strings
from catena.structure.automaton.regex import from_regex
from catena.structure.automaton.symbols import SymbolTable
from tests.laws.stepper_laws import StepperLaws
from tests.oracle.search import all_sequences
from tests.search.models import as_model, random_table

V, END = 4, 3


def acceptor(name: str) -> Acceptor:
    symbols = SymbolTable(["a", "b", "c"])
    machines = {
        "forced": with_phrase([0, 1], V),
        "forbidden": without_phrases([[0, 1], [2, 2]], V),
        "pattern": from_regex("(a|bc)*c?", symbols=symbols),
        "list": from_strings(["ab", "abc", "cc"], symbols=symbols),
    }
    return AutomatonAcceptor(machines[name], V)


class TestConstrained(StepperLaws):
    normalized = False

    @pytest.fixture(params=["forced", "forbidden", "pattern", "list"])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Constrained]:
        return lambda: Constrained(random_table(V, 2, END), acceptor(request.param))


class TestConstrainedInTime(StepperLaws):
    normalized = False

    @pytest.fixture
    def make(self) -> Callable[[], Constrained]:
        return lambda: Constrained(random_table(V, 2, END), acceptor("forced"), max_length=4)


@settings(max_examples=30)
@given(st.sampled_from(["forced", "forbidden", "pattern", "list"]), st.integers(0, 30), st.integers(3, 5))
def test_constrained_beam_finds_the_best_of_the_set(name: str, seed: int, max_length: int) -> None:
    table, allowed = random_table(V, 2, END, seed), acceptor(name)
    everything = all_sequences(as_model(table), END, max_length)
    wanted = {ids: log_prob for (ids, done), log_prob in everything.items() if done and allowed.accepts(ids)}
    assert wanted
    constrained = Constrained(table, allowed, max_length)
    found = beam(constrained, constrained.start(1), 400, max_length, n_best=400)[0]
    assert all(h.finished for h in found)  # prefixes that cannot end in time are impossible
    assert {h.ids: h.log_prob for h in found} == pytest.approx(wanted)
    free = Constrained(table, allowed)
    found = beam(free, free.start(1), 400, max_length, n_best=400, stop=stop_at_max_length)[0]
    assert {h.ids: h.log_prob for h in found if h.finished} == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["forced", "forbidden", "pattern", "list"])
def test_constrained_narrow_searches_end_in_the_set(name: str) -> None:
    allowed = acceptor(name)
    for seed in range(15):
        constrained = Constrained(random_table(V, 2, END, seed), allowed, max_length=4)
        generator = torch.Generator().manual_seed(seed)
        state = constrained.start(2)
        for found in (
            beam(constrained, state, 2, 4),
            greedy(constrained, state, 4),
            sample(constrained, state, generator, 4, n=3),
        ):
            assert all(found)
            for h in (h for row in found for h in row):
                assert h.finished
                assert allowed.accepts(h.ids)


def test_constrained_required_phrases_fit_into_max_length() -> None:
    forced = Intersection([AutomatonAcceptor(with_phrase(p, V), V) for p in ([0, 1], [2, 1], [1, 1])], in_turn=True)
    for seed in range(10):
        constrained = Constrained(random_table(V, 2, END, seed), forced, max_length=7)
        (h,) = beam(constrained, constrained.start(1), 1, 7)[0]
        assert h.finished
        assert forced.accepts(h.ids)


def test_constraint_begins_after_the_prompt() -> None:
    table = random_table(V, 2, END)
    constrained = Constrained(table, acceptor("list"), max_length=4)
    prompt = table.extend(table.start(2), torch.tensor([[2, 2], [1, 0]]), torch.tensor([2, 1]))
    found = beam(constrained, constrained.after(prompt, 2), 9, 4, n_best=3)
    assert [{h.ids for h in row} for row in found] == [{(0, 1), (0, 1, 2), (2, 2)}] * 2
    for row, first in enumerate(([2, 2], [1])):
        for h in found[row]:
            ids = torch.tensor([[*first, *h.ids, END]])
            log_probs = table.token_log_probs(ids, torch.tensor([ids.shape[1]]))[0]
            assert h.log_prob == pytest.approx(log_probs[len(first) :].sum().item())


def test_constrained_computes_acceptor_states_lazily() -> None:
    class Endless(Acceptor):
        """Counts ids of kind 0, with a state for each count: no list could hold them."""

        v, seen = V, 0

        def start(self) -> int:
            return 0

        def options(self, place: int):  # type: ignore[no-untyped-def,override]
            self.seen += 1
            return acceptor("forbidden").options(acceptor("forbidden").start())

        def step(self, place: int, id: int) -> int:  # type: ignore[override]
            return place + (id == 0)

    endless = Endless()
    constrained = Constrained(random_table(V, 2, END), endless)
    greedy(constrained, constrained.start(1), 5)
    assert endless.seen <= 8


def test_constrained_impossible_constraints_raise() -> None:
    table = random_table(V, 2, END)
    with pytest.raises(ImpossibleError, match="max_length must be at least 4 for the constraint, got 3"):
        Constrained(table, AutomatonAcceptor(from_string([1, 2, 3]), V), max_length=3)
    with pytest.raises(ConfigError, match="must have the v = 4 ids of its stepper, got 3"):
        Constrained(table, AutomatonAcceptor(from_string([1]), 3))
    clash = Intersection([AutomatonAcceptor(from_string([1]), V), AutomatonAcceptor(from_string([2]), V)])
    with pytest.raises(ImpossibleError, match="does not accept any sequence"):
        Constrained(table, clash)


def test_constrained_does_not_renormalize_probabilities() -> None:
    table = random_table(V, 2, END)
    constrained = Constrained(table, acceptor("list"))
    free, bound = (s.log_probs(s.start(1))[0] for s in (table, constrained))
    assert bound[[1, 3]].tolist() == [-math.inf, -math.inf]
    assert torch.equal(bound[[0, 2]], free[[0, 2]])
