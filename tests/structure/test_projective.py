"""Projective dependency trees: the inherited laws, and what is true of them alone."""

from __future__ import annotations

from typing import ClassVar

import torch

from catena.structure.projective import ProjectiveTree
from tests.laws.dependency_laws import DependencyLaws
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
