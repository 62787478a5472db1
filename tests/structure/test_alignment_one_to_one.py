"""One-to-one alignments: the inherited laws and further tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from catena.errors import ImpossibleError, ShapeError
from catena.structure.alignment import Alignment
from catena.structure.alignment_one_to_one import OneToOneAlignment, PairConstraint
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from tests.laws.structure_checks import agrees_in_every_semiring, numbers_of
from tests.laws.structure_laws import Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle import alignments
from tests.oracle.moments import log_add

SOURCE, TARGET = torch.tensor([4, 1, 2, 0]), torch.tensor([3, 3, 1, 2])


def listed(alignment: OneToOneAlignment, row: int) -> list[Member]:
    """All alignments of one row, by the oracle."""
    s, t = alignment.scores.shape[-2:]
    n = s if alignment.source_lengths is None else int(alignment.source_lengths[row])
    m = t if alignment.target_lengths is None else int(alignment.target_lengths[row])
    return alignments.all_one_to_one(*numbers_of(alignment.score_tensors(), alignment.ranks, row), n, m, s)


class OneToOneLaws(StructureLaws):
    field_ranks: ClassVar = {
        "scores": 2, "source_gaps": 1, "target_gaps": 1, "source_lengths": 0, "target_lengths": 0,
    }  # fmt: skip

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, OneToOneAlignment)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [(i, j) for i, j in enumerate(ids) if j >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, OneToOneAlignment)
        assert structure.source_lengths is not None
        assert structure.target_lengths is not None
        s, t = structure.scores.shape[-2:]
        rows, columns = (
            torch.arange(s) < structure.source_lengths[:, None],
            torch.arange(t) < structure.target_lengths[:, None],
        )
        masks = rows[:, :, None] & columns[:, None, :], rows, columns
        names = "scores", "source_gaps", "target_gaps"
        spoiled = {
            name: torch.where(mask, x, 1e3 * torch.randn(mask.shape).double())
            for name, mask, x in zip(names, masks, structure.score_tensors(), strict=True)
        }
        return replace(structure, **spoiled)


class TestScoredGaps(OneToOneLaws):
    def structure(self, case: Case) -> OneToOneAlignment:
        scores = case.draw(4, 4, 3), case.draw(4, 4, salt=1), case.draw(3, salt=2)
        return OneToOneAlignment(*scores, SOURCE, TARGET)


class TestFreeGaps(OneToOneLaws):
    """Gaps score 0, so some alignment is always possible."""

    def structure(self, case: Case) -> OneToOneAlignment:
        return OneToOneAlignment(case.draw(4, 3, 4), None, None, torch.tensor([3, 1, 2, 3]), torch.tensor([4, 3, 1, 2]))

    def test_impossible_row_has_log_partition_minus_infinity_and_zero_gradient(self) -> None:
        structure = self.structure(Case(never=1.0))
        assert (structure.log_partition() == 0).all()  # the only structure has no pairs
        assert (structure.marginals() == 0).all()
        assert (structure.sample(2) == -1).all()


def small(**changes: object) -> OneToOneAlignment:
    case = Case(seed=31)
    return replace(OneToOneAlignment(case.draw(2, 3, 4), case.draw(2, 3, salt=1), case.draw(4, salt=2)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestPairs:
    def test_log_partition_counts_each_set_of_pairs_once(self, backend: str) -> None:
        with use_backend(backend):
            log_z = OneToOneAlignment(torch.zeros(6, 7).double()).log_partition()
            assert log_z.exp().item() == pytest.approx(math.comb(13, 6))  # Vandermonde: Σ C(6, k) C(7, k)
            assert Alignment(torch.zeros(6, 7).double()).log_partition() > log_z

    def test_gaps_of_minus_infinity_require_pairs(self, backend: str) -> None:
        scores = Case(seed=4).draw(2, 3, 5)
        never = torch.full((3,), -math.inf).double()
        with use_backend(backend):
            alignment = OneToOneAlignment(scores, source_gaps=never)
            assert torch.allclose(alignment.marginals().sum(-1), torch.ones(2, 3).double())
            assert (alignment.sample(20) >= 0).all()
            turned = OneToOneAlignment(scores.transpose(1, 2), target_gaps=never)
            assert torch.allclose(turned.log_partition(), alignment.log_partition())
            assert (
                OneToOneAlignment(scores.transpose(1, 2), source_gaps=never.new_full((5,), -math.inf)).log_partition()
                == -math.inf
            ).all()

    def test_exchanging_source_and_target_keeps_the_distribution(self, backend: str) -> None:
        with use_backend(backend):
            alignment = small()
            scores, drop, put = alignment.score_tensors()
            turned = OneToOneAlignment(scores.transpose(1, 2), put, drop)
            assert torch.allclose(alignment.log_partition(), turned.log_partition())
            assert torch.allclose(alignment.marginals(), turned.marginals().transpose(1, 2))
            back = OneToOneAlignment(scores.flip(1, 2), drop.flip(1), put.flip(0))
            assert torch.allclose(alignment.log_partition(), back.log_partition())

    def test_empty_sequences_have_one_alignment_of_score_zero(self, backend: str) -> None:
        with use_backend(backend):
            alignment = small(source_lengths=torch.tensor([0, 3]), target_lengths=torch.tensor([0, 4]))
            assert alignment.log_partition()[0] == 0
            assert alignment.entropy()[0] == 0
            assert (alignment.argmax()[0] == -1).all()
            assert alignment.topk(2).scores[:, 0].tolist() == [0, -math.inf]

    @pytest.mark.parametrize(("s", "t"), [(0, 3), (3, 0), (0, 0)])
    def test_one_side_without_positions_is_valid(self, backend: str, s: int, t: int) -> None:
        drop, put = Case(seed=3).draw(2, s), Case(seed=4).draw(2, t)
        with use_backend(backend):
            alignment = OneToOneAlignment(torch.zeros(2, s, t).double(), drop, put)
            assert torch.allclose(alignment.log_partition(), drop.sum(-1) + put.sum(-1))
            assert alignment.argmax().tolist() == [[-1] * s] * 2
            assert torch.allclose(alignment.max(), drop.sum(-1) + put.sum(-1))
            assert alignment.sample(3).shape == (3, 2, s)

    def test_empty_batch_gives_empty_results(self, backend: str) -> None:
        with use_backend(backend):
            alignment = OneToOneAlignment(torch.zeros(0, 3, 2))
            assert alignment.log_partition().shape == (0,)
            assert alignment.argmax().shape == (0, 3)

    def test_argmax_with_ties_is_one_valid_alignment(self, backend: str) -> None:
        with use_backend(backend):
            alignment = OneToOneAlignment(torch.zeros(2, 5, 4), source_lengths=torch.tensor([5, 3]))
            assert alignment.log_prob(alignment.argmax()).isfinite().all()
            top = alignment.topk(40).structures
            assert len({tuple(one.tolist()) for one in top[:, 0]}) == 40


class TestScores:
    @pytest.mark.parametrize(
        ("partners", "fault"),
        [([2, 1, -1], "crosses"), ([1, 1, -1], "has a position in two pairs"), ([0, -1, 4], "has no such position")],
    )
    def test_score_of_crossing_or_repeated_pairs_is_minus_infinity(self, partners: list[int], fault: str) -> None:
        alignment = OneToOneAlignment(torch.zeros(3, 4))
        assert alignment.score(torch.tensor([0, -1, 2])) == 0
        assert alignment.score(torch.tensor(partners)) == -math.inf, fault

    def test_wrong_shape_raises_error_with_tensor_name(self) -> None:
        with pytest.raises((ShapeError, TypeError), match="scores"):
            OneToOneAlignment(torch.zeros(3))
        with pytest.raises((ShapeError, TypeError), match="source_gaps"):
            small(source_gaps=torch.zeros(4).double())
        with pytest.raises((ShapeError, TypeError), match="target_gaps"):
            small(target_gaps=torch.zeros(3, 4).double())
        with pytest.raises((ShapeError, TypeError), match="target_lengths"):
            small(target_lengths=torch.tensor([1, 2, 3]))
        with pytest.raises(ShapeError, match=r"must end in the axes \[s, t\] = \[3, 4\]"):
            small().expectation(torch.zeros(4, 3))


class TestConstraints:
    def check(self, constraint: PairConstraint, keep: Callable[[dict[int, int]], bool]) -> None:
        def pairs(ids: Iterable[int]) -> dict[int, int]:
            return {i: j for i, j in enumerate(ids) if j >= 0}

        given = small().given(constraint)
        for row in range(2):
            kept = [s for ids, s in listed(small(), row) if keep(pairs(ids))]
            assert given.log_partition()[row].item() == pytest.approx(log_add(kept), abs=1e-12)
        assert all(keep(pairs(ids)) for ids in given.sample(20).flatten(0, 1).tolist())

    def test_fixing_and_forbidding_pairs(self) -> None:
        fixed = PairConstraint.fixing(torch.tensor([[1, 2], [-1, -1]]), 3, 4)
        forbidden = PairConstraint.forbidding(torch.tensor([[0, 0], [2, 3]]), 3, 4)
        self.check(fixed, lambda pairs: pairs.get(1) == 2)
        self.check(forbidden, lambda pairs: pairs.get(0) != 0 and pairs.get(2) != 3)
        self.check(fixed & forbidden, lambda p: p.get(1) == 2 and p.get(0) != 0 and p.get(2) != 3)

    def test_gap_constraint_requires_pairs(self) -> None:
        must = PairConstraint(target_gaps=torch.tensor([True, False, True, True]))
        self.check(must, lambda pairs: 1 in pairs.values())

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        crossing = PairConstraint.fixing(torch.tensor([[[0, 2], [1, 1]], [[0, 1], [1, 2]]]), 3, 4)
        with pytest.raises(ImpossibleError, match=r"allows no structure for 1 of 2 distributions \(batch row 0\)"):
            small(constraint=crossing)
        alignment = small(constraint=crossing, on_infeasible="-inf")
        assert alignment.log_partition()[0] == -math.inf
        assert alignment.log_partition()[1].isfinite()

    def test_invalid_constraint_raises_clear_error(self) -> None:
        with pytest.raises(ShapeError, match="mask pairs of a constraint must broadcast"):
            small(constraint=PairConstraint(torch.ones(3, 3).bool()))


def test_reference_program_agrees_in_every_semiring() -> None:
    alignment = small(source_lengths=torch.tensor([3, 2]))
    value = replace(alignment, scores=Case(seed=9).draw(2, 3, 4))
    agrees_in_every_semiring(alignment, value, [math.comb(7, 3), math.comb(6, 2)])
