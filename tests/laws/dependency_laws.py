"""What is true of every kind of dependency tree: the laws of structures, with the hooks that trees share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import torch

from catena.structure.base import Structured
from catena.structure.dependency import DependencyTree
from tests.laws.structure_laws import Ids, Member, StructureLaws
from tests.oracle.dependency import all_trees


def listed(tree: DependencyTree, row: int) -> list[Member]:
    """All trees of one row, by the oracle."""
    labels = tree.labels
    if labels is not None:
        labels = (labels[row] if labels.dim() > 3 else labels).double().tolist()
    real, projective = tree.real()[row].tolist(), type(tree).__name__ == "ProjectiveTree"
    return all_trees(tree.arcs[row].double().tolist(), labels, real, tree.single_root, projective)


class DependencyLaws(StructureLaws):
    """The hooks that both kinds of trees share; a test gives ``structure``."""

    field_ranks: ClassVar = {"arcs": 2, "labels": 3, "lengths": 0, "mask": 1}

    def members(self, structure: Structured, row: int) -> list[Member]:
        assert isinstance(structure, DependencyTree)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        if isinstance(ids[0], tuple):
            return [(head, i + 1, label) for i, (head, label) in enumerate(ids) if head >= 0]
        return [(head, i + 1) for i, head in enumerate(ids) if head >= 0]

    def spoiled(self, structure: Structured) -> Structured:
        assert isinstance(structure, DependencyTree)
        noise = 1e3 * torch.randn(structure.arcs.shape).double()
        arcs = torch.where(structure.readable(), structure.arcs, noise)
        return replace(structure, arcs=arcs)  # type: ignore[type-var]
