"""Dependency trees compared with other libraries: values and gradients.

Needs the peers' virtual environment.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree

pytestmark = pytest.mark.peers

ROOTS = pytest.mark.parametrize("single_root", [True, False], ids=["one root", "many roots"])


def drawn(b: int = 3, t: int = 7) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(b, t + 1, t + 1, dtype=torch.float64, requires_grad=True)


def for_torch_struct(arcs: Tensor) -> Tensor:
    """Arcs between words; torch-struct keeps the scores of roots on the diagonal."""
    itself = torch.eye(arcs.shape[-1] - 1, dtype=torch.bool)
    return torch.where(itself, arcs[:, :1, 1:], arcs[:, 1:, 1:])


def supar() -> Any:
    """SuPar's structures module, without its package, which needs forty others."""
    if "supar.structs" in sys.modules:
        return sys.modules["supar.structs"]
    spec = importlib.util.find_spec("supar")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("needs supar, see benchmarks/requirements-peers.txt")
    folder = Path(spec.submodule_search_locations[0])
    for name, path in (("supar", folder), ("supar.utils", folder / "utils")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    return importlib.import_module("supar.structs")


def gradients(log_z: Tensor, arcs: Tensor) -> Tensor:
    return torch.autograd.grad(log_z.sum(), arcs)[0]


@ROOTS
def test_projective_log_partition_and_gradient_equal_torch_struct(single_root: bool) -> None:
    torch_struct = pytest.importorskip("torch_struct", reason="needs torch-struct, see requirements-peers.txt")
    arcs = drawn()
    ours = ProjectiveTree(arcs, single_root=single_root).log_partition()
    theirs = torch_struct.DependencyCRF(for_torch_struct(arcs), multiroot=not single_root).partition
    assert torch.allclose(ours, theirs, atol=1e-10)
    assert torch.allclose(gradients(ours, arcs), gradients(theirs, arcs), atol=1e-10)


@ROOTS
def test_nonprojective_log_partition_is_near_torch_struct(single_root: bool) -> None:
    torch_struct = pytest.importorskip("torch_struct", reason="needs torch-struct, see requirements-peers.txt")
    arcs = drawn()
    ours = NonProjectiveTree(arcs, single_root=single_root).log_partition()
    theirs = torch_struct.NonProjectiveDependencyCRF(for_torch_struct(arcs), multiroot=not single_root).partition
    assert torch.allclose(ours, theirs, atol=1e-3)  # it adds 1e-5 to every weight


@ROOTS
def test_dependency_trees_equal_supar(single_root: bool) -> None:
    structs, arcs, lengths = supar(), drawn(), torch.tensor([7, 4, 6])
    for kind, name in ((ProjectiveTree, "DependencyCRF"), (NonProjectiveTree, "MatrixTree")):
        ours = kind(arcs, lengths=lengths, single_root=single_root)
        theirs = getattr(structs, name)(arcs.transpose(1, 2), lengths, multiroot=not single_root)
        log_z = theirs.log_partition
        assert torch.allclose(ours.log_partition(), log_z.double(), atol=1e-5)  # it may answer in float32
        assert torch.allclose(gradients(ours.log_partition(), arcs), gradients(log_z, arcs), atol=1e-5)
        best = theirs.argmax[:, 1:]
        real = torch.arange(7) < lengths[:, None]
        assert torch.equal(ours.argmax(), torch.where(real, best, -1))


def test_nonprojective_argmax_equals_ufal() -> None:
    pytest.importorskip("ufal.chu_liu_edmonds", reason="needs ufal.chu-liu-edmonds, see requirements-peers.txt")
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    arcs = drawn(40, 12).detach()
    ours = NonProjectiveTree(arcs, single_root=False)
    best, found = ours.argmax(), ours.max()
    for row in range(40):
        scores = arcs[row].T.contiguous().numpy()
        scores[0] = float("nan")
        heads, total = chu_liu_edmonds(scores)
        assert best[row].tolist() == list(heads[1:])
        assert found[row].item() == pytest.approx(total, abs=1e-10)
