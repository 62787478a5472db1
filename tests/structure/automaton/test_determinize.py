"""Determinize, minimize, push, equivalence: every string keeps its weight, and what the name promises holds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import LimitError
from catena.structure.automaton.build import edit_model, from_arcs, from_string, from_strings
from catena.structure.automaton.composition import compose
from catena.structure.automaton.determinization import determinize, is_deterministic
from catena.structure.automaton.distance import total
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.equivalence import equivalent
from catena.structure.automaton.minimization import minimize
from catena.structure.automaton.pushing import normalize, push
from catena.structure.automaton.rational import closure, union
from catena.structure.backend import use_backend
from catena.structure.semirings import (
    BooleanSemiring,
    EntropySemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    RealSemiring,
    TropicalSemiring,
)
from tests.oracle.automata import Plain, log_add, matrix, paths, powers_vanish, table
from tests.structure.automaton.machines import built, listed, near, plain_machines, same_tables

acceptors = plain_machines(acyclic=True, acceptor=True, labels=(1, 2), most_arcs=8)
transducers = plain_machines(acyclic=True, labels=(0, 1, 2))
LIGHT = st.one_of(st.floats(-4, -1.0), st.sampled_from([-1.0, -2.0]))


def plus_of(semiring):
    return log_add if isinstance(semiring, LogSemiring) and not isinstance(semiring, MaxSemiring) else max


def pairs(machine) -> dict:
    """Weights of sequences of label pairs, by which transducers are compared."""
    plain = listed(machine)
    lists: dict = {}
    for path in paths(plain, 8):
        spelled = tuple(plain.arcs[i][2:4] for i in path.arcs if plain.arcs[i][2:4] != (0, 0))
        lists.setdefault(spelled, []).append(path.score)
    return {k: plus_of(machine.semiring)(v) for k, v in lists.items()}


# --- determinize --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "semiring",
    [LogSemiring(), MaxSemiring(), TropicalSemiring(), RealSemiring(), BooleanSemiring()],
    ids=lambda s: type(s).__name__,
)
@settings(max_examples=60)
@given(plain=plain_machines(labels=(1, 2, 3), most_arcs=10, scores=st.sampled_from([-0.5, -1.0, -2.0])))
def test_determinize_kernel_equals_reference(semiring, plain: Plain) -> None:
    machine = built(plain, semiring)
    answers = []
    for backend in ("auto", "reference"):
        with use_backend(backend):
            try:
                answers.append(listed(determinize(machine, limit=30)))
            except LimitError:
                answers.append(None)
    ours, plainly = answers
    assert (ours is None) == (plainly is None)
    if ours is not None and plainly is not None:
        assert [arc[:4] for arc in ours.arcs] == [arc[:4] for arc in plainly.arcs]
        for mine, other in ((ours.initial, plainly.initial), (ours.final, plainly.final)):
            assert all(near(a, b, 1e-9) for a, b in zip(mine, other, strict=True))
        assert all(near(a[4], b[4], 1e-9) for a, b in zip(ours.arcs, plainly.arcs, strict=True))


def test_determinize_default_limit_is_ten_times_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.structure.automaton.determinization._MOST_STATES", 20)
    tree = from_strings([[1 + (i >> b & 1) for b in range(5)] for i in range(32)], semiring=BooleanSemiring())
    assert determinize(union(tree, tree)).n_states > 50
    # Which of the last seven labels was 1: 2^7 sets of 8 states.
    arcs = [(0, 0, 1, 1, 0.0), (0, 0, 2, 2, 0.0), (0, 1, 1, 1, 0.0)]
    arcs += [(q, q + 1, label, label, 0.0) for q in range(1, 7) for label in (1, 2)]
    late = from_arcs(arcs, [0], [7], BooleanSemiring())
    with pytest.raises(LimitError, match="limit=80 "):
        determinize(late)
    assert determinize(late, limit=128).n_states == 128


@pytest.mark.parametrize(
    "semiring", [LogSemiring(), MaxSemiring(), TropicalSemiring(), RealSemiring()], ids=lambda s: type(s).__name__
)
@settings(max_examples=40)
@given(plain=transducers)
def test_determinize_keeps_weights(semiring, plain: Plain) -> None:
    machine = built(plain, semiring)
    found = determinize(machine)
    assert is_deterministic(found)
    plus = max if isinstance(semiring, (MaxSemiring, TropicalSemiring)) else log_add
    expected = {}
    for path in paths(plain, 4):
        key = tuple(plain.arcs[i][2:4] for i in path.arcs if plain.arcs[i][2:4] != (0, 0))
        expected.setdefault(key, []).append(path.score)
    plain_found = listed(found)
    spelled = {}
    for path in paths(plain_found, 4):
        spelled.setdefault(tuple(plain_found.arcs[i][2:4] for i in path.arcs), []).append(path.score)
    assert all(len(v) == 1 for v in spelled.values()), "a string has two paths"
    assert same_tables({k: v[0] for k, v in spelled.items()}, {k: plus(v) for k, v in expected.items()}, 1e-8)


@settings(max_examples=30)
@given(plain=plain_machines(acceptor=True, labels=(1, 2), scores=st.just(0.0)))
def test_determinize_of_unweighted_automaton_always_succeeds(plain: Plain) -> None:
    found = determinize(built(plain, BooleanSemiring()))
    assert is_deterministic(found)
    strings = {p.read for p in paths(plain, 4)}
    assert {p.read for p in paths(listed(found), 4)} == strings


def test_determinize_without_deterministic_equivalent_raises() -> None:
    """Two loops of different weight read the same string: what is owed drifts apart for ever."""
    arcs = [(0, 1, 1, 1, 0.0), (0, 2, 1, 1, 0.0), (1, 1, 2, 2, -1.0), (2, 2, 2, 2, -2.0)]
    for semiring in (LogSemiring(), MaxSemiring()):
        with pytest.raises(LimitError, match=r"more than limit=50 states.*no deterministic equivalent"):
            determinize(from_arcs(arcs, [0], [1, 2], semiring), limit=50)
    arcs[3] = (2, 2, 2, 2, -1.0)
    assert determinize(from_arcs(arcs, [0], [1, 2])).n_states == 2


def test_determinize_of_cycles_with_equal_weights_succeeds() -> None:
    arcs = [
        (0, 1, 1, 1, -0.3),
        (0, 2, 1, 1, -1.1),
        (1, 1, 2, 2, -0.7),
        (2, 2, 2, 2, -0.7),
        (1, 3, 3, 3, 0.0),
        (2, 3, 3, 3, -2.0),
    ]
    machine = from_arcs(arcs, [0], [3])
    found = determinize(machine)
    assert is_deterministic(found)
    for n in range(4):
        x = from_string([1, *[2] * n, 3])
        assert near(total(compose(x, found)).item(), total(compose(x, machine)).item())


def test_determinize_with_gradients_or_without_division_raises() -> None:
    machine = from_string("ab", scores=torch.zeros(2).double().requires_grad_())
    for change in (determinize, minimize):
        with pytest.raises(ValueError, match=r"detach\(\)"):
            change(machine)
    with pytest.raises(TypeError, match="has no division"):
        determinize(from_strings(["a", "ab"]).over(EntropySemiring()))
    batched = from_string("ab").with_weights(torch.zeros(3, 2).double(), *(torch.zeros(3, 3).double(),) * 2)
    with pytest.raises(ValueError, match="must have no batch axes in determinize"):
        determinize(batched)


# --- push ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "semiring", [LogSemiring(), MaxSemiring(), TropicalSemiring(), RealSemiring()], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("toward", ["initial", "final"])
@settings(max_examples=20)
@given(plain=plain_machines(scores=LIGHT))
def test_push_keeps_weights_of_paths(semiring, toward, plain: Plain) -> None:
    assume(powers_vanish(matrix(plain)))
    found = push(built(plain, semiring), toward)
    assert same_tables(pairs_of_paths(found), pairs_of_paths(built(plain, semiring)), 1e-8)


def pairs_of_paths(machine) -> dict:
    """For each string the sorted list of its paths' scores, as numbered entries."""
    lists: dict = {}
    for path in paths(listed(machine), 4):
        lists.setdefault((path.read, path.written), []).append(path.score)
    return {(k, i): s for k, v in lists.items() for i, s in enumerate(sorted(v))}


