"""Span trees: the inherited laws and further tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from catena.errors import ImpossibleError, ShapeError
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.span_constraints import SpanConstraint
from catena.structure.tree import SpanTree
from tests.laws.structure_checks import agrees_in_every_semiring, first_row_is_empty
from tests.laws.structure_laws import Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle.moments import log_add, probabilities
from tests.oracle.trees import Span, all_span_trees, keeping


def listed(tree: SpanTree, row: int) -> list[Member]:
    """All trees of one row, by the oracle."""
    n = tree.scores.shape[-2] if tree.lengths is None else int(tree.lengths[row])
    return all_span_trees(tree.scores[row].double().tolist(), n)


class TreeLaws(StructureLaws):
    field_ranks: ClassVar = {"scores": 3, "lengths": 0}

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, SpanTree)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [span for span in ids if span[0] >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, SpanTree)
        assert structure.lengths is not None
        places = torch.arange(structure.scores.shape[-2])
        real = (places[:, None] <= places) & (places < structure.lengths[:, None, None])
        noise = 1e3 * torch.randn(structure.scores.shape).double()
        return replace(structure, scores=torch.where(real[..., None], structure.scores, noise))


class TestTwoLabels(TreeLaws):
    def structure(self, case: Case) -> SpanTree:
        return SpanTree(case.draw(4, 4, 4, 2), torch.tensor([4, 1, 3, 2]))


class TestOneLabel(TreeLaws):
    def structure(self, case: Case) -> SpanTree:
        return SpanTree(case.draw(4, 6, 6, 1), torch.tensor([6, 5, 1, 4]))


def small(**changes: object) -> SpanTree:
    return replace(SpanTree(Case(seed=31).draw(2, 5, 5, 2)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestTrees:
    def test_empty_sentence_has_one_tree_of_score_zero(self, backend: str) -> None:
        with use_backend(backend):
            tree = small(lengths=torch.tensor([0, 5]))
            first_row_is_empty(tree)

    def test_argmax_with_ties_is_one_valid_tree(self, backend: str) -> None:
        with use_backend(backend):
            tree = SpanTree(torch.zeros(2, 6, 6, 3), torch.tensor([6, 4]))
            assert tree.parts(tree.argmax()).sum((-3, -2, -1)).tolist() == [11, 7]
            assert tree.log_prob(tree.argmax()).isfinite().all()
            top = tree.topk(40).structures
            assert len({tuple(map(tuple, one.tolist())) for one in top[:, 0]}) == 40

    def test_marginals_with_minus_infinity_scores_are_finite(self, backend: str) -> None:
        """torch-struct's TreeCRF has nan marginals here."""
        scores = torch.randn(1, 4, 4, 2).masked_fill(torch.rand(1, 4, 4, 2) < 0.3, -math.inf)
        scores[:, 0, 3], scores[:, 1, 2], scores[:, range(4), range(4)] = 0.0, -math.inf, 0.0
        with use_backend(backend):
            marginals = SpanTree(scores).marginals()
            assert not marginals.isnan().any()
            assert (marginals[0, 1, 2] == 0).all()
            assert marginals.sum().item() == pytest.approx(7, abs=1e-5)

    def test_all_lengths_may_be_below_the_chart_size(self, backend: str) -> None:
        with use_backend(backend):
            short = small(lengths=torch.tensor([3, 2]))
            for row, n in ((0, 3), (1, 2)):
                alone = SpanTree(short.scores[row, :n, :n]).log_partition()
                assert short.log_partition()[row].item() == pytest.approx(alone.item(), abs=1e-12)

    def test_marginals_of_certain_spans_are_one_or_zero(self, backend: str) -> None:
        with use_backend(backend):
            marginals = small().marginals()
        for places in ([0, 4], *([i, i] for i in range(5))):
            assert torch.allclose(marginals[:, places[0], places[1]].sum(-1), torch.ones(2).double())
        assert (marginals[:, 3, 1] == 0).all()


