"""Projective dependency trees: the inherited laws and further tests."""

from __future__ import annotations

import math
from typing import ClassVar

import torch

from catena.structure.projective import ProjectiveTree
from tests.laws.dependency_laws import ConstrainedLaws, DependencyAnswers, DependencyLaws
from tests.laws.structure_checks import agrees_in_every_semiring
from tests.laws.structure_laws import Case
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401

LENGTHS = torch.tensor([4, 1, 3, 2])


class TestSingleRoot(DependencyLaws):
    def structure(self, case: Case) -> ProjectiveTree:
        return ProjectiveTree(case.draw(4, 5, 5), lengths=LENGTHS)


class TestManyRoots(DependencyLaws):
    backends: ClassVar = ("kernels",)

    def structure(self, case: Case) -> ProjectiveTree:
        return ProjectiveTree(case.draw(4, 5, 5), lengths=LENGTHS, single_root=False)


class TestLabelsAndHoles(DependencyLaws):
    def structure(self, case: Case) -> ProjectiveTree:
        holes = torch.tensor([[1, 1, 0, 1], [0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 1, 0]]).bool()
        labels = case.draw(5, 5, 2, salt=1)
        lengths = torch.tensor([4, 4, 3, 4])
        return ProjectiveTree(case.draw(4, 5, 5), labels, lengths, holes, single_root=False)


class TestConstrained(ConstrainedLaws):
    kind: ClassVar = ProjectiveTree


class TestAnswers(DependencyAnswers):
    kind: ClassVar = ProjectiveTree

    def test_projective_trees_have_no_crossing_arcs(self) -> None:
        crossing = torch.tensor([[3, 0, 2, 1], [3, 4, 0, 3]])
        assert self.tree().are_trees(crossing).tolist() == [False, False]
        assert (self.tree().log_prob(crossing) == -math.inf).all()
        # An arc of the root counts too: word 2 hangs from it, under the arc from 1 to 3.
        assert self.tree(single_root=False).are_trees(torch.tensor([0, 0, 1, 1]).expand(2, 4)).tolist() == [False] * 2

    def test_arcs_may_span_masked_words(self) -> None:
        mask = torch.tensor([[True, False, True, True], [True, True, True, True]])
        tree = self.tree(mask=mask)
        assert tree.are_trees(torch.tensor([[0, 9, 1, 1], [0, 1, 1, 1]])).tolist() == [True, True]
        assert (tree.argmax()[0, 1], tree.sample(2)[0, 0, 1]) == (-1, -1)


def test_reference_program_agrees_in_every_semiring() -> None:
    case, lengths = Case(seed=9), torch.tensor([4, 2])
    for single_root, n_trees in ((True, [30 * 16, 2 * 4]), (False, [55 * 16, 3 * 4])):
        tree = ProjectiveTree(case.draw(2, 5, 5), case.draw(2, 5, 5, 2, salt=1), lengths, single_root=single_root)
        value = ProjectiveTree(case.draw(2, 5, 5, salt=2), lengths=lengths, single_root=single_root)
        agrees_in_every_semiring(tree, value, n_trees)