@settings(max_examples=30)
@given(plain=plain_machines(scores=LIGHT))
def test_push_makes_outgoing_weights_sum_to_one(plain: Plain) -> None:
    assume(powers_vanish(matrix(plain)))
    for semiring, plus in ((LogSemiring(), log_add), (MaxSemiring(), max)):
        found = listed(push(built(plain, semiring)))
        for q, final in enumerate(found.final):
            assert near(plus([final, *(w for s, _, _, _, w in found.arcs if s == q)]), 0.0, 1e-9)
    if found.final:
        whole = listed(normalize(built(plain)))
        assert near(log_add(list(whole.initial)), 0.0, 1e-9)


def test_push_is_differentiable_and_checks_direction() -> None:
    machine = from_arcs([(0, 1, 1, 1, -1.0), (1, 1, 2, 2, -1.0), (0, 1, 2, 2, -2.0)], [0], {1: -0.5})

    def weights(x):
        return push(machine.with_weights(x, machine.initial, machine.final)).weight

    assert torch.autograd.gradcheck(weights, (machine.weight.clone().requires_grad_(),))
    with pytest.raises(ValueError, match="'initial' or 'final'"):
        push(machine, "left")
    empty = from_arcs([], [0], [])
    assert normalize(empty).n_states == 0


# --- minimize -----------------------------------------------------------------------------------------------


