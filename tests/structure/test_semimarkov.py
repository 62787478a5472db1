"""Segmentations: the inherited laws and further tests."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from catena.errors import ImpossibleError, ShapeError
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain
from catena.structure.segment_constraints import SegmentConstraint
from catena.structure.semimarkov import SemiMarkov
from tests.laws.structure_checks import agrees_in_every_semiring, first_row_is_empty, numbers_of
from tests.laws.structure_laws import FEW_CASES, Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle.moments import log_add
from tests.oracle.segments import all_segmentations

LENGTHS = torch.tensor([4, 1, 3, 2])


def listed(structure: SemiMarkov, row: int) -> list[Member]:
    """All segmentations of one row, by the oracle."""
    n = structure.segments.shape[-3] if structure.lengths is None else int(structure.lengths[row])
    return all_segmentations(*numbers_of(structure.score_tensors(), structure.ranks, row), n)


class SegmentLaws(StructureLaws):
    field_ranks: ClassVar = {"segments": 3, "transitions": 2, "start": 1, "end": 1, "lengths": 0}

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, SemiMarkov)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [(i, j - i - 1, y) for i, j, y in ids if i >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, SemiMarkov)
        t, m, _ = structure.segments.shape[-3:]
        ends = torch.arange(t)[:, None] + torch.arange(1, m + 1)
        beyond = ends > structure._lengths()[:, None, None]
        noise = 1e3 * torch.randn(structure.segments.shape).double()
        return replace(structure, segments=torch.where(beyond[..., None], noise, structure.segments))


class TestWithTransitions(SegmentLaws):
    def structure(self, case: Case) -> SemiMarkov:
        shapes = [(4, 4, 3, 2), (2, 2), (2,), (2,)]
        return SemiMarkov(*(case.draw(*s, salt=n) for n, s in enumerate(shapes)), lengths=LENGTHS)


class TestSegmentsAlone(SegmentLaws):
    cases = FEW_CASES

    def structure(self, case: Case) -> SemiMarkov:
        return SemiMarkov(case.draw(4, 4, 2, 2), lengths=LENGTHS)


class TestTransitionsOfEachRow(SegmentLaws):
    cases = FEW_CASES

    def structure(self, case: Case) -> SemiMarkov:
        return SemiMarkov(case.draw(4, 3, 5, 2), case.draw(4, 2, 2, salt=1), lengths=torch.tensor([3, 1, 2, 3]))


def small() -> SemiMarkov:
    case = Case(seed=31)
    return SemiMarkov(case.draw(2, 4, 3, 2), case.draw(2, 2, salt=1), lengths=torch.tensor([4, 3]))


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestSegments:
    def test_segments_of_length_one_equal_linear_chain(self, backend: str) -> None:
        case = Case(seed=3)
        emissions, transitions, start, end = (case.draw(*s) for s in ((2, 5, 3), (3, 3), (3,), (3,)))
        lengths = torch.tensor([5, 2])
        with use_backend(backend):
            chain = LinearChain(emissions, transitions, start, end, lengths=lengths)
            segments = SemiMarkov(emissions[:, :, None], transitions, start, end, lengths)
            assert torch.allclose(segments.log_partition(), chain.log_partition())
            assert torch.allclose(segments.marginals()[:, :, 0], chain.marginals())
            assert torch.equal(segments.argmax()[..., 2], chain.argmax())

    def test_empty_sequence_has_one_structure_of_score_zero(self, backend: str) -> None:
        with use_backend(backend):
            structure = replace(small(), lengths=torch.tensor([0, 4]))
            first_row_is_empty(structure)

    def test_from_emissions_sums_positions_and_durations(self, backend: str) -> None:
        case = Case(seed=5)
        emissions, durations = case.draw(2, 4, 2), case.draw(3, 2, salt=1)
        with use_backend(backend):
            structure = SemiMarkov.from_emissions(emissions, durations, lengths=torch.tensor([4, 3]))
            for row, n in ((0, 4), (1, 3)):
                scores = [
                    sum(
                        sum(float(emissions[row, p, y]) for p in range(i, j)) + float(durations[j - i - 1, y])
                        for i, j, y in ids
                        if i >= 0
                    )
                    for ids, _ in all_segmentations([[[0.0] * 2] * 3] * 4, None, None, None, n)
                ]
                assert structure.log_partition()[row].item() == pytest.approx(log_add(scores), abs=1e-12)

    def test_length_of_one_row_does_not_change_another(self, backend: str) -> None:
        with use_backend(backend):
            whole, shorter = replace(small(), lengths=None), small()
            assert torch.equal(whole.argmax()[0], shorter.argmax()[0])
            assert torch.allclose(whole.log_partition()[0], shorter.log_partition()[0])


def test_score_of_invalid_segmentation_is_minus_infinity() -> None:
    structure = small()
    nothing = [-1, -1, -1]
    for wrong in (
        [[0, 2, 0], nothing, nothing, nothing],  # ends too early
        [[0, 4, 0], nothing, nothing, nothing],  # longer than m = 3
        [[0, 2, 0], [1, 4, 1], nothing, nothing],  # overlaps
        [[1, 4, 0], nothing, nothing, nothing],  # begins too late
        [nothing, [0, 2, 0], [2, 4, 0], nothing],  # is not packed to the front
        [[0, 2, 2], [2, 4, 0], nothing, nothing],  # has no such label
    ):
        y = torch.tensor([wrong, [[0, 3, 1], nothing, nothing, nothing]])
        assert structure.score(y)[0] == -math.inf
        assert structure.log_prob(y)[0] == -math.inf
        assert structure.score(y)[1] > -math.inf


def test_fixing_segments_conditions_the_distribution() -> None:
    structure = small()
    known = torch.tensor([[[1, 3, 1], [-1, -1, -1]], [[0, 1, -1], [-1, -1, -1]]])
    given = structure.given(SegmentConstraint.fixing(known, t=4, m=3, k=2))
    for row in range(2):
        begin, end, label = known[row, 0].tolist()
        kept = [
            s for ids, s in listed(structure, row)
            if any((i, j) == (begin, end) and label in (-1, y) for i, j, y in ids)
        ]  # fmt: skip
        assert given.log_partition()[row].item() == pytest.approx(log_add(kept), abs=1e-12)


def test_segment_constraints_combine_and_infeasible_one_raises() -> None:
    alternate = SegmentConstraint(transitions=~torch.eye(2, dtype=torch.bool))
    short = SegmentConstraint(segments=torch.tensor([True, False, False])[:, None].expand(2, 4, 3, 2))
    best = small().given(alternate & short).argmax()[0]
    assert best[:, 1].tolist() == [1, 2, 3, 4]
    assert all(a != b for a, b in zip(best[:-1, 2].tolist(), best[1:, 2].tolist(), strict=True))
    never = SegmentConstraint(segments=torch.zeros(2, 4, 3, 2, dtype=torch.bool))
    with pytest.raises(ImpossibleError, match=r"allows no structure for 2 of 2 distributions \(batch rows 0, 1\)"):
        small().given(never)
    assert (small().given(never, on_infeasible="-inf").log_partition() == -math.inf).all()


def test_reference_program_agrees_in_every_semiring() -> None:
    structure = small()
    value = replace(structure, segments=Case(seed=9).draw(*structure.segments.shape))
    agrees_in_every_semiring(structure, value, [len(listed(structure, row)) for row in range(2)])


def test_wrong_shape_raises_error_with_tensor_name() -> None:
    with pytest.raises((ShapeError, TypeError), match="transitions"):
        SemiMarkov(torch.zeros(2, 4, 3, 2), torch.zeros(3, 3))
    with pytest.raises(ShapeError, match=r"must end in the axes \[t, m, k\] = \[4, 3, 2\]"):
        small().expectation(torch.zeros(4, 2))
    with pytest.raises(ShapeError, match="at least one position, one length and one label"):
        SemiMarkov(torch.zeros(2, 4, 0, 2))
