"""Paths as a distribution: the inherited laws on acyclic machines, and what cycles add."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

import pytest
import torch

from catena.errors import DivergentSumError, ImpossibleError, ShapeError
from catena.structure.automaton.build import edit_model, from_arcs, from_string, from_strings
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import arc_marginals, total
from catena.structure.automaton.paths import PathConstraint, PathDistribution
from catena.structure.automaton.search import best_paths, best_strings
from catena.structure.automaton.wfsa import FAILURE, Automaton
from catena.structure.base import StructuredDistribution
from catena.structure.semirings import LogSemiring, MaxSemiring, SamplingSemiring, TropicalSemiring
from tests.laws.structure_laws import Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle import moments
from tests.oracle.automata import Path, Plain, log_add, paths, table
from tests.structure.automaton.machines import listed

ARCS = [(0, 1), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (5, 6), (0, 4)]
"""State 5 cannot be reached from the beginning and 6 leads nowhere: their arc is on no path."""

SHAPE = from_arcs([(s, t, 1 + i, 1 + i, 0.0) for i, (s, t) in enumerate(ARCS)], [0], [4], n_states=7)
LONGEST = 5


class TestPaths(StructureLaws):
    field_ranks: ClassVar = {"weight": 1, "initial": 1, "final": 1}

    def structure(self, case: Case) -> PathDistribution:
        never = torch.full((4, 7), -math.inf, dtype=case.dtype)
        initial, final = never.clone(), never.clone()
        initial[:, :2], final[:, 3:5] = case.draw(4, 2, salt=1), case.draw(4, 2, salt=2)
        final[:, 0] = case.draw(4, salt=3)
        return PathDistribution(SHAPE, case.draw(4, len(ARCS)), initial, final)

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        """All paths that the structure of beginnings and ends allows, impossible ones included."""
        assert isinstance(structure, PathDistribution)
        scores = [x[row].double().tolist() for x in (structure.weight, structure.initial, structure.final)]
        open_ends = Plain(
            tuple((s, t, 1, 1, 0.0) for s, t in ARCS),
            tuple(0.0 if q < 2 else -math.inf for q in range(7)),
            tuple(0.0 if q in (0, 3, 4) else -math.inf for q in range(7)),
        )
        found = []
        for path in paths(open_ends, LONGEST):
            last = ARCS[path.arcs[-1]][1] if path.arcs else path.start
            terms = [scores[1][path.start], *(scores[0][i] for i in path.arcs), scores[2][last]]
            ids = (path.start, *path.arcs, *[-1] * (LONGEST - 1 - len(path.arcs)))
            found.append((ids, -math.inf if -math.inf in terms else math.fsum(terms)))
        return found

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [(i,) for i in ids[1:] if i >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, PathDistribution)
        weight = structure.weight.clone()
        weight[:, 8] = 1e3 * torch.randn(4).double()
        return PathDistribution(SHAPE, weight, structure.initial, structure.final)


# --- constraints --------------------------------------------------------------------------------------------


def test_a_constraint_conditions_the_distribution() -> None:
    laws = TestPaths()
    whole = laws.structure(Case(3))
    banned = PathConstraint(arcs=torch.arange(len(ARCS)) != 3) & PathConstraint(final=torch.arange(7) != 0)
    banned = banned & PathConstraint(initial=torch.arange(7) != 1)
    left = whole.given(banned)
    for row in range(4):
        members = laws.members(whole, row)
        kept = [(ids, score) for ids, score in members if 3 not in ids[1:] and ids[0] != 1 and len(set(ids)) > 2]
        assert left.log_partition()[row].item() == pytest.approx(moments.log_add([s for _, s in kept]), abs=1e-9)
        assert tuple(left.argmax()[row].tolist()) == max(kept, key=lambda member: member[1])[0]
    assert left.marginals()[:, 3].abs().max() == 0
    assert not torch.equal(whole.weight, left.weight)


def test_constraints_on_labels_leave_epsilons() -> None:
    machine = from_arcs([(0, 1, 1, 2, 0.0), (0, 1, 0, 3, -1.0), (0, 1, 2, 0, -2.0)], [0], [1])
    paths = PathDistribution.of(machine)
    assert paths.given(PathConstraint.labels(machine, [2])).log_partition().item() == pytest.approx(
        log_add([-1.0, -2.0])
    )
    assert paths.given(PathConstraint.labels(machine, [2], side="output")).log_partition().item() == pytest.approx(
        log_add([0.0, -2.0])
    )


def test_infeasible_path_constraint_raises_or_gives_minus_infinity() -> None:
    paths = PathDistribution.of(from_string("ab"))
    nothing = PathConstraint(arcs=torch.tensor([True, False]))
    with pytest.raises(ImpossibleError, match="allows no structure"):
        paths.given(nothing)
    assert paths.given(nothing, on_infeasible="-inf").log_partition() == -math.inf
    with pytest.raises(ShapeError, match="mask weight of a constraint must broadcast"):
        paths.given(PathConstraint(arcs=torch.tensor([True, False, True])))


# --- cycles -------------------------------------------------------------------------------------------------


def cyclic() -> Automaton:
    arcs = [(0, 1, 1, 1, -1.0), (1, 0, 2, 2, -0.7), (1, 1, 3, 0, -1.5), (1, 2, 1, 1, -0.2), (2, 2, 2, 2, -2.0)]
    return from_arcs(arcs, {0: 0.0, 1: -2.0}, {2: -0.5, 0: -3.0})


def as_path(row: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    ids = row.tolist()
    return ids[0], tuple(i for i in ids[1:] if i >= 0)


def long_paths(machine: Automaton) -> list[Path]:
    """All paths of up to 11 arcs: all but a small part of the weight."""
    return sorted(paths(listed(machine), 11), key=lambda p: -p.score)


def test_the_best_paths_of_a_cyclic_machine() -> None:
    machine = cyclic()
    top = PathDistribution.of(machine).topk(12)
    expected = long_paths(machine)[:12]
    assert top.scores.tolist() == pytest.approx([p.score for p in expected])
    assert {as_path(m) for m in top.structures} == {(p.start, p.arcs) for p in expected}
    assert torch.equal(
        PathDistribution.of(machine).argmax(), top.structures[0][: len(PathDistribution.of(machine).argmax())]
    )


def test_sample_frequencies_of_cyclic_automaton_match_probabilities() -> None:
    machine = cyclic()
    n = 4000
    drawn = PathDistribution.of(machine).sample(n, torch.Generator().manual_seed(3))
    counts = Counter(as_path(row) for row in drawn)
    log_z = total(machine).item()
    common = [p for p in long_paths(machine) if p.score - log_z > math.log(5 / n)]
    observed = [counts[p.start, p.arcs] for p in common]
    chances = [math.exp(p.score - log_z) for p in common]
    statistic, freedom = moments.chi_square([*observed, n - sum(observed)], [*chances, 1 - sum(chances)])
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)


def test_counts_entropy_and_scores_over_cycles() -> None:
    machine = cyclic()
    distribution = PathDistribution.of(machine)
    marginals = distribution.marginals()
    assert torch.allclose(marginals, arc_marginals(machine))
    log_z = distribution.log_partition().item()
    found = paths(listed(machine), 15)
    expected, entropy = torch.zeros(machine.n_arcs).double(), 0.0
    for path in found:
        p = math.exp(path.score - log_z)
        entropy -= p * (path.score - log_z)
        for arc in path.arcs:
            expected[arc] += p
    assert torch.allclose(marginals, expected, atol=5e-3)
    assert distribution.entropy().item() == pytest.approx(entropy, abs=3e-2)
    member = distribution.argmax()
    assert distribution.parts(member)[0] == 1
    twice = torch.tensor([0, 0, 1, 0, 3])
    assert distribution.parts(twice).tolist() == [2.0, 1.0, 0.0, 1.0, 0.0]
    assert distribution.score(twice).item() == pytest.approx(-1.0 - 0.7 - 1.0 - 0.2 - 0.5)
    assert distribution.log_prob(twice).item() == pytest.approx(-3.4 - log_z)


def test_score_of_invalid_path_is_minus_infinity() -> None:
    distribution = PathDistribution.of(cyclic())
    for ids in ([0, 3], [1, 0], [2], [0, -1, 0, 3], [-1, -1], [0, 0, 4]):
        assert distribution.score(torch.tensor(ids)) == -math.inf
    assert distribution.score(torch.tensor([0])).item() == -3.0


def test_cycles_of_score_zero_may_be_taken_again() -> None:
    machine = from_arcs([(0, 0, 1, 1, 0.0), (0, 1, 2, 2, -1.0)], [0], [1], MaxSemiring())
    top = PathDistribution(machine, machine.weight, machine.initial, machine.final).topk(3)
    assert top.scores.tolist() == [-1.0, -1.0, -1.0]
    assert {len(as_path(m)[1]) for m in top.structures} == {1, 2, 3}
    with pytest.raises(DivergentSumError):
        best_paths(from_arcs([(0, 0, 1, 1, 0.1), (0, 1, 2, 2, -1.0)], [0], [1], MaxSemiring()))


def test_values_must_fit_the_arcs() -> None:
    with pytest.raises(ShapeError, match=r"\[arcs\] = \[5\]"):
        PathDistribution.of(cyclic()).expectation(torch.zeros(4).double())


def test_the_sampling_semiring_draws_paths_of_acyclic_machines() -> None:
    machine = from_strings(["a", "b", "b"])
    weight = machine.weight.clone().requires_grad_()
    semiring = SamplingSemiring(torch.Generator().manual_seed(0))
    log_z = total(machine.with_weights(weight, machine.initial, machine.final, semiring))
    assert log_z.item() == pytest.approx(math.log(3))
    drawn = [torch.autograd.grad(log_z, weight, retain_graph=True)[0] for _ in range(300)]
    assert all(x.sum() == 2 for x in drawn)
    assert torch.stack(drawn).mean(0)[0].item() == pytest.approx(1 / 3, abs=0.1)


# --- strings ------------------------------------------------------------------------------------------------


def ambiguous() -> Automaton:
    """One path of 'a' is the best of all; but 'b' has more weight in all its three."""
    arcs = [(0, 3, 97, 97, -1.0)] + [(0, q, 98, 98, -1.5) for q in (1, 2, 3)]
    return from_arcs([*arcs, (1, 3, 0, 0, 0.0), (2, 3, 0, 0, 0.0)], [0], [3])


def test_best_paths_are_written_out() -> None:
    found = best_paths(ambiguous(), 10)
    assert [f.score for f in found] == pytest.approx([-1.0, -1.5, -1.5, -1.5])
    assert [f.input for f in found] == [(97,), (98,), (98,), (98,)]
    model = compose(compose(from_string("ab"), edit_model("ab")), from_string("b"))
    (best,) = best_paths(model)
    assert (best.input, best.output, best.score) == ((97, 98), (98,), -1.0)
    assert best_paths(from_arcs([], [0], []), 3) == []


def test_best_strings_come_once_each() -> None:
    by_path = best_strings(ambiguous().over(MaxSemiring()), 5)
    assert [(f.input, f.score) for f in by_path] == [((97,), -1.0), ((98,), -1.5)]
    by_cost = best_strings(ambiguous().over(TropicalSemiring()), 5)
    assert by_cost == by_path
    by_weight = best_strings(ambiguous(), 5)
    assert [f.input for f in by_weight] == [(98,), (97,)]
    assert by_weight[0].score == pytest.approx(-1.5 + math.log(3))
    assert best_strings(from_arcs([], [0], [])) == []


def test_best_strings_of_transducers_and_cycles() -> None:
    machine = cyclic()
    for side in ("input", "output"):
        place = 0 if side == "input" else 1
        lists: dict = {}
        for path in paths(listed(machine), 12):
            lists.setdefault((path.read, path.written)[place], []).append(path.score)
        for semiring, plus in ((LogSemiring(), log_add), (MaxSemiring(), max)):
            expected = sorted((plus(v) for v in lists.values()), reverse=True)[:6]
            found = best_strings(machine.over(semiring), 6, side)
            assert [f.score for f in found] == pytest.approx(expected, abs=1e-4)
            assert all(plus(lists[f.input]) == pytest.approx(f.score, abs=1e-4) for f in found)


def test_best_strings_stops_at_limit() -> None:
    from catena.errors import LimitError

    arcs = [(0, 0, i, i, -1.2) for i in (1, 2, 3)]
    machine = from_arcs(arcs, [0], {0: -9.0})
    with pytest.raises(LimitError, match="within limit=50 prefixes"):
        best_strings(machine, 40, limit=50)


def test_failures_are_followed_in_searches() -> None:
    machine = from_arcs(
        [(0, 2, 1, 1, -1.0), (0, 1, FAILURE, FAILURE, 0.0), (1, 2, 1, 1, 0.0), (1, 2, 2, 2, -3.0)], [0], [2]
    )
    assert [(f.input, f.score) for f in best_paths(machine, 5)] == [((1,), -1.0), ((2,), -3.0)]
    assert [f.input for f in best_strings(machine, 5)] == [(1,), (2,)]
    assert PathDistribution.of(machine).log_partition().item() == pytest.approx(log_add([-1.0, -3.0]))
    assert len(table(paths(listed(PathDistribution.of(machine).machine), 3), log_add)) == 2