def residual_functions(plain: Plain, plus, longest: int = 6) -> int:
    """How many different futures there are, up to a common factor, among all beginnings of strings."""
    lists: dict = {}
    for path in paths(plain, longest):
        lists.setdefault(path.read, []).append(path.score)
    weights = {x: plus(v) for x, v in lists.items()}
    futures = set()
    for x in {y[:i] for y in weights for i in range(len(y) + 1)}:
        rest = {y[len(x) :]: w for y, w in weights.items() if y[: len(x)] == x}
        whole = log_add(list(rest.values()))
        futures.add(tuple(sorted((y, round(w - whole, 6)) for y, w in rest.items())))
    return len(futures)


@pytest.mark.parametrize("semiring", [LogSemiring(), MaxSemiring()], ids=lambda s: type(s).__name__)
@settings(max_examples=60)
@given(
    plain=plain_machines(
        acyclic=True, acceptor=True, labels=(1, 2), most_arcs=8, scores=st.sampled_from([-1.0, -2.0, -0.5])
    )
)
def test_minimize_has_one_state_for_each_future(semiring, plain: Plain) -> None:
    plus = plus_of(semiring)
    found = minimize(determinize(built(plain, semiring)))
    assert is_deterministic(found)
    assert same_tables(table(paths(listed(found), 5), plus), table(paths(plain, 5), plus), 1e-8)
    assert found.n_states == residual_functions(plain, plus)


@settings(max_examples=40)
@given(plain=plain_machines(acceptor=True, labels=(1, 2), most_arcs=9, most_states=5, scores=st.just(0.0)))
def test_minimize_equals_brzozowski_construction(plain: Plain) -> None:
    """Reversing and determinizing twice gives the minimal machine without any partition."""
    from catena.structure.automaton.rational import reverse

    machine = built(plain, BooleanSemiring())
    twice = determinize(reverse(determinize(reverse(machine))))
    found = minimize(determinize(machine))
    assert found.n_states == twice.n_states
    assert found.n_arcs == twice.n_arcs
    assert equivalent(found, twice)


def test_minimize_shares_common_suffixes() -> None:
    words = ["tapping", "topping", "tipping", "tap", "top", "tip", "typing"]
    found = minimize(determinize(from_strings(words)))
    assert {p.read for p in paths(listed(found), 8)} == {tuple(map(ord, w)) for w in words}
    assert found.n_states == 9


def test_minimize_of_large_automata_is_fast() -> None:
    """A chain of many states takes as many rounds for a naive partition; a cycle of equal states becomes one."""
    n = 20_000
    chain = minimize(from_string([1] * n, semiring=BooleanSemiring()))
    assert chain.n_states == n + 1
    ring = from_arcs([(i, (i + 1) % 5000, 1, 1, 0.0) for i in range(5000)], [0], range(5000), BooleanSemiring())
    assert minimize(ring).n_states == 1


def test_minimize_nondeterministic_raises() -> None:
    for machine in (from_strings(["a", "a"]), union(from_string("a"), from_string("b")), closure(from_string("a"))):
        with pytest.raises(ValueError, match=r"minimize\(determinize\(machine\)\)"):
            minimize(machine)


