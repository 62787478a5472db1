"""Scores on no accepting path change nothing: neither a divergent cycle nor nan. All others do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import DivergentSumError
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.composition import compose, intersect
from catena.structure.automaton.determinization import determinize
from catena.structure.automaton.distance import arc_marginals, distances, total
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.equivalence import equivalent
from catena.structure.automaton.minimization import minimize
from catena.structure.automaton.paths import PathConstraint, PathDistribution
from catena.structure.automaton.pushing import push
from catena.structure.automaton.rational import closure, connect
from catena.structure.automaton.search import best_paths, best_strings
from catena.structure.automaton.wfsa import Automaton
from catena.structure.backend import use_backend
from catena.structure.semirings import KBestSemiring, LogSemiring, MaxSemiring, RealSemiring, Semiring, TropicalSemiring
from tests.oracle.automata import Plain, exact_log_total, log_add, matrix, paths, powers_vanish, table, useful
from tests.structure.automaton.machines import built, listed, near, plain_machines, same_tables

BACKENDS = ("reference", "kernels")
both_backends = pytest.mark.parametrize("backend", BACKENDS)
NAN = math.nan
NEVER = -math.inf

# One accepting path, of score -1. State 2 has a cycle of weight above one, which no accepting path reaches.
GROWING = {
    "dead end": [(0, 1, 1, 1, -1.0), (0, 2, 2, 2, -1.0), (2, 2, 3, 3, 0.5)],
    "not reached": [(0, 1, 1, 1, -1.0), (2, 1, 2, 2, -1.0), (2, 2, 3, 3, 0.5)],
    "zero in": [(0, 1, 1, 1, -1.0), (0, 2, 2, 2, NEVER), (2, 2, 3, 3, 0.5), (2, 1, 2, 2, -1.0)],
    "zero out": [(0, 1, 1, 1, -1.0), (0, 2, 2, 2, -1.0), (2, 2, 3, 3, 0.5), (2, 1, 2, 2, NEVER)],
    "zero in a component": [(0, 1, 1, 1, -1.0), (1, 2, 2, 2, NEVER), (2, 2, 3, 3, 0.5), (2, 0, 2, 2, -1.0)],
}
growing = pytest.mark.parametrize("name", GROWING)


def machine_of(name: str, semiring: Semiring | None = None) -> Automaton:
    return from_arcs(GROWING[name], [0], [1], semiring or LogSemiring(), n_states=3)


@both_backends
@growing
def test_divergent_cycles_on_no_accepting_path_leave_every_query_as_it_is(backend: str, name: str) -> None:
    distribution = PathDistribution.of(machine_of(name))
    with use_backend(backend):
        assert distribution.log_partition().item() == pytest.approx(-1.0)
        assert distribution.max().item() == -1.0
        assert distribution.argmax().tolist()[:2] == [0, 0]
        for k in (1, 2, 3):
            top = distribution.topk(k)
            assert top.scores.tolist() == [-1.0] + [NEVER] * (k - 1)
            assert top.structures[0].tolist()[:2] == [0, 0]
        assert all(path[:2] == [0, 0] for path in distribution.sample(3).tolist())
        assert distribution.marginals().tolist() == [1.0] + [0.0] * (len(GROWING[name]) - 1)
        assert distribution.entropy().item() == pytest.approx(0.0)
        assert [found.score for found in best_paths(machine_of(name), 3)] == [-1.0]
        assert [found.score for found in best_strings(machine_of(name), 3)] == pytest.approx([-1.0])


@both_backends
@growing
@pytest.mark.parametrize(
    "semiring", [MaxSemiring(), TropicalSemiring(), RealSemiring(), KBestSemiring(2)], ids=lambda s: type(s).__name__
)
def test_divergent_cycles_on_no_accepting_path_leave_totals_as_they_are(
    backend: str, name: str, semiring: Semiring
) -> None:
    with use_backend(backend):
        found = total(machine_of(name).over(semiring))
    expected = {
        MaxSemiring: [-1.0],
        TropicalSemiring: [1.0],
        RealSemiring: [math.exp(-1.0)],
        KBestSemiring: [-1.0, NEVER],
    }[type(semiring)]
    assert found.reshape(-1).tolist() == pytest.approx(expected)


@both_backends
@growing
def test_derivatives_leave_out_divergent_cycles_on_no_accepting_path(backend: str, name: str) -> None:
    machine = machine_of(name)
    initial = torch.tensor([0.0, -0.3, NEVER], dtype=torch.float64)

    def log_z(*finite: torch.Tensor) -> torch.Tensor:
        weight = machine.weight.index_put((torch.tensor([0]),), finite[0])
        return PathDistribution(machine, weight, initial, machine.final).log_partition()

    x = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    with use_backend(backend):
        assert torch.autograd.gradcheck(log_z, (x,))
        assert torch.autograd.gradgradcheck(log_z, (x,))


@both_backends
def test_a_constraint_may_cut_off_a_divergent_cycle(backend: str) -> None:
    machine = from_arcs([(0, 1, 1, 1, -1.0), (0, 0, 2, 2, 0.5), (0, 2, 3, 3, -2.0), (2, 2, 2, 2, 0.1)], [0], [1, 2])
    distribution = PathDistribution.of(machine)
    with use_backend(backend):
        with pytest.raises(DivergentSumError):
            distribution.log_partition()
        left = distribution.given(
            PathConstraint(arcs=torch.tensor([True, False, True, True]), final=torch.arange(3) < 2)
        )
        assert left.log_partition().item() == pytest.approx(-1.0)
        assert left.topk(2).scores.tolist() == [-1.0, NEVER]


@both_backends
def test_rows_of_a_batch_may_diverge_in_different_cycles(backend: str) -> None:
    machine = from_arcs([(0, 1, 1, 1, 0.0), (0, 0, 2, 2, 0.0), (1, 1, 2, 2, 0.0)], [0], [1])
    weight = torch.tensor([[-1.0, NEVER, -1.0], [-1.0, -1.0, NEVER]], dtype=torch.float64)
    initial = torch.tensor([[0.0, NEVER], [NEVER, 0.0]], dtype=torch.float64)
    weight[1, 1] = 0.5  # state 0 of row 1 is not reached
    with use_backend(backend):
        batch = PathDistribution(machine, weight, initial, machine.final)
        expected = [-1.0 - math.log1p(-math.exp(-1.0)), 0.0]
        assert batch.log_partition().tolist() == pytest.approx(expected)
        assert batch.topk(1).scores[0].tolist() == pytest.approx([-1.0, 0.0])
        pushed = push(machine.with_weights(weight, initial, machine.final.expand(2, -1)))
        assert torch.logsumexp(pushed.initial, -1).tolist() == pytest.approx(expected)


@both_backends
def test_distances_diverge_only_in_states_that_are_reached(backend: str) -> None:
    machine = machine_of("not reached")
    with use_backend(backend):
        assert distances(machine).tolist() == [0.0, -1.0, NEVER]
        with pytest.raises(DivergentSumError):
            distances(machine, backwards=True)
        dead = machine_of("dead end")
        assert distances(dead, backwards=True).tolist() == [-1.0, 0.0, NEVER]
        with pytest.raises(DivergentSumError):
            distances(dead)


@growing
@both_backends
def test_algebra_leaves_out_divergent_cycles_on_no_accepting_path(backend: str, name: str) -> None:
    silent = [(*arc[:2], 0, 0, arc[4]) if arc[:2] == (2, 2) else arc for arc in GROWING[name]]
    for arcs in (GROWING[name], silent):
        machine = from_arcs(arcs, [0], [1], n_states=3)
        with use_backend(backend):
            for change in (push, connect, remove_epsilon, determinize, lambda m: minimize(determinize(m))):
                assert table(paths(listed(change(machine)), 4), log_add) == {((1,), (1,)): pytest.approx(-1.0)}
            assert total(closure(machine)).item() == pytest.approx(-math.log1p(-math.exp(-1.0)))
            assert equivalent(machine, from_arcs([(0, 1, 1, 1, -1.0)], [0], [1]))


# --- weights that have no sum in all ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "semiring", [LogSemiring(), MaxSemiring(), TropicalSemiring(), RealSemiring()], ids=lambda s: type(s).__name__
)
def test_a_machine_without_a_total_can_be_minimized(semiring: Semiring) -> None:
    """Two copies of a state, one with more weight at its end and less before it."""
    arcs = [(0, 1, 1, 1, 0.2), (0, 2, 2, 2, 1.2), (1, 1, 1, 1, 0.7), (2, 2, 1, 1, 0.7), (1, 0, 2, 2, 0.3)]
    arcs.append((2, 0, 2, 2, 0.3 - 1.5))
    machine = from_arcs(arcs, [0], {1: 0.1, 2: 0.1 - 1.5}, semiring)
    with pytest.raises(DivergentSumError):
        push(machine)
    found = minimize(machine)
    assert found.n_states == 2
    assert same_tables(table(paths(listed(found), 4), log_add), table(paths(listed(machine), 4), log_add), 1e-9)
    assert equivalent(found, machine)
    heavier = from_arcs([*arcs[:-1], (2, 0, 2, 2, -1.1)], [0], {1: 0.1, 2: 0.1 - 1.5}, semiring)
    assert not equivalent(heavier, machine)
    assert minimize(heavier).n_states == 3


# --- nan ----------------------------------------------------------------------------------------------------


def spoiled(plain: Plain, where: int, value: float) -> Plain:
    """The automaton with another score at one index, counted through arcs, initial and final scores."""
    scores = [[arc[4] for arc in plain.arcs], list(plain.initial), list(plain.final)]
    for part in scores:
        if where < len(part):
            part[where] = value
            break
        where -= len(part)
    arcs = tuple((*arc[:4], score) for arc, score in zip(plain.arcs, scores[0], strict=True))
    return Plain(arcs, tuple(scores[1]), tuple(scores[2]))


def all_scores(plain: Plain) -> list[float]:
    return [*(arc[4] for arc in plain.arcs), *plain.initial, *plain.final]


def without(plain: Plain, wrong: Callable[[float], bool]) -> Plain:
    return replace(
        plain,
        arcs=tuple((*a[:4], NEVER if wrong(a[4]) else a[4]) for a in plain.arcs),
        initial=tuple(NEVER if wrong(x) else x for x in plain.initial),
        final=tuple(NEVER if wrong(x) else x for x in plain.final),
    )


def is_wrong(x: float) -> bool:
    return not x < math.inf


LIGHT = st.one_of(st.floats(-4, -0.5), st.just(NEVER))


@both_backends
@settings(max_examples=60)
@given(plain=plain_machines(scores=LIGHT, most_arcs=8), data=st.data(), value=st.sampled_from([NAN, math.inf]))
def test_totals_are_nan_where_a_path_reads_nan(backend: str, plain: Plain, data: Any, value: float) -> None:
    where = data.draw(st.integers(0, len(all_scores(plain)) - 1))
    plain = spoiled(plain, where, value)
    on_paths = useful(plain)
    rest = without(on_paths, is_wrong)
    assume(powers_vanish(matrix(rest)))
    is_read = any(map(is_wrong, all_scores(on_paths)))
    machine = built(plain)
    with use_backend(backend):
        log_z, best = total(machine), total(machine.over(MaxSemiring()))
        gradient = arc_marginals(machine)
        distribution = PathDistribution.of(machine)
        members = (distribution.argmax(), distribution.topk(2).structures[0], distribution.sample(1)[0])
        if is_read:
            assert all(x.isnan().all() for x in (log_z, best, gradient, distribution.topk(2).scores))
            assert all((member == -1).all() for member in members)
        else:
            assert near(log_z.item(), exact_log_total(rest), 1e-9)
            assert near(best.item(), max((p.score for p in paths(rest, 4)), default=NEVER), 1e-9)
            assert not gradient.isnan().any()
            scores = [distribution.score(member).item() for member in members]
            assert all((score > NEVER) == (log_z.item() > NEVER) for score in scores)


@both_backends
@settings(max_examples=60)
@given(plain=plain_machines(scores=LIGHT, most_arcs=8), data=st.data(), backwards=st.booleans())
def test_distances_are_nan_where_a_path_reads_nan(backend: str, plain: Plain, data: Any, backwards: bool) -> None:
    """The paths to a state equal the paths of the automaton that ends there."""
    plain = spoiled(plain, data.draw(st.integers(0, len(all_scores(plain)) - 1)), NAN)
    n = len(plain.initial)
    assume(powers_vanish(matrix(without(plain, is_wrong))))
    machine = built(plain)
    with use_backend(backend):
        for semiring in (LogSemiring(), MaxSemiring()):
            found = distances(machine.over(semiring), backwards).tolist()
            assert len(found) == n
            for q in range(n):
                here = tuple(0.0 if r == q else NEVER for r in range(n))
                part = replace(plain, initial=here) if backwards else replace(plain, final=here)
                part = useful(part)
                assert math.isnan(found[q]) == any(map(is_wrong, all_scores(part)))
                assert (
                    math.isnan(found[q])
                    or isinstance(semiring, MaxSemiring)
                    or near(found[q], exact_log_total(part), 1e-9)
                )


@settings(max_examples=60)
@given(
    a=plain_machines(scores=LIGHT, most_arcs=5, most_states=3),
    b=plain_machines(scores=LIGHT, most_arcs=5, most_states=3),
    data=st.data(),
)
def test_strings_of_compositions_are_nan_where_a_pair_of_paths_reads_nan(a: Plain, b: Plain, data: Any) -> None:
    a = spoiled(a, data.draw(st.integers(0, len(all_scores(a)) - 1)), NAN)
    right = built(b)
    tensors = [x.clone().requires_grad_() for x in (right.weight, right.initial, right.final)]
    # A score that needs a gradient is composed by torch, others by a compiled loop.
    for other in (right, right.with_weights(*tensors)):
        found = compose(built(a), other).detach()
        for x in (found.weight, found.initial, found.final):
            assert not x.isposinf().any()
        lengths = {(p.read, p.written) for p in nan_paths(listed(found), 4)}
        expected = {
            (p.read, q.written)
            for p in nan_paths(a, 4)
            for q in nan_paths(b, 4)
            if p.written == q.read and (math.isnan(p.score) or math.isnan(q.score))
        }
        wrong = {(p.read, p.written) for p in nan_paths(listed(found), 4) if math.isnan(p.score)}
        assert wrong <= expected
        short = {
            (p.read, q.written)
            for p in nan_paths(a, 2)
            for q in nan_paths(b, 2)
            if p.written == q.read and math.isnan(p.score)
        }
        assert short <= wrong <= lengths


def test_compositions_do_not_end_where_one_machine_cannot_and_the_other_is_nan() -> None:
    a = from_arcs([(0, 1, 1, 1, -1.0)], [0], {1: NAN})
    b = from_arcs([(0, 1, 1, 1, -1.0), (1, 2, 2, 2, -1.0)], [0], [2])
    weight = b.weight.clone().requires_grad_()  # composed by torch, not by a compiled loop
    for other in (b, b.with_weights(weight, b.initial, b.final)):
        assert total(compose(a, other).detach()).item() == NEVER


@both_backends
def test_what_follows_a_weight_of_nan_counts(backend: str) -> None:
    machine = from_arcs([(0, 1, 1, 1, NAN), (1, 2, 2, 2, NAN), (2, 3, 1, 1, -1.0), (0, 3, 3, 3, -1.0)], [0], [3])
    with use_backend(backend):
        for semiring in (LogSemiring(), MaxSemiring()):
            assert total(machine.over(semiring)).isnan()
            assert distances(machine.over(semiring)).isnan().tolist() == [False, True, True, True]
            assert distances(machine.over(semiring), True).isnan().tolist() == [True, True, False, False]


def nan_paths(plain: Plain, longest: int) -> list[Any]:
    """As :func:`paths`, of scores that may be nan."""
    marked = replace(
        plain,
        arcs=tuple((*arc[:4], 0.0 if math.isnan(arc[4]) else arc[4]) for arc in plain.arcs),
        initial=tuple(0.0 if math.isnan(x) else x for x in plain.initial),
        final=tuple(0.0 if math.isnan(x) else x for x in plain.final),
    )
    found = []
    for path in paths(marked, longest):
        last = plain.arcs[path.arcs[-1]][1] if path.arcs else path.start
        terms = [plain.initial[path.start], *(plain.arcs[i][4] for i in path.arcs), plain.final[last]]
        found.append(replace(path, score=math.fsum(terms)))
    return found


@settings(max_examples=60)
@given(plain=plain_machines(scores=LIGHT, most_arcs=6, most_states=3, acceptor=True), data=st.data())
def test_strings_without_epsilons_are_nan_where_a_path_reads_nan(plain: Plain, data: Any) -> None:
    plain = spoiled(plain, data.draw(st.integers(0, len(all_scores(plain)) - 1)), NAN)
    assume(powers_vanish(matrix(without(plain, is_wrong))))
    found = {p.read: p.score for p in nan_paths(listed(remove_epsilon(built(plain))), 2) if math.isnan(p.score)}
    long = {p.read for p in nan_paths(plain, 6) if math.isnan(p.score)}
    assert {x for x in found if len(x) < 2} <= long
    assert {p.read for p in nan_paths(plain, 2) if math.isnan(p.score)} <= found.keys()


def test_algorithms_that_compare_weights_raise_for_nan_on_a_path() -> None:
    wrong = from_arcs([(0, 1, 1, 1, NAN), (0, 1, 2, 2, -1.0)], [0], [1])
    unread = from_arcs([(0, 1, 2, 2, -1.0), (1, 2, 1, 1, NAN)], [0], [1])
    searches = (best_paths, lambda m: best_paths(m, 3), best_strings)
    for query in (determinize, minimize, lambda m: equivalent(m, m), *searches):
        for backend in BACKENDS:
            with use_backend(backend):
                for machine in (wrong, wrong.over(MaxSemiring()), wrong.over(TropicalSemiring())):
                    with pytest.raises(ValueError, match=r"comparable weights in \w+, got nan"):
                        query(machine)
                assert query(unread) is not False
    pushed = push(wrong)
    assert pushed.initial[0].isnan()
    assert pushed.final.tolist() == [NEVER, 0.0]
    assert intersect(wrong, unread).weight.tolist() == [-2.0]
