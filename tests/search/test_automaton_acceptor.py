"""Automata as acceptors, compared to the semantics of strings: epsilons, failures, sets of states, distances."""

from __future__ import annotations

import math
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import ConfigError, ImpossibleError
from catena.search.acceptor import UNREACHABLE, Acceptor, Intersection
from catena.search.automaton_acceptor import AutomatonAcceptor
from catena.search.phrases import with_phrase, without_phrases
from catena.structure.automaton.build import from_arcs, from_string
from catena.structure.automaton.regex import from_regex
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.wfsa import EPSILON, FAILURE
from tests.oracle.search import reads, strings

V, MOST = 3, 4


Arcs = list[tuple[int, int, int, float]]


@st.composite
def machines(draw: st.DrawFn) -> tuple[Arcs, set[int], set[int], int]:
    """Small automata with epsilons, failures, arcs of weight zero, and several arcs with one label."""
    n = draw(st.integers(1, 4))
    state, score = st.integers(0, n - 1), st.sampled_from([0.0, -1.0, -math.inf])
    labeled = draw(st.lists(st.tuples(state, state, st.integers(1, V + 1), score), max_size=8))
    # Failures lead down, so that they form no cycle, and epsilons leave only states that nothing fails to.
    failing = draw(st.dictionaries(st.integers(1, 3), st.integers(0, 2), max_size=2))
    failures = {q: r for q, r in failing.items() if r < q < n}
    silent = [(q, r) for q, r in draw(st.lists(st.tuples(state, state), max_size=2)) if q not in failures.values()]
    arcs = [
        *labeled,
        *((q, r, EPSILON, -0.5) for q, r in silent),
        *((q, r, FAILURE, 0.0) for q, r in failures.items()),
    ]
    return arcs, draw(st.sets(state, min_size=1)), draw(st.sets(state, min_size=1)), n


@settings(max_examples=80)
@given(machines())
def test_automaton_acceptor_accepts_the_strings_of_the_automaton(given: tuple[Arcs, set[int], set[int], int]) -> None:
    arcs, initial, final, n = given
    machine = from_arcs([(q, r, label, label, score) for q, r, label, score in arcs], initial, final, n_states=n)
    everything = list(strings(V, -1, MOST))
    read = [ids for ids in everything if reads(arcs, initial, final, [id + 1 for id in ids])]
    try:
        acceptor = AutomatonAcceptor(machine, V)
    except ImpossibleError:
        assert read == []
        return
    assert [ids for ids in everything if acceptor.accepts(ids)] == read
    check_distances(acceptor, read)


def check_distances(acceptor: Acceptor, read: list[tuple[int, ...]]) -> None:
    """After every prefix, ``needed`` is the length of the shortest completion."""
    for prefix in strings(V, -1, MOST - 2):
        place, alive = acceptor.start(), True
        for id in prefix:
            alive = alive and acceptor.options(place).needed[id] < UNREACHABLE
            place = acceptor.step(place, id) if alive else place
        if not alive:
            continue
        options = acceptor.options(place)
        assert options.accepts == (prefix in read)
        for id in range(V):
            begun = (*prefix, id)
            rests = [len(ids) - len(begun) for ids in read if ids[: len(begun)] == begun]
            needed = int(options.needed[id])
            if rests:
                assert needed == min(rests)
            else:
                assert needed > MOST - len(begun)


@pytest.mark.parametrize(
    "phrases",
    [
        [[0]],
        [[0, 1]],
        [[0, 0]],
        [[0, 1, 0], [1, 0]],
        [[2], [0, 1]],
        [[0, 1], [1, 1, 2]],
        [[0, 1, 2], [1]],
        [[0, 1, 0, 2], [1, 0]],
    ],
)
def test_without_phrases_accepts_strings_without_them(phrases: list[list[int]]) -> None:
    acceptor = AutomatonAcceptor(without_phrases(phrases, V), V)
    wanted = [ids for ids in strings(V, -1, MOST) if not any(occurs(phrase, ids) for phrase in phrases)]
    assert [ids for ids in strings(V, -1, MOST) if acceptor.accepts(ids)] == wanted
    check_distances(acceptor, wanted)