# --- equivalence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "semiring",
    [LogSemiring(), MaxSemiring(), TropicalSemiring(), BooleanSemiring(), RealSemiring()],
    ids=lambda s: type(s).__name__,
)
@settings(max_examples=30)
@given(a=acceptors, b=acceptors)
def test_equivalence_is_equality_of_all_weights(semiring, a: Plain, b: Plain) -> None:
    plus = max if isinstance(semiring, (MaxSemiring, TropicalSemiring)) else log_add
    tables = [table(paths(m, 4), plus) for m in (a, b)]
    if isinstance(semiring, BooleanSemiring):
        tables = [dict.fromkeys(t, 0.0) for t in tables]
    # Differences of the size of the tolerance may go either way.
    gaps = [abs(tables[0].get(k, -math.inf) - tables[1].get(k, -math.inf)) for k in tables[0].keys() | tables[1].keys()]
    assume(all(gap > 1e-3 or gap < 1e-9 for gap in gaps))
    assert equivalent(built(a, semiring), built(b, semiring)) == same_tables(*tables)
    machine = built(a, semiring)
    assert equivalent(machine, machine)
    assert equivalent(machine, union(machine, from_arcs([], [], [], semiring)))


def test_equivalent_decides_automata_without_deterministic_equivalent() -> None:
    """Over the log semiring linear algebra decides where sets of states would never end."""
    arcs = [(0, 1, 1, 1, 0.0), (0, 2, 1, 1, 0.0), (1, 1, 2, 2, -1.0), (2, 2, 2, 2, -2.0)]
    machine = from_arcs(arcs, [0], [1, 2])
    swapped = from_arcs([arcs[1], arcs[0], *arcs[2:], (3, 3, 2, 2, -1.0)], [0], [1, 2], n_states=4)
    assert equivalent(machine, swapped)
    other = from_arcs([*arcs[:3], (2, 2, 2, 2, -2.001)], [0], [1, 2])
    assert not equivalent(machine, other)
    assert equivalent(machine, other, tolerance=1e-2)
    with pytest.raises(LimitError):
        equivalent(machine.over(MaxSemiring()), swapped.over(MaxSemiring()), limit=30)


def test_equivalent_distinguishes_small_differences_with_equal_total() -> None:
    one, two = (from_strings(["a", "b"], [math.log(0.5 + x), math.log(0.5 - x)]) for x in (0.0, 1e-5))
    assert not equivalent(one, two)
    assert equivalent(one, two, tolerance=1e-3)


def test_equivalent_decides_divergent_automata() -> None:
    arcs = [(0, 0, 1, 1, 0.5), (0, 0, 2, 2, 1.0)]
    one = from_arcs(arcs, [0], [0])
    two = from_arcs([*arcs, (1, 1, 1, 1, 0.5), (1, 0, 2, 2, 1.0)], {0: math.log(0.25), 1: math.log(0.75)}, [0, 1])
    assert equivalent(one, two)
    assert not equivalent(one, from_arcs([(0, 0, 1, 1, 0.5), (0, 0, 2, 2, 1.1)], [0], [0]))


def test_determinized_minimized_and_pushed_machines_are_equivalent_to_their_own() -> None:
    machine = from_strings(["abab", "aab", "ab", "ab", "b"], [-1.0, -2.0, -0.5, -1.5, -3.0])
    for change in (determinize, push, remove_epsilon, lambda m: minimize(determinize(m))):
        assert equivalent(machine, change(machine))
    assert not equivalent(machine, from_strings(["abab", "aab", "ab", "b"], [-1.0, -2.0, -0.5, -3.0]))


def test_equivalent_compares_alignments_of_transducers() -> None:
    model = edit_model("ab", -1.0, -2.0, -3.0)
    assert equivalent(model, model)
    assert not equivalent(model, edit_model("ab", -1.0, -2.0, -2.5))
    assert pairs(determinize(from_arcs([(0, 1, 1, 2, -1.0), (0, 1, 1, 3, -2.0)], [0], [1]))) == {
        ((1, 2),): pytest.approx(-1.0),
        ((1, 3),): pytest.approx(-2.0),
    }
    with pytest.raises(TypeError, match="KBest"):
        equivalent(model.over(KBestSemiring(2)), model.over(KBestSemiring(2)))
