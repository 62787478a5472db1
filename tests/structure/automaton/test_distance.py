"""Sums over all paths: finite ones by enumeration, infinite ones in exact fractions, divergent ones raise."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import DivergentSumError
from catena.structure.automaton.build import edit_model, from_arcs, from_string
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import arc_marginals, distances, total
from catena.structure.automaton.reference import closure_of_matrix
from catena.structure.backend import use_backend
from catena.structure.semirings import (
    BooleanSemiring,
    CountingSemiring,
    EntropySemiring,
    ExpectationSemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    ProductSemiring,
    RealSemiring,
    SecondOrderExpectationSemiring,
    Semiring,
    TropicalSemiring,
)
from tests.oracle import moments
from tests.oracle.automata import (
    Plain,
    closure,
    exact_log_total,
    floyd_warshall,
    log_add,
    matrix,
    paths,
    powers_vanish,
    useful,
)
from tests.structure.automaton.machines import built, near, plain_machines

BACKENDS = ("reference", "kernels")
both_backends = pytest.mark.parametrize("backend", BACKENDS)
LIGHT = st.one_of(st.floats(-4, -0.5), st.just(-math.inf))


@st.composite
def matrices(draw: st.DrawFn) -> list[list[float]]:
    n = draw(st.integers(1, 5))
    row = st.lists(st.one_of(st.floats(-5, -1.7), st.just(-math.inf)), min_size=n, max_size=n)
    return draw(st.lists(row, min_size=n, max_size=n))


# --- closure of matrices ------------------------------------------------------------------------------------


@given(rows=matrices())
def test_one_elimination_is_floyd_warshall_matrix_inversion_and_their_log(rows: list[list[float]]) -> None:
    scores = torch.tensor(rows, dtype=torch.float64)
    n = len(rows)
    inverted = torch.linalg.inv(torch.eye(n).double() - scores.exp())
    in_reals = closure_of_matrix(RealSemiring(), scores.exp())
    assert torch.allclose(in_reals, inverted, rtol=1e-12, atol=1e-14)
    in_logs = closure_of_matrix(LogSemiring(), scores)
    assert torch.allclose(in_logs.exp(), inverted, rtol=1e-12, atol=1e-14)
    in_costs = closure_of_matrix(TropicalSemiring(), -scores)
    assert torch.allclose(in_costs, torch.tensor(floyd_warshall((-scores).tolist()), dtype=torch.float64))
    assert torch.equal(closure_of_matrix(MaxSemiring(), scores), -in_costs)
    reachable = closure_of_matrix(BooleanSemiring(), scores > -math.inf)
    assert torch.equal(reachable, in_logs > -math.inf)
    exact = closure([[Fraction(math.exp(x)) for x in row] for row in rows])
    assert torch.allclose(
        in_reals, torch.tensor([[float(x) for x in row] for row in exact], dtype=torch.float64), rtol=1e-12
    )


def test_matrices_come_in_batches() -> None:
    scores = torch.randn(3, 2, 4, 4).double() - 3
    found = closure_of_matrix(LogSemiring(), scores)
    for i in range(3):
        for j in range(2):
            assert torch.allclose(found[i, j], closure_of_matrix(LogSemiring(), scores[i, j]))


def test_closure_of_negative_weights_must_converge_absolutely() -> None:
    fine = torch.tensor([[-0.5, 0.2], [0.3, -0.4]]).double()
    assert torch.allclose(closure_of_matrix(RealSemiring(), fine), torch.linalg.inv(torch.eye(2).double() - fine))
    # Its powers go to 0, but only because of the signs: the order of the paths would decide the sum.
    with pytest.raises(DivergentSumError):
        closure_of_matrix(RealSemiring(), torch.tensor([[0.6, 0.6], [-0.6, 0.6]]).double())


# --- totals -------------------------------------------------------------------------------------------------


@both_backends
@settings(max_examples=80)
@given(plain=plain_machines(acyclic=True))
def test_totals_of_acyclic_machines_sum_all_paths(backend: str, plain: Plain) -> None:
    scores = [path.score for path in paths(plain, 4)]
    with use_backend(backend):
        assert near(total(built(plain)).item(), log_add(scores), 1e-12)
        assert near(total(built(plain, MaxSemiring())).item(), max(scores, default=-math.inf), 1e-12)
        assert near(total(built(plain, TropicalSemiring())).item(), -max(scores, default=-math.inf), 1e-12)
        assert near(total(built(plain, RealSemiring())).item(), math.fsum(map(math.exp, scores)), 1e-12)
        assert total(built(plain, CountingSemiring())).item() == len(scores)
        assert total(built(plain, BooleanSemiring())).item() == bool(scores)
        best = sorted(scores, reverse=True)[:3] + [-math.inf] * 3
        assert all(map(near, total(built(plain, KBestSemiring(3))).tolist(), best))


@both_backends
@settings(max_examples=80)
@given(plain=plain_machines(scores=LIGHT, most_arcs=9))
def test_totals_of_cyclic_machines_are_exact_or_diverge(backend: str, plain: Plain) -> None:
    on_paths = useful(plain)  # other cycles do no harm
    converges = powers_vanish(matrix(on_paths))
    assume(converges is not None)
    machine = built(plain)
    with use_backend(backend):
        if converges:
            assert near(total(machine).item(), exact_log_total(on_paths), 1e-9)
            assert near(total(machine.over(RealSemiring())).item(), math.exp(exact_log_total(on_paths)), 1e-8)
        else:
            with pytest.raises(DivergentSumError, match="diverges"):
                total(machine)


@both_backends
@settings(max_examples=60)
@given(plain=plain_machines(scores=LIGHT, most_arcs=9))
def test_best_paths_of_cyclic_machines(backend: str, plain: Plain) -> None:
    best = max((path.score for path in paths(plain, 4)), default=-math.inf)  # cycles only cost: no state twice
    with use_backend(backend):
        assert near(total(built(plain, MaxSemiring())).item(), best, 1e-12)


@both_backends
def test_total_of_empty_automaton_is_zero(backend: str) -> None:
    with use_backend(backend):
        for machine in (
            from_arcs([], [], []),
            from_arcs([], [0], []),
            from_arcs([], [], [0]),
            from_arcs([(0, 1, 1, 1, 0.0)], [0], [0]),
        ):
            expected = 0.0 if machine.n_arcs else -math.inf
            assert total(machine) == expected
            assert total(machine.over(MaxSemiring())) == expected
        assert total(from_arcs([], [0], [0])) == 0.0


# --- divergence ---------------------------------------------------------------------------------------------


def loop(score: float, n: int = 1) -> list[tuple[int, int, int, int, float]]:
    """A cycle over n states whose weights multiply to exp(score)."""
    return [(i, (i + 1) % n, 1, 1, score / n) for i in range(n)]


@both_backends
@pytest.mark.parametrize("n", [1, 2, 5])
def test_divergent_total_raises(backend: str, n: int) -> None:
    with use_backend(backend):
        for score in (0.0, 1e-9, 1.0, 800.0):
            with pytest.raises(DivergentSumError, match="diverges"):
                total(from_arcs(loop(score, n), [0], [n - 1]))
        fine = total(from_arcs(loop(-1e-3, n), [0], [0]))
        assert near(fine.item(), -math.log(-math.expm1(-1e-3)), 1e-9)
        for score in (1e-3, 5.0):
            with pytest.raises(DivergentSumError):
                total(from_arcs(loop(score, n), [0], [n - 1], MaxSemiring()))
        assert total(from_arcs(loop(0.0, n), [0], [0], MaxSemiring())) == 0
        with pytest.raises(DivergentSumError):
            total(from_arcs(loop(-1.0, n), [0], [n - 1], CountingSemiring()))
        assert total(from_arcs(loop(-1.0, n), [0], [n - 1], BooleanSemiring()))


@both_backends
def test_weights_that_add_up_to_one_by_rounding_diverge(backend: str) -> None:
    for parts in (3, 7, 49):
        arcs = [(0, 0, 1, 1, math.log(1 / parts))] * parts
        with use_backend(backend), pytest.raises(DivergentSumError):
            total(from_arcs(arcs, [0], [0]))


@both_backends
def test_cycles_of_score_zero_by_rounding_have_a_best_path(backend: str) -> None:
    for scale in (1, 11):  # with 1.1, 2.2 and -3.3 every time round is better than the one before
        arcs = [(i, (i + 1) % 3, 1, 1, scale * x) for i, x in enumerate((0.1, 0.2, -0.3))] + [(0, 3, 1, 1, -1.0)]
        assert sum(score for *_, score in arcs[:3]) > 0
        with use_backend(backend):
            assert near(total(from_arcs(arcs, [0], [3], MaxSemiring())).item(), -1.0)
            assert near(total(from_arcs(arcs, [0], [3], TropicalSemiring())).item(), 1.0)


@both_backends
def test_total_of_edit_model_is_exact(backend: str) -> None:
    x = from_string("catenacatenacatenacatenacatena")
    letters = "abcdefghijklmnopqrstuvwxyz"
    w = math.exp(-4.0)
    # At each of 31 places any number of insertions; between them a copy, a substitution or a deletion.
    expected = 30 * math.log(1 + 25 * w + w) - 31 * math.log1p(-26 * w)
    with use_backend(backend):
        found = total(compose(x, edit_model(letters, -4.0, -4.0, -4.0)))
        assert near(found.item(), expected, 1e-13)
        with pytest.raises(DivergentSumError):
            total(compose(x, edit_model(letters)))


# --- distances ----------------------------------------------------------------------------------------------


@both_backends
@settings(max_examples=20)
@given(plain=plain_machines(scores=LIGHT, most_arcs=9))
def test_distances_are_totals_to_and_from_each_state(backend: str, plain: Plain) -> None:
    assume(powers_vanish(matrix(plain)))
    machine = built(plain)
    n = machine.n_states
    nowhere = torch.full((n,), -math.inf).double()
    with use_backend(backend):
        for semiring in (LogSemiring(), MaxSemiring(), TropicalSemiring()):
            same = machine.over(semiring)
            there, onward = distances(same), distances(same, backwards=True)
            assert len(there) == len(onward) == n
            for q in range(n):
                only = semiring.lift(nowhere.index_fill(0, torch.tensor(q), 0.0))
                assert near(there[q].item(), total(same.with_weights(same.weight, same.initial, only)).item())
                assert near(onward[q].item(), total(same.with_weights(same.weight, only, same.final)).item())


# --- gradients ----------------------------------------------------------------------------------------------


@both_backends
@settings(max_examples=40)
@given(plain=plain_machines(acyclic=True))
def test_gradient_of_total_is_expected_count(backend: str, plain: Plain) -> None:
    found = list(paths(plain, 4))
    chances = moments.probabilities([path.score for path in found])
    expected = torch.zeros(len(plain.arcs)).double()
    for path, p in zip(found, chances, strict=True):
        for arc in path.arcs:
            expected[arc] += p
    with use_backend(backend):
        assert torch.allclose(arc_marginals(built(plain)), expected, atol=1e-11)


@both_backends
@settings(max_examples=30)
@given(plain=plain_machines(scores=LIGHT, most_arcs=9))
def test_expected_counts_of_cyclic_machines(backend: str, plain: Plain) -> None:
    assume(powers_vanish(matrix(plain)))
    machine = built(plain)
    with use_backend(backend):
        counts = arc_marginals(machine)
        assert len(counts) == machine.n_arcs
        for i in range(machine.n_arcs):
            values = torch.zeros(machine.n_arcs).double().index_fill(0, torch.tensor(i), 1.0)
            mean = total(machine.over(ExpectationSemiring(), values))[1]
            assert near(counts[i].item(), mean.item(), 1e-8)


CYCLIC = [
    (0, 1, 1, 1, -1.0), (1, 0, 1, 2, -0.7), (1, 1, 2, 2, -1.5), (1, 2, 1, 1, -0.2), (2, 3, 2, 1, -0.1),
    (3, 2, 1, 1, -2.0), (0, 3, 1, 1, -0.4), (0, 1, 0, 0, -2.2), (3, 3, 1, 1, -1.1), (2, 2, 1, 1, -1.2),
]  # fmt: skip


def cyclic(dtype: torch.dtype = torch.float64, semiring: Semiring | None = None):
    return from_arcs(CYCLIC, {0: 0.3, 1: -0.4}, {2: -0.5, 3: 0.1, 0: -2.0}, semiring or LogSemiring(), dtype=dtype)


@both_backends
def test_first_and_second_derivatives_through_cycles(backend: str) -> None:
    machine = cyclic()
    tensors = tuple(
        x.clone().requires_grad_() for x in (machine.weight, machine.initial.clamp_min(-9), machine.final.clamp_min(-9))
    )
    for semiring in (LogSemiring(), RealSemiring(), MaxSemiring()):

        def function(*x, semiring=semiring):
            return total(machine.with_weights(*x).over(semiring))

        with use_backend(backend):
            assert torch.autograd.gradcheck(function, tensors)
            if not isinstance(semiring, MaxSemiring):
                assert torch.autograd.gradgradcheck(function, tensors)


@both_backends
def test_moments_over_cycles_agree_with_derivatives(backend: str) -> None:
    machine = cyclic()
    r, s = torch.randn(2, machine.n_arcs).double()
    with use_backend(backend):
        log_z, mean_r, _, covariance = total(machine.over(SecondOrderExpectationSemiring(), r, s))

        def log_total(weight):
            return total(machine.with_weights(weight, machine.initial, machine.final))

        assert near(log_z.item(), log_total(machine.weight).item())
        gradient = torch.func.grad(log_total)
        assert near(mean_r.item(), (gradient(machine.weight) @ r).item())
        hessian = torch.func.jacrev(gradient)(machine.weight)
        assert near(covariance.item(), (r @ hessian @ s).item(), 1e-8)
        scores = total(machine.over(ExpectationSemiring(), machine.weight))[1]
        edges = [torch.where(x > -math.inf, x, 0.0) for x in (machine.initial, machine.final)]

        def tilted(x):
            return total(
                machine.with_weights(machine.weight, machine.initial + x[0] * edges[0], machine.final + x[1] * edges[1])
            )

        ends = torch.func.grad(tilted)(torch.zeros(2).double()).sum()
        assert near(total(machine.over(EntropySemiring()))[1].item(), (log_z - scores - ends).item())
        pair = total(machine.over(ProductSemiring(LogSemiring(), MaxSemiring())))
        assert near(pair[0].item(), log_z.item())
        assert near(pair[1].item(), total(machine.over(MaxSemiring())).item())


@both_backends
@settings(max_examples=40)
@given(plain=plain_machines(scores=st.one_of(LIGHT, st.just(-math.inf)), most_arcs=9))
def test_gradients_are_never_nan(backend: str, plain: Plain) -> None:
    assume(powers_vanish(matrix(plain)))
    for semiring in (LogSemiring(), MaxSemiring()):
        for dtype in (torch.float32, torch.float64):
            machine = built(plain, semiring, dtype)
            tensors = [x.clone().requires_grad_() for x in (machine.weight, machine.initial, machine.final)]
            with use_backend(backend):
                value = total(machine.with_weights(*tensors))
                grads = torch.autograd.grad(value, tensors, allow_unused=machine.n_arcs == 0)[machine.n_arcs == 0 :]
            assert value.dtype == dtype
            assert not value.isnan()
            assert all(not g.isnan().any() for g in grads)
            if value == -math.inf:
                assert all((g == 0).all() for g in grads)


@both_backends
@pytest.mark.parametrize("scale", [1e-3, 30.0, 300.0, 1e4])
def test_total_at_any_score_scale(backend: str, scale: float) -> None:
    """All cycles are part of one long loop of decreasing weight, so a few rounds give the sum."""
    generator = torch.Generator().manual_seed(int(scale) + 1)
    scores = (torch.randn(6, generator=generator).double() * scale).tolist()
    back = -sum(scores[:5]) - scale
    arcs = [(i, i + 1, 1, 1, scores[i]) for i in range(5)] + [(5, 0, 1, 1, back)]
    once = sum(scores[:5])
    expected = once - math.log(-math.expm1(-scale)) if scale < 700 else once
    with use_backend(backend):
        for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-4 if scale < 1 else 1e-5)):
            found = total(from_arcs(arcs, [0], [5], dtype=dtype)).item()
            assert abs(found - expected) <= tolerance * max(1.0, scale * 6)


def test_float32_is_summed_in_float64() -> None:
    arcs = [(i, i + 1, 1, 1, -0.1) for i in range(3000) for _ in range(2)]
    with use_backend("kernels"):
        found = total(from_arcs(arcs, [0], [3000], dtype=torch.float32)).item()
    weight = torch.tensor(-0.1).item()
    assert found == pytest.approx(3000 * (math.log(2) + weight), rel=1e-7)


# --- batches, vmap and the rest of torch --------------------------------------------------------------------


@both_backends
def test_batches_and_vmap_equal_one_by_one(backend: str) -> None:
    machine = from_arcs(
        [(0, 1, 1, 1, 0.0), (0, 2, 1, 1, 0.0), (1, 2, 1, 1, 0.0), (1, 3, 1, 1, 0.0), (2, 3, 1, 1, 0.0)], [0], [3]
    )
    weight = torch.randn(2, 3, 5).double()
    initial, final = (x.expand(2, 3, 4) for x in (machine.initial, machine.final))
    with use_backend(backend):
        for semiring in (LogSemiring(), MaxSemiring(), KBestSemiring(2), EntropySemiring()):
            batched = total(machine.with_weights(weight, initial, final).over(semiring))
            for i in range(2):
                for j in range(3):
                    one = machine.with_weights(weight[i, j], machine.initial, machine.final)
                    assert torch.allclose(batched[..., i, j], total(one.over(semiring)))

        def log_total(w):
            return total(machine.with_weights(w, machine.initial, machine.final))

        mapped = torch.vmap(torch.vmap(log_total))(weight)
        assert torch.allclose(mapped, total(machine.with_weights(weight, initial, final)))
        gradients = torch.vmap(torch.func.grad(log_total))(weight[0])
        assert torch.allclose(
            gradients[1], arc_marginals(machine.with_weights(weight[0, 1], machine.initial, machine.final))
        )


def test_batches_of_cyclic_machines() -> None:
    machine = cyclic()
    weight = torch.stack([machine.weight, machine.weight - 0.5])
    batched = machine.with_weights(weight, *(x.expand(2, -1) for x in (machine.initial, machine.final)))
    for backend in BACKENDS:
        with use_backend(backend):
            assert near(total(batched)[0].item(), total(machine).item())
            assert total(batched)[1] < total(batched)[0]
    with use_backend("kernels"):
        mapped = torch.vmap(lambda w: total(machine.with_weights(w, machine.initial, machine.final)))(weight)
        assert torch.allclose(mapped, total(batched))


def test_arc_marginals_in_other_semirings_raise() -> None:
    with pytest.raises(TypeError, match="over LogSemiring"):
        arc_marginals(cyclic(semiring=MaxSemiring()))
