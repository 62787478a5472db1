"""Laws of projective and non-projective dependency trees."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from catena.errors import ImpossibleError, ShapeError
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.dependency import ArcConstraint, DependencyDistribution
from tests.laws.structure_checks import first_row_is_empty
from tests.laws.structure_laws import FEW_CASES, Case, Ids, Member, StructureLaws, as_ids
from tests.oracle.dependency import all_trees
from tests.oracle.moments import log_add


def listed(tree: DependencyDistribution, row: int) -> list[Member]:
    """All trees of one row, by the oracle."""
    labels = tree.labels
    if labels is not None:
        labels = (labels[row] if labels.dim() > 3 else labels).double().tolist()
    real, projective = tree.real()[row].tolist(), type(tree).__name__ == "ProjectiveTree"
    return all_trees(tree.arcs[row].double().tolist(), labels, real, tree.single_root, projective)


class DependencyLaws(StructureLaws):
    """The hooks of both kinds of trees; a test class defines ``structure``."""

    field_ranks: ClassVar = {"arcs": 2, "labels": 3, "lengths": 0, "mask": 1}

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, DependencyDistribution)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        if isinstance(ids[0], tuple):
            return [(head, i + 1, label) for i, (head, label) in enumerate(ids) if head >= 0]
        return [(head, i + 1) for i, head in enumerate(ids) if head >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, DependencyDistribution)
        noise = 1e3 * torch.randn(structure.arcs.shape).double()
        arcs = torch.where(structure.readable(), structure.arcs, noise)
        return replace(structure, arcs=arcs)  # type: ignore[type-var]


class ConstrainedLaws(DependencyLaws):
    """All queries on labeled trees with one root and a constraint; the oracle filters an enumeration.

    A test class sets ``kind``.
    """

    cases: ClassVar = FEW_CASES
    kind: ClassVar[type[Any]]
    forbidden_arcs: ClassVar = {(2, 1), (0, 4), (3, 2)}
    forbidden_labels: ClassVar = {(1, 2, 0), (0, 1, 1), (4, 3, 0)}

    def structure(self, case: Case) -> StructuredDistribution:
        arcs, labels = torch.ones(5, 5, dtype=torch.bool), torch.ones(5, 5, 2, dtype=torch.bool)
        for arc in self.forbidden_arcs:
            arcs[arc] = False
        for label in self.forbidden_labels:
            labels[label] = False
        constraint = ArcConstraint(arcs) & ArcConstraint(labels=labels)
        scores, lengths = (case.draw(4, 5, 5), case.draw(5, 5, 2, salt=1)), torch.tensor([4, 1, 3, 2])
        tree: StructuredDistribution = self.kind(*scores, lengths, constraint=constraint, on_infeasible="-inf")
        return tree

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        return [(ids, score if self.may_be(ids) else -math.inf) for ids, score in super().members(structure, row)]

    def may_be(self, ids: Ids) -> bool:
        parts = {tuple(part) for part in self.parts_of(ids)}
        return not parts & self.forbidden_labels and not {part[:2] for part in parts} & self.forbidden_arcs


class DependencyAnswers(ABC):
    """Further tests of both kinds of trees. A test class sets ``kind``, and pytest sets ``backend``."""

    kind: ClassVar[type[Any]]

    @pytest.fixture(autouse=True, params=["reference", "kernels"])
    def backend(self, request: pytest.FixtureRequest) -> Iterator[str]:
        with use_backend(request.param):
            yield request.param

    def tree(self, t: int = 4, seed: int = 31, **more: Any) -> Any:
        return self.kind(Case(seed=seed).draw(2, t + 1, t + 1), **more)

    def log_sum(self, tree: Any, row: int, keep: Callable[[Ids], bool]) -> float:
        return log_add([score for ids, score in listed(tree, row) if keep(ids)])

    # --- trees ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("heads", "single_root", "is_tree"),
        [
            ([0, 1, 1, 3], True, True),
            ([0, 1, 1, 0], True, False),
            ([0, 1, 1, 0], False, True),
            ([2, 1, 0, 3], True, False),
            ([0, 3, 4, 2], True, False),
            ([0, 2, 1, 1], True, False),
            ([0, 5, 1, 1], True, False),
            ([0, -1, 1, 1], True, False),
            ([2, 3, 4, 0], True, True),
        ],
    )
    def test_invalid_tree_has_probability_zero(self, heads: list[int], single_root: bool, is_tree: bool) -> None:
        tree = self.tree(single_root=single_root)
        y = torch.tensor(heads).expand(2, 4)
        assert tree.are_trees(y).tolist() == [is_tree, is_tree]
        assert ((tree.log_prob(y) > -math.inf) == is_tree).all()

    def test_masked_head_has_probability_zero(self) -> None:
        tree = self.tree(lengths=torch.tensor([2, 4]))
        assert tree.are_trees(torch.tensor([[0, 3, -1, -1], [0, 3, 1, 1]])).tolist() == [False, True]
        assert tree.are_trees(torch.tensor([[0, 1, 9, -7], [0, 1, 1, 1]])).tolist() == [True, True]

    def test_empty_sentence_has_one_dependency_tree_of_score_zero(self) -> None:
        for single_root in (True, False):
            tree = self.tree(lengths=torch.tensor([0, 4]), single_root=single_root)
            first_row_is_empty(tree)

    # --- labels ---------------------------------------------------------------------------------------------

    def test_unlabeled_sums_labels_of_each_arc(self) -> None:
        tree = self.tree(3, labels=Case(seed=5).draw(2, 4, 4, 3))
        heads = tree.unlabeled()
        assert heads.labels is None
        assert torch.allclose(heads.log_partition(), tree.log_partition())
        assert torch.allclose(heads.marginals(), tree.marginals().sum(-1))
        assert torch.allclose(heads.marginals(), tree.arc_marginals())
        same = [math.exp(score) for ids, score in listed(tree, 0) if [h for h, _ in ids] == [0, 1, 1]]
        expected = math.log(math.fsum(same)) - tree.log_partition()[0].item()
        assert heads.log_prob(torch.tensor([[0, 1, 1], [0, 1, 1]]))[0].item() == pytest.approx(expected, abs=1e-12)

    def test_topk_of_labeled_trees_with_single_root(self) -> None:
        for seed in range(4):
            case = Case(seed=seed, ties=seed % 2 == 1)
            tree = self.kind(case.draw(1, 4, 4), case.draw(1, 4, 4, 3, salt=1))
            members = dict(listed(tree, 0))
            top = tree.topk(30)
            assert torch.allclose(
                top.scores[:, 0], torch.tensor(sorted(members.values(), reverse=True)[:30], dtype=torch.float64)
            )
            assert len({as_ids(y[0]) for y in top.structures}) == 30
            for y, score in zip(top.structures, top.scores, strict=True):
                assert members[as_ids(y[0])] == pytest.approx(score.item(), abs=1e-12)

    # --- roots ----------------------------------------------------------------------------------------------

    def test_single_root_belongs_to_the_instance_not_the_class(self) -> None:
        many, one = self.tree(single_root=False), self.tree(single_root=True)
        for tree in (many, one, many):
            expected = self.log_sum(tree, 0, lambda _: True)
            assert tree.log_partition()[0].item() == pytest.approx(expected, abs=1e-12)
        assert (many.log_partition() > one.log_partition()).all()
        assert (one.marginals()[:, 0].sum(-1) - 1).abs().max() < 1e-12

    def test_kl_from_many_roots_to_single_root_is_infinite(self) -> None:
        many, one = self.tree(single_root=False), self.tree(single_root=True)
        assert (many.kl(one) == math.inf).all()
        assert (many.cross_entropy(one) == math.inf).all()
        assert (one.kl(many) > 0).all()
        # The root may have a single arc to give even where many are allowed.
        arcs = many.arcs.clone()
        arcs[:, 0, 2:] = -math.inf
        only = self.kind(arcs, single_root=False)
        assert torch.allclose(only.kl(self.kind(arcs)), torch.zeros(2).double(), atol=1e-12)

    # --- constraints ----------------------------------------------------------------------------------------

    def test_partial_constraint_equals_enumeration(self) -> None:
        tree, known = self.tree(), torch.tensor([[-1, 1, -1, -1], [2, -1, -1, 2]])
        given = tree.given(ArcConstraint.partial(known))
        for row in range(2):
            wanted = known[row].tolist()
            expected = self.log_sum(
                tree, row, lambda ids, wanted=wanted: all(k in (-1, h) for k, h in zip(wanted, ids, strict=True))
            )
            assert given.log_partition()[row].item() == pytest.approx(expected, abs=1e-12)
        assert (given.sample(50)[:, 1, [0, 3]] == 2).all()
        assert given.argmax()[0, 1] == 1

    def test_partial_constraint_on_labels(self) -> None:
        tree = self.tree(3, labels=Case(seed=5).draw(2, 4, 4, 2))
        known = ArcConstraint.partial(torch.tensor([-1, 1, -1]), torch.tensor([-1, -1, 1]), k=2)
        given = tree.given(known)
        expected = self.log_sum(tree, 0, lambda ids: ids[1][0] == 1 and ids[2][1] == 1)
        assert given.log_partition()[0].item() == pytest.approx(expected, abs=1e-12)
        assert (given.argmax()[:, 2, 1] == 1).all()

    def test_required_and_forbidden_arcs(self) -> None:
        tree = self.tree()
        arcs = torch.zeros(5, 5, dtype=torch.bool)
        arcs[2, 1] = arcs[2, 3] = arcs[4, 3] = True
        required = tree.given(ArcConstraint.required(arcs))
        forbidden = tree.given(ArcConstraint.forbidden(arcs))
        for row in range(2):
            expected = self.log_sum(tree, row, lambda ids: ids[0] == 2 and ids[2] in (2, 4))
            assert required.log_partition()[row].item() == pytest.approx(expected, abs=1e-12)
            expected = self.log_sum(tree, row, lambda ids: ids[0] != 2 and ids[2] not in (2, 4))
            assert forbidden.log_partition()[row].item() == pytest.approx(expected, abs=1e-12)
        both = tree.given(ArcConstraint.required(arcs) & ArcConstraint.partial(torch.tensor([-1, 0, -1, -1])))
        assert (both.argmax()[:, :2] == torch.tensor([2, 0])).all()

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        circle = ArcConstraint.partial(torch.tensor([[-1, -1, -1, -1], [2, 1, -1, -1]]))
        with pytest.raises(ImpossibleError, match=r"allows no structure for 1 of 2 distributions \(batch row 1\)"):
            self.tree(constraint=circle)
        tree = self.tree(constraint=circle, on_infeasible="-inf")
        assert tree.log_partition()[1] == -math.inf
        assert tree.log_partition()[0] == self.tree().log_partition()[0]
        assert (tree.argmax()[1] == -1).all()
        assert (tree.sample(3)[:, 1] == -1).all()

    def test_invalid_constraint_raises_clear_error(self) -> None:
        with pytest.raises(ShapeError, match="has labels, but the trees have none"):
            self.tree(constraint=ArcConstraint(labels=torch.ones(5, 5, 2, dtype=torch.bool)))
        with pytest.raises(ShapeError, match=r"mask arcs .* must broadcast to the scores of shape \[2, 5, 5\]"):
            self.tree(constraint=ArcConstraint(torch.ones(4, 4, dtype=torch.bool)))
        with pytest.raises(ShapeError, match="with n >= 2, got"):
            self.kind(torch.zeros(1, 1))
        with pytest.raises(ShapeError, match=r"must end in the axes \[n, n\] = \[5, 5\]"):
            self.tree().expectation(torch.zeros(4, 4))

    @pytest.mark.parametrize(
        ("name", "shape"), [("labels", (2, 5, 4, 3)), ("labels", (3, 5, 5, 2)), ("lengths", (3,)), ("mask", (2, 5))]
    )
    def test_wrong_shape_raises_error_with_tensor_name(self, name: str, shape: tuple[int, ...]) -> None:
        kinds = {"lengths": torch.int64, "mask": torch.bool}
        with pytest.raises((ShapeError, TypeError), match=name):  # beartype's error comes first under the import hook
            self.tree(**{name: torch.ones(shape, dtype=kinds.get(name, torch.float64))})

    # --- known bugs of peers --------------------------------------------------------------------------------

    @pytest.mark.parametrize("shift", [-1e4, -100.0, 100.0, 1e4])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_log_partition_shifts_with_the_scores(self, shift: float, dtype: torch.dtype) -> None:
        for single_root in (True, False):
            arcs = Case(seed=3, dtype=dtype).draw(2, 5, 5)
            tree, moved = self.kind(arcs, single_root=single_root), self.kind(arcs + shift, single_root=single_root)
            exact = 1e-6 * abs(shift) if dtype == torch.float32 else 1e-10
            assert (moved.log_partition() - 4 * shift - tree.log_partition()).abs().max() <= 4 * exact
            assert (moved.marginals() - tree.marginals()).abs().max() <= 10 * exact
            assert moved.log_partition().dtype == moved.marginals().dtype == dtype

    def test_weights_have_no_epsilon_added(self) -> None:
        arcs = torch.full((1, 4, 4), -math.inf).double()
        arcs[0, 0, 1] = arcs[0, 1, 2] = arcs[0, 2, 3] = -20.0
        assert self.kind(arcs).log_partition().item() == -60
        assert self.kind(arcs).marginals().sum() == 3

    def test_queries_do_not_change_the_arcs(self) -> None:
        arcs = torch.randn(2, 5, 5)
        tree = self.kind(arcs)
        assert tree.are_trees(tree.argmax()).all()
        assert tree.are_trees(tree.sample(7)).all()
        assert tree.marginals().shape == arcs.shape
        assert not arcs.requires_grad
        assert arcs.is_leaf

    @pytest.mark.parametrize("scale", [1.0, 1e4])
    def test_float32_never_gives_nan(self, scale: float) -> None:
        for seed in range(5):
            arcs = (torch.rand(3, 12, 12, generator=torch.Generator().manual_seed(seed)) * 2 - 1) * scale
            arcs.requires_grad_()
            for single_root in (True, False):
                tree = self.kind(arcs, single_root=single_root)
                (grad,) = torch.autograd.grad(tree.log_partition().sum() + tree.entropy().sum(), arcs)
                assert grad.isfinite().all()
                assert (tree.marginals()[:, :, 1:].sum(1) - 1).abs().max() < 1e-5
