"""Alignments: the inherited laws and further tests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from catena.errors import ImpossibleError, ShapeError
from catena.structure.alignment import Alignment, edit_distance
from catena.structure.alignment_constraints import AlignmentConstraint
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.semirings import TropicalSemiring
from tests.laws.structure_checks import agrees_in_every_semiring, numbers_of
from tests.laws.structure_laws import Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle import alignments
from tests.oracle.moments import log_add, probabilities

SOURCE, TARGET = torch.tensor([3, 1, 2, 0]), torch.tensor([3, 3, 1, 2])


def listed(alignment: Alignment, row: int) -> list[Member]:
    """All alignments of one row, by the oracle."""
    s, t = alignment.substitutions.shape[-2:]
    n = s if alignment.source_lengths is None else int(alignment.source_lengths[row])
    m = t if alignment.target_lengths is None else int(alignment.target_lengths[row])
    return alignments.all_alignments(*numbers_of(alignment.score_tensors(), alignment.ranks, row), n, m, s + t)


class AlignmentLaws(StructureLaws):
    field_ranks: ClassVar = {
        "substitutions": 2, "insertions": 2, "deletions": 2, "source_lengths": 0, "target_lengths": 0,
    }  # fmt: skip

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, Alignment)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [(i, j) for operation, i, j in alignments.cells_of(ids) if operation == 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, Alignment)
        assert structure.source_lengths is not None
        assert structure.target_lengths is not None
        s, t = structure.substitutions.shape[-2:]
        n, m = structure.source_lengths[:, None, None], structure.target_lengths[:, None, None]
        rows, columns = torch.arange(s + 1)[:, None], torch.arange(t + 1)
        real = {
            "substitutions": ((rows < n) & (columns < m))[:, :-1, :-1],
            "insertions": ((rows <= n) & (columns < m))[:, :, :-1],
            "deletions": ((rows < n) & (columns <= m))[:, :-1, :],
        }
        whole = structure.score_tensors()._asdict()
        changed = {name: torch.where(mask, whole[name], noise(mask)) for name, mask in real.items()}
        return replace(structure, **changed)


def noise(like: Tensor) -> Tensor:
    return 1e3 * torch.randn(like.shape).double()


class TestScoresForEachCell(AlignmentLaws):
    def structure(self, case: Case) -> Alignment:
        scores = case.draw(4, 3, 3), case.draw(4, 4, 3, salt=1), case.draw(4, 3, 4, salt=2)
        return Alignment(*scores, SOURCE, TARGET)


class TestSharedGaps(AlignmentLaws):
    def structure(self, case: Case) -> Alignment:
        scores = case.draw(4, 3, 3), case.draw(4, 1, 3, salt=1), case.draw(3, 1, salt=2)
        return Alignment(*scores, SOURCE, TARGET)

    def differentiated(
        self, case: Case, ask: Callable[[StructuredDistribution], Tensor]
    ) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        """Differentiate with respect to shared gaps, as alignments that differ in the order of gaps tie."""
        structure = self.structure(case)
        fields = structure.substitutions, structure.insertions, structure.deletions
        inputs = tuple(x.clone().requires_grad_() for x in fields if x is not None)
        return lambda *tensors: ask(structure.with_score_tensors(tensors)), inputs


def small(**changes: object) -> Alignment:
    case = Case(seed=31)
    scores = case.draw(2, 3, 4), case.draw(2, 4, 4, salt=1), case.draw(2, 3, 5, salt=2)
    return replace(Alignment(*scores), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestOperations:
    def test_operation_marginals_equal_enumeration(self, backend: str) -> None:
        with use_backend(backend):
            shared = small(insertions=Case(seed=4).draw(1, 4), deletions=Case(seed=5).draw(2, 3, 1))
            for alignment in (small(), shared, small(source_lengths=torch.tensor([2, 0]))):
                found = alignment.operation_marginals()
                visited = alignment.cell_marginals()
                for row in range(2):
                    members = listed(alignment, row)
                    expected = [torch.zeros_like(x[row]) for x in found]
                    cells = torch.zeros_like(visited[row])
                    for (ids, _), p in zip(members, probabilities([s for _, s in members]), strict=True):
                        for operation, i, j in alignments.cells_of(ids):
                            expected[operation][i, j] += p
                            i, j = i + (operation != 1), j + (operation != 2)
                            if i > 0 and j > 0:
                                cells[i - 1, j - 1] += p
                    for a, b in zip(found, expected, strict=True):
                        assert (a[row] - b).abs().max() < 1e-12
                    assert (visited[row] - cells).abs().max() < 1e-12

    def test_operation_parts_and_pairs_describe_an_alignment(self, backend: str) -> None:
        with use_backend(backend):
            alignment = small()
            y = torch.tensor([1, 0, 2, 0, 1, -1, -1])
            found = alignment.operation_parts(y)
            assert found.substitutions.nonzero().tolist() == [[0, 1], [2, 2]]
            assert found.insertions.nonzero().tolist() == [[0, 0], [3, 3]]
            assert found.deletions.nonzero().tolist() == [[1, 2]]
            assert [x.shape for x in found] == [x.shape[1:] for x in alignment.operation_marginals()]
            pairs = [[-1, 0], [0, 1], [1, -1], [2, 2], [-1, 3], [-1, -1], [-1, -1]]
            assert alignment.pairs(y).tolist() == pairs

    def test_empty_sequences_have_one_alignment_of_score_zero(self, backend: str) -> None:
        with use_backend(backend):
            alignment = small(source_lengths=torch.tensor([0, 3]), target_lengths=torch.tensor([0, 4]))
            assert alignment.log_partition()[0] == 0
            assert alignment.max()[0] == 0
            assert alignment.entropy()[0] == 0
            assert (alignment.argmax()[0] == -1).all()
            assert (alignment.marginals()[0] == 0).all()
            assert alignment.topk(2).scores[:, 0].tolist() == [0, -math.inf]
            assert (alignment.sample(2)[:, 0] == -1).all()

    @pytest.mark.parametrize(("s", "t"), [(0, 3), (3, 0), (0, 0)])
    def test_one_side_without_positions_is_valid(self, backend: str, s: int, t: int) -> None:
        case = Case(seed=3)
        with use_backend(backend):
            alignment = Alignment(case.draw(2, s, t), case.draw(2, s + 1, t), case.draw(2, s, t + 1))
            assert alignment.argmax().tolist() == [[1] * t + [2] * s] * 2
            expected = alignment.insertions.sum((-2, -1)) + alignment.deletions.sum((-2, -1))  # type: ignore[union-attr]
            assert torch.allclose(alignment.log_partition(), expected)
            assert torch.allclose(alignment.max(), expected)
            assert alignment.sample(3).shape == (3, 2, s + t)
            assert alignment.marginals().shape == (2, s, t)

    def test_empty_batch_gives_empty_results(self, backend: str) -> None:
        with use_backend(backend):
            alignment = Alignment(torch.zeros(0, 3, 2))
            assert alignment.log_partition().shape == (0,)
            assert alignment.argmax().shape == (0, 5)
            assert alignment.sample(2).shape == (2, 0, 5)

    def test_argmax_with_ties_is_one_valid_alignment(self, backend: str) -> None:
        with use_backend(backend):
            alignment = Alignment(torch.zeros(2, 5, 4), source_lengths=torch.tensor([5, 3]))
            assert alignment.log_prob(alignment.argmax()).isfinite().all()
            top = alignment.topk(40).structures
            assert len({tuple(one.tolist()) for one in top[:, 0]}) == 40

    def test_many_to_many_equals_dynamic_time_warping(self, backend: str) -> None:
        scores = Case(seed=6).draw(3, 4)
        walks = [math.fsum(float(scores[i, j]) for i, j in path) for path in alignments.warping_paths(3, 4)]
        with use_backend(backend):
            alignment = Alignment.many_to_many(scores)
            assert alignment.log_partition().item() == pytest.approx(log_add(walks), abs=1e-12)
            assert alignment.max().item() == pytest.approx(max(walks), abs=1e-12)
            expected = torch.zeros_like(scores)
            for path, p in zip(alignments.warping_paths(3, 4), probabilities(walks), strict=True):
                for cell in path:
                    expected[cell] += p
            assert (alignment.cell_marginals() - expected).abs().max() < 1e-12
            empty = Alignment.many_to_many(scores, torch.tensor(0), torch.tensor(2))
            assert empty.log_partition() == -math.inf

    def test_one_to_many_segments_the_target(self, backend: str) -> None:
        scores = Case(seed=7).draw(3, 5)
        cuts = [(a, b) for a in range(1, 4) for b in range(a + 1, 5)]
        runs = [sum(float(scores[(j >= a) + (j >= b), j]) for j in range(5)) for a, b in cuts]
        with use_backend(backend):
            alignment = Alignment.one_to_many(scores)
            assert alignment.log_partition().item() == pytest.approx(log_add(runs), abs=1e-12)
            assert alignment.cell_marginals().sum(0).tolist() == pytest.approx([1.0] * 5)
            assert Alignment.one_to_many(scores.T).log_partition() == -math.inf


class TestEditDistance:
    def drawn(self, seed: int) -> tuple[list[list[int]], list[list[int]]]:
        chance = random.Random(seed)
        words = [[chance.randrange(3) for _ in range(chance.randrange(9))] for _ in range(24)]
        return words[:12], words[12:]

    def padded(self, words: list[list[int]]) -> tuple[Tensor, Tensor]:
        rows = torch.full((len(words), max(map(len, words))), -7)
        for row, word in enumerate(words):
            rows[row, : len(word)] = torch.tensor(word)
        return rows, torch.tensor([len(word) for word in words])

    @pytest.mark.parametrize("backend", ["reference", "kernels"])
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_edit_distance_equals_textbook_recursion(self, seed: int, backend: str) -> None:
        sources, targets = self.drawn(seed)
        (source, n), (target, m) = self.padded(sources), self.padded(targets)
        with use_backend(backend):
            found = edit_distance(source, target, n, m)
        assert found.tolist() == [alignments.edit_distance(a, b) for a, b in zip(sources, targets, strict=True)]

    def test_edit_distance_equals_tropical_total(self) -> None:
        source, target = torch.tensor([1, 2, 3, 1]), torch.tensor([2, 3, 3, 1, 1])
        differs = (source[:, None] != target).double()
        one = torch.full((1, 1), -1.0).double()
        least = Alignment(-differs, one, one).total(TropicalSemiring())
        assert least.item() == edit_distance(source, target).item() == 3

    def test_edit_uses_symbol_tables_as_scores(self) -> None:
        case = Case(seed=8)
        tables = case.draw(4, 5), case.draw(5, salt=1), case.draw(4, salt=2)
        source, target = torch.tensor([[1, 3, 2], [0, 1, -9]]), torch.tensor([[4, 0], [2, 2]])
        n = torch.tensor([3, 2])
        found = Alignment.edit(source, target, *tables, source_lengths=n).log_partition()
        for row in range(2):
            a, b = source[row, : n[row]].tolist(), target[row].tolist()
            swap, put, drop = (table.tolist() for table in tables)
            members = alignments.all_alignments(
                [[swap[x][y] for y in b] for x in a], [[put[y] for y in b]] * (len(a) + 1),
                [[drop[x]] * (len(b) + 1) for x in a], len(a), len(b), 9,
            )  # fmt: skip
            assert found[row].item() == pytest.approx(log_add([s for _, s in members]), abs=1e-12)

    def test_log_partition_of_zero_scores_counts_alignments(self) -> None:
        log_z = Alignment.edit(torch.zeros(1, 3).long(), torch.zeros(1, 3).long(), torch.zeros(1, 1)).log_partition()
        assert log_z.exp().item() == pytest.approx(63, rel=1e-5)  # the central Delannoy number


class TestScores:
    @pytest.mark.parametrize(
        ("operations", "fault"),
        [
            ([0, 0, -1, -1], "leaves a source position unused"),
            ([0, 0, 2, 1], "uses a target position too many"),
            ([0, -1, 0, 2], "has a hole"),
            ([0, 0, 3, -1], "has an unknown code"),
            ([-1, -1, -1, -1], "does nothing"),
        ],
    )
    def test_score_of_invalid_alignment_is_minus_infinity(self, operations: list[int], fault: str) -> None:
        alignment = Alignment(torch.zeros(3, 2))
        assert alignment.score(torch.tensor([0, 0, 2, -1])) == 0
        assert alignment.score(torch.tensor(operations)) == -math.inf, fault

    def test_wrong_shape_raises_error_with_tensor_name(self) -> None:
        with pytest.raises((ShapeError, TypeError), match="substitutions"):
            Alignment(torch.zeros(3))
        with pytest.raises((ShapeError, TypeError), match="insertions"):
            small(insertions=torch.zeros(3, 4).double())
        with pytest.raises((ShapeError, TypeError), match="deletions"):
            small(deletions=torch.zeros(2, 2, 3, 5).double())
        with pytest.raises((ShapeError, TypeError), match="source_lengths"):
            small(source_lengths=torch.tensor([1, 2, 3]))
        with pytest.raises(ShapeError, match=r"must end in the axes \[s, t\] = \[3, 4\]"):
            small().expectation(torch.zeros(4, 3))


class TestConstraints:
    def check(self, constraint: AlignmentConstraint, keep: Callable[[list[tuple[int, int, int]]], bool]) -> None:
        alignment = small()
        given = alignment.given(constraint)
        for row in range(2):
            kept = [s for ids, s in listed(alignment, row) if keep(alignments.cells_of(ids))]
            assert given.log_partition()[row].item() == pytest.approx(log_add(kept), abs=1e-12)
        for ids in given.sample(20).flatten(0, 1).tolist():
            assert keep(alignments.cells_of(ids))

    def test_forbidding_excludes_cells(self) -> None:
        pairs = torch.tensor([[0, 1], [2, 2], [-1, -1]])
        self.check(AlignmentConstraint.forbidding(pairs, 3, 4), lambda cells: not {(0, 0, 1), (0, 2, 2)} & set(cells))

    def test_fixing_requires_cells(self) -> None:
        pairs = torch.tensor([[0, 1], [2, 2], [-1, -1]])
        self.check(AlignmentConstraint.fixing(pairs, 3, 4), lambda cells: {(0, 0, 1), (0, 2, 2)} <= set(cells))

    def test_fixing_and_forbidding_combine(self) -> None:
        both = AlignmentConstraint.fixing(torch.tensor([[0, 1]]), 3, 4) & AlignmentConstraint.forbidding(
            torch.tensor([[1, 2]]), 3, 4
        )
        self.check(both, lambda cells: (0, 0, 1) in cells and (0, 1, 2) not in cells)

    def test_band_excludes_cells_far_from_the_diagonal(self) -> None:
        def near(cells: list[tuple[int, int, int]]) -> bool:
            ends = [(i + (operation != 1), j + (operation != 2)) for operation, i, j in cells]
            return all(abs(i - j) <= 1 for i, j in ends)

        self.check(AlignmentConstraint.band(3, 4, 1), near)

    def test_constraint_forbids_operations_by_kind(self) -> None:
        none = AlignmentConstraint(deletions=torch.zeros(3, 5).bool())
        self.check(none, lambda cells: all(operation != 2 for operation, _, _ in cells))

    def test_constraint_may_differ_in_each_row(self) -> None:
        pairs = torch.tensor([[[1, 1]], [[-1, -1]]])
        given = small().given(AlignmentConstraint.fixing(pairs, 3, 4))
        assert given.marginals()[0, 1, 1].item() == pytest.approx(1)
        assert torch.equal(given.substitutions[1], small().substitutions[1])

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        crossing = AlignmentConstraint.fixing(torch.tensor([[[0, 2], [1, 1]], [[0, 1], [1, 2]]]), 3, 4)
        with pytest.raises(ImpossibleError, match=r"allows no structure for 1 of 2 distributions \(batch row 0\)"):
            small(constraint=crossing)
        alignment = small(constraint=crossing, on_infeasible="-inf")
        assert alignment.log_partition()[0] == -math.inf
        assert alignment.log_partition()[1].isfinite()
        assert (alignment.argmax()[0] == -1).all()

    def test_invalid_constraint_raises_clear_error(self) -> None:
        with pytest.raises(ShapeError, match=r"0 <= target < t = 4, got \(2, 4\)"):
            AlignmentConstraint.fixing(torch.tensor([[2, 4]]), 3, 4)
        with pytest.raises(ShapeError, match=r"got \(2, -1\)"):
            AlignmentConstraint.forbidding(torch.tensor([[2, -1]]), 3, 4)
        with pytest.raises(ShapeError, match=r"\[\*batch, n, 2\] with rows \(source, target\)"):
            AlignmentConstraint.fixing(torch.zeros(2, 3).long(), 3, 4)
        with pytest.raises(ShapeError, match="mask insertions of a constraint must broadcast"):
            small(constraint=AlignmentConstraint(insertions=torch.ones(3, 4).bool()))


def test_reference_program_agrees_in_every_semiring() -> None:
    alignment = small(source_lengths=torch.tensor([3, 2]))
    value = replace(alignment, substitutions=Case(seed=9).draw(2, 3, 4))
    agrees_in_every_semiring(alignment, value, [129, 41])