class TestScores:
    def test_score_accepts_spans_in_any_order(self) -> None:
        tree = small()
        best = tree.argmax()
        mixed = best[:, torch.randperm(9)]
        assert torch.equal(tree.score(mixed), tree.score(best))
        assert torch.equal(tree.parts(mixed), tree.parts(best))

    @pytest.mark.parametrize(
        ("spans", "fault"),
        [
            ([[0, 2, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [1, 2, 0]], "crosses"),
            ([[0, 2, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [-1, -1, -1]], "lacks a word"),
            ([[0, 1, 0], [0, 0, 0], [1, 1, 0], [-1, -1, -1], [-1, -1, -1]], "lacks the whole"),
            ([[0, 2, 0], [0, 2, 0], [0, 0, 0], [1, 1, 0], [2, 2, 0]], "says one thing twice"),
            ([[0, 2, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [2, 2, 2]], "has a label too many"),
            ([[0, 2, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [2, 2, -1]], "has no label"),
            ([[0, 2, 0], [0, 0, 0], [1, 1, 0], [2, 2, 0], [-1, -1, -1]], "is flat"),
        ],
    )
    def test_score_of_invalid_tree_is_minus_infinity(self, spans: list[list[int]], fault: str) -> None:
        tree = SpanTree(torch.zeros(3, 3, 2))
        whole = torch.tensor([[0, 2, 0], [0, 1, 1], [0, 0, 0], [1, 1, 0], [2, 2, 1]])
        assert tree.score(whole) == 0
        assert tree.score(torch.tensor(spans)) == -math.inf, fault

    def test_wrong_shape_raises_error_with_tensor_name(self) -> None:
        with pytest.raises((ShapeError, TypeError), match="scores"):
            SpanTree(torch.zeros(2, 3, 4, 1))
        with pytest.raises(ShapeError, match="t >= 1 and k >= 1"):
            SpanTree(torch.zeros(2, 0, 0, 1))
        with pytest.raises((ShapeError, TypeError), match="lengths"):
            small(lengths=torch.tensor([1, 2, 3]))
        with pytest.raises(ShapeError, match=r"must end in the axes \[t, t, k\] = \[5, 5, 2\]"):
            small().expectation(torch.zeros(5, 5, 3))


class TestConstraints:
    def check(self, constraint: SpanConstraint, keep: Callable[[set[Span]], bool]) -> None:
        tree = small()
        given = tree.given(constraint)
        for row in range(2):
            kept = keeping(listed(tree, row), keep)
            assert given.log_partition()[row].item() == pytest.approx(log_add([s for _, s in kept]), abs=1e-12)
        for spans in given.sample(20).flatten(0, 1).tolist():
            assert keep({(i, j) for i, j, _ in spans})

    def test_forbidding_excludes_spans(self) -> None:
        spans = torch.tensor([[1, 3], [0, 2], [-1, -1]])
        self.check(SpanConstraint.forbidding(spans, 5), lambda found: not found & {(1, 3), (0, 2)})

    def test_brackets_require_a_span(self) -> None:
        self.check(SpanConstraint.brackets(torch.tensor([[1, 3]]), 5), lambda found: (1, 3) in found)

    def test_brackets_require_a_partial_bracketing(self) -> None:
        spans = torch.tensor([[0, 2], [1, 2], [-1, -1]])
        self.check(SpanConstraint.brackets(spans, 5), lambda found: {(0, 2), (1, 2)} <= found)

    def test_brackets_and_forbidding_combine(self) -> None:
        both = SpanConstraint.brackets(torch.tensor([[1, 3]]), 5) & SpanConstraint.forbidding(torch.tensor([[1, 2]]), 5)
        self.check(both, lambda found: (1, 3) in found and (1, 2) not in found)

    def test_brackets_require_a_label(self) -> None:
        tree = small()
        given = tree.given(SpanConstraint.brackets(torch.tensor([[1, 3, 1], [0, 3, -1]]), 5, k=2))
        for row in range(2):
            members = [
                (ids, score) for ids, score in listed(tree, row)
                if (1, 3, 1) in ids and ((0, 3, 0) in ids or (0, 3, 1) in ids)
            ]  # fmt: skip
            expected = torch.zeros(5, 5, 2).double()
            for (ids, _), p in zip(members, probabilities([s for _, s in members]), strict=True):
                for place in ids:
                    expected[place] += p
            assert (given.marginals()[row] - expected).abs().max() < 1e-12

    def test_constraint_may_differ_in_each_row(self) -> None:
        spans = torch.tensor([[[1, 3]], [[-1, -1]]])
        given = small().given(SpanConstraint.brackets(spans, 5))
        assert given.marginals()[0, 1, 3].sum().item() == pytest.approx(1)
        assert torch.equal(given.scores[1], small().scores[1])

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        crossing = SpanConstraint.brackets(torch.tensor([[[0, 2], [1, 3]], [[0, 2], [1, 2]]]), 5)
        with pytest.raises(ImpossibleError, match=r"allows no structure for 1 of 2 distributions \(batch row 0\)"):
            small(constraint=crossing)
        tree = small(constraint=crossing, on_infeasible="-inf")
        assert tree.log_partition()[0] == -math.inf
        assert tree.log_partition()[1].isfinite()
        assert (tree.argmax()[0] == -1).all()

    def test_invalid_constraint_raises_clear_error(self) -> None:
        with pytest.raises(ShapeError, match=r"0 <= first <= last < t = 5, got \(3, 5\)"):
            SpanConstraint.brackets(torch.tensor([[3, 5]]), 5)
        with pytest.raises(ShapeError, match=r"need the number of labels. Pass k"):
            SpanConstraint.brackets(torch.tensor([[3, 4, 1]]), 5)
        with pytest.raises(ShapeError, match=r"\[\*batch, n, 2\] or \[\*batch, n, 3\]"):
            SpanConstraint.brackets(torch.zeros(2, 4).long(), 5)
        with pytest.raises(ShapeError, match="mask labels of a constraint must broadcast"):
            small(constraint=SpanConstraint.brackets(torch.tensor([[3, 3]]), 4))


def test_reference_program_agrees_in_every_semiring() -> None:
    tree = small(lengths=torch.tensor([5, 3]))
    agrees_in_every_semiring(tree, replace(tree, scores=Case(seed=9).draw(2, 5, 5, 2)), [14 * 2**9, 2 * 2**5])