@pytest.mark.parametrize("phrase", [[0], [0, 1], [0, 0], [0, 1, 0], [0, 0, 1]])
def test_with_phrase_accepts_strings_with_it(phrase: list[int]) -> None:
    acceptor = AutomatonAcceptor(with_phrase(phrase, V), V)
    wanted = [ids for ids in strings(V, -1, MOST) if occurs(phrase, ids)]
    assert [ids for ids in strings(V, -1, MOST) if acceptor.accepts(ids)] == wanted
    # Above MOST the shortest completion is not listed: all are short enough to be seen at the beginning.
    assert acceptor.options(acceptor.start()).shortest == len(phrase)


def occurs(phrase: list[int], ids: tuple[int, ...]) -> bool:
    return any(list(ids[i : i + len(phrase)]) == phrase for i in range(len(ids) - len(phrase) + 1))


def test_intersection_of_required_and_excluded_phrases() -> None:
    forced = Intersection([AutomatonAcceptor(with_phrase(p, V), V) for p in ([0, 1], [2])], in_turn=True)
    both = Intersection([forced, AutomatonAcceptor(without_phrases([[1, 2]], V), V)])
    wanted = [
        ids for ids in strings(V, -1, MOST) if occurs([0, 1], ids) and occurs([2], ids) and not occurs([1, 2], ids)
    ]
    assert [ids for ids in strings(V, -1, MOST) if both.accepts(ids)] == wanted
    assert wanted
    assert forced.options(forced.start()).shortest == 3
    assert Intersection(forced.acceptors).options(forced.start()).shortest == 2


PHRASES = [
    ([0, 1], [1, 2]),
    ([0, 1, 0], [1, 0]),
    ([2, 0, 1], [0, 2]),
    ([0], [1], [0, 0, 1]),
    ([1, 1], [1, 1, 2], [2, 1]),
]


@pytest.mark.parametrize("phrases", PHRASES)
def test_intersection_in_turn_needs_the_length_of_the_shortest_string(phrases: tuple[list[int], ...]) -> None:
    forced = Intersection([AutomatonAcceptor(with_phrase(p, V), V) for p in phrases], in_turn=True)
    held = [ids for ids in strings(V, -1, 8) if all(occurs(p, ids) for p in phrases)]
    assert held
    for before in strings(V, -1, 2):
        place = reduce(forced.step, before, forced.start())
        ways = [ids[len(before) :] for ids in held if ids[: len(before)] == before]
        options = forced.options(place)
        assert options.accepts == (() in ways)
        assert options.shortest == min(map(len, ways))
        after = [min(len(way) - 1 for way in ways if way[:1] == (id,)) for id in range(V)]
        assert options.needed.tolist() == after


def test_automaton_acceptor_of_a_regular_expression() -> None:
    tokens = ["a", "b", "c"]
    acceptor = AutomatonAcceptor(from_regex("a(b|c)*a", symbols=SymbolTable(tokens)), V)
    wanted = [ids for ids in strings(V, -1, MOST) if len(ids) > 1 and ids[0] == ids[-1] == 0 and 0 not in ids[1:-1]]
    assert [ids for ids in strings(V, -1, MOST) if acceptor.accepts(ids)] == wanted


def test_automaton_acceptor_with_labels() -> None:
    machine = from_string([7, 5])
    acceptor = AutomatonAcceptor(machine, V, labels=[5, 0, 7])
    assert [ids for ids in strings(V, -1, MOST) if acceptor.accepts(ids)] == [(2, 0)]


@pytest.mark.parametrize("labels", [[1, 2], [1, 1, 2], [1, -1, 2]])
def test_automaton_acceptor_invalid_labels_raise(labels: list[int]) -> None:
    with pytest.raises(ConfigError, match="labels must be 3 different labels"):
        AutomatonAcceptor(from_string([1]), V, labels=labels)


def test_automaton_acceptor_of_empty_language_raises() -> None:
    with pytest.raises(ImpossibleError, match="must accept a string of the 3 ids"):
        AutomatonAcceptor(from_string([9]), V)


def test_invalid_phrases_and_intersections_raise() -> None:
    with pytest.raises(ConfigError, match="one or more ids from 0 to 2, got \\[\\]"):
        without_phrases([[]], V)
    with pytest.raises(ConfigError, match="got \\[3\\]"):
        with_phrase([3], V)
    with pytest.raises(ConfigError, match="over one vocabulary, got the sizes \\[2, 3\\]"):
        Intersection([AutomatonAcceptor(with_phrase([0], n), n) for n in (3, 2)])
