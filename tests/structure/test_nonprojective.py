"""Non-projective dependency trees: the inherited laws and further tests."""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
import torch

from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree
from tests.laws.dependency_laws import ConstrainedLaws, DependencyAnswers, DependencyLaws
from tests.laws.structure_laws import Case
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401

LENGTHS = torch.tensor([4, 1, 3, 2])


class TestSingleRoot(DependencyLaws):
    def structure(self, case: Case) -> NonProjectiveTree:
        return NonProjectiveTree(case.draw(4, 5, 5), lengths=LENGTHS)


class TestManyRoots(DependencyLaws):
    backends: ClassVar = ("kernels",)

    def structure(self, case: Case) -> NonProjectiveTree:
        return NonProjectiveTree(case.draw(4, 5, 5), lengths=LENGTHS, single_root=False)


class TestLabelsAndHoles(DependencyLaws):
    def structure(self, case: Case) -> NonProjectiveTree:
        holes = torch.tensor([[1, 1, 0, 1], [0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 1, 0]]).bool()
        labels = case.draw(5, 5, 2, salt=1)
        lengths = torch.tensor([4, 4, 3, 4])
        return NonProjectiveTree(case.draw(4, 5, 5), labels, lengths, holes, single_root=False)


class TestConstrained(ConstrainedLaws):
    kind: ClassVar = NonProjectiveTree


class TestAnswers(DependencyAnswers):
    kind: ClassVar = NonProjectiveTree

    def test_nonprojective_trees_may_have_crossing_arcs(self) -> None:
        crossing = torch.tensor([[3, 0, 2, 1], [3, 4, 0, 3]])
        assert self.tree().are_trees(crossing).tolist() == [True, True]
        assert (self.tree().log_prob(crossing) > -math.inf).all()


@pytest.mark.parametrize("single_root", [True, False])
def test_projective_trees_are_a_subset_of_all_trees(single_root: bool) -> None:
    arcs = Case(seed=6).draw(3, 6, 6)
    some, all_of_them = ProjectiveTree(arcs, single_root=single_root), NonProjectiveTree(arcs, single_root=single_root)
    assert (some.log_partition() < all_of_them.log_partition()).all()
    assert (some.max() <= all_of_them.max()).all()
    drawn = all_of_them.sample(4000, torch.Generator().manual_seed(3))
    share = some.are_trees(drawn).double().mean(0)
    expected = (some.log_partition() - all_of_them.log_partition()).exp()
    assert ((share - expected).abs() < 5 * (expected * (1 - expected) / 4000).sqrt()).all()


def test_projective_equals_nonprojective_up_to_two_words() -> None:
    arcs, lengths = Case(seed=2).draw(2, 3, 3), torch.tensor([2, 1])
    for single_root in (True, False):
        one, other = (
            kind(arcs, lengths=lengths, single_root=single_root) for kind in (ProjectiveTree, NonProjectiveTree)
        )
        assert torch.allclose(one.log_partition(), other.log_partition(), atol=1e-14)
        assert torch.allclose(one.marginals(), other.marginals(), atol=1e-14)
        assert torch.equal(one.argmax(), other.argmax())
