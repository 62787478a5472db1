"""Dependency trees with Catena and other libraries; ``structure.py`` describes the measurements.

python benchmarks/structure.py dependency [--only eisner] [--threads 1 2] [--rounds 9]
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from structure import GROWTH, Case, Run, case, in_reference, installed, with_gradient

SUPAR = installed("supar")


def arcs_like(b: int, t: int, scale: float = 1.0) -> Tensor:
    torch.manual_seed(0)
    return (scale * torch.randn(b, t + 1, t + 1)).requires_grad_()


def for_torch_struct(arcs: Tensor) -> Tensor:
    """Return the scores of words in torch-struct's layout, with the scores of roots on the diagonal."""
    roots = arcs[:, 0, 1:]
    itself = torch.eye(roots.shape[-1], dtype=torch.bool)
    return torch.where(itself, roots[:, None, :], arcs[:, 1:, 1:])


def by_torch_struct(name: str, arcs: Tensor, single_root: bool) -> Callable[[], Tensor]:
    import torch_struct

    kind: Any = getattr(torch_struct, name)
    return lambda: kind(for_torch_struct(arcs), multiroot=not single_root).partition


def catena_runs(kind: str, arcs: Tensor, single_root: bool) -> dict[str, Run]:
    from catena.structure.nonprojective import NonProjectiveTree
    from catena.structure.projective import ProjectiveTree

    tree: Any = {"projective": ProjectiveTree, "non-projective": NonProjectiveTree}[kind]

    def log_z() -> Tensor:
        return tree(arcs, single_root=single_root).log_partition()

    return {"catena": with_gradient(log_z, arcs), "catena reference": with_gradient(in_reference(log_z), arcs)}


def supar_structs() -> Any:
    """Import only SuPar's structures: its top package needs forty others."""
    if "supar" not in sys.modules:
        spec = importlib.util.find_spec("supar")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(spec.submodule_search_locations[0])
        for name, path in (("supar", folder), ("supar.utils", folder / "utils")):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(path)]
    return importlib.import_module("supar.structs")


def by_supar(name: str, arcs: Tensor, single_root: bool) -> Any:
    lengths = torch.full((len(arcs),), arcs.shape[-1] - 1)
    return getattr(supar_structs(), name)(arcs.transpose(1, 2), lengths, multiroot=not single_root)


# --- sums ---------------------------------------------------------------------------------------------------


def eisner(single_root: bool) -> Case:
    arcs = arcs_like(16, 32)
    runs = catena_runs("projective", arcs, single_root)
    if installed("torch_struct"):
        runs["torch-struct"] = with_gradient(by_torch_struct("DependencyCRF", arcs, single_root), arcs)
    if SUPAR:
        runs["supar"] = with_gradient(lambda: by_supar("DependencyCRF", arcs, single_root).log_partition, arcs)
    words = "one root" if single_root else "many roots"
    return Case(f"log Z and gradient of projective trees, {words}, B16 L32", runs, {"torch-struct": 15})


@case
def eisner_one_root() -> Case:
    """Projective trees."""
    return eisner(single_root=True)


@case
def eisner_many_roots() -> Case:
    """Projective trees."""
    return eisner(single_root=False)


@case
def eisner_wide() -> Case:
    """Scores that need the rescue for large scores."""
    arcs = arcs_like(16, 32, scale=200)
    return Case("the same, one root, scores of scale 200 (rescue)", catena_runs("projective", arcs, True), agree=1.0)


def shifted_slogdet(arcs: Tensor, single_root: bool) -> Tensor:
    """Return the log-determinant as usually written, after subtracting the largest score of each word."""
    arcs = arcs.masked_fill(torch.eye(arcs.shape[-1], dtype=torch.bool), -torch.inf)[:, :, 1:]
    top = arcs.detach().amax(1, keepdim=True)
    weights = (arcs - top).exp()
    words, roots = weights[:, 1:], weights[:, 0]
    laplacian = torch.diag_embed(words.sum(1)) - words
    if single_root:
        laplacian = torch.cat((roots[:, None], laplacian[:, 1:]), dim=1)
    else:
        laplacian = laplacian + torch.diag_embed(roots)
    return torch.linalg.slogdet(laplacian).logabsdet + top.sum((1, 2))


def matrix_tree(b: int, t: int, single_root: bool) -> Case:
    arcs = arcs_like(b, t)
    runs = catena_runs("non-projective", arcs, single_root)
    runs["slogdet by hand"] = with_gradient(lambda: shifted_slogdet(arcs, single_root), arcs)
    runs["slogdet, float64"] = with_gradient(lambda: shifted_slogdet(arcs.double(), single_root).float(), arcs)
    if installed("torch_struct"):
        runs["torch-struct"] = with_gradient(by_torch_struct("NonProjectiveDependencyCRF", arcs, single_root), arcs)
    if SUPAR:
        runs["supar"] = with_gradient(lambda: by_supar("MatrixTree", arcs, single_root).log_partition, arcs)
    wanted = {"slogdet by hand": 1.0, "slogdet, float64": 1.0}
    words = "one root" if single_root else "many roots"
    return Case(f"log Z and gradient of non-projective trees, {words}, B{b} L{t}", runs, wanted)


@case
def matrix_tree_one_root() -> Case:
    """Non-projective trees."""
    return matrix_tree(16, 32, single_root=True)


@case
def matrix_tree_many_roots() -> Case:
    """Non-projective trees."""
    return matrix_tree(16, 32, single_root=False)


@case
def matrix_tree_long() -> Case:
    """Non-projective trees."""
    return matrix_tree(32, 64, single_root=True)


@case
def matrix_tree_wide() -> Case:
    """Scores that need the rescue for large scores; plain determinants fail there."""
    arcs = arcs_like(16, 32, scale=1000)
    runs = catena_runs("non-projective", arcs, True)
    runs["slogdet, float64"] = with_gradient(lambda: shifted_slogdet(arcs.double(), True).float(), arcs)
    return Case("the same, one root, B16 L32, scores of scale 1000 (rescue)", runs, agree=1.0)


# --- searches -----------------------------------------------------------------------------------------------


def total(arcs: Tensor, heads: Tensor) -> Tensor:
    return arcs[:, :, 1:].gather(1, heads[:, None]).sum((1, 2))


def by_ufal(arcs: Tensor) -> Callable[[], Tensor]:
    """Parse one matrix at a time; rows are dependents, and any number of words may be attached to the root."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    scores = arcs.transpose(1, 2).double().numpy().copy()
    scores[:, 0] = float("nan")
    return lambda: torch.tensor([chu_liu_edmonds(row)[0][1:] for row in scores])


def best_trees(single_root: bool) -> Case:
    from catena.structure.nonprojective import NonProjectiveTree

    arcs = arcs_like(16, 32).detach()
    runs: dict[str, Run] = {"catena": lambda: total(arcs, NonProjectiveTree(arcs, single_root=single_root).argmax())}
    if installed("ufal.chu_liu_edmonds") and not single_root:
        heads = by_ufal(arcs)
        runs["ufal C++"] = lambda: total(arcs, heads())
    if SUPAR:
        runs["supar"] = lambda: total(arcs, by_supar("MatrixTree", arcs, single_root).argmax[:, 1:])
    words = "one root" if single_root else "many roots"
    return Case(f"best non-projective trees, {words}, B16 L32", runs, {"supar": 40, "ufal C++": 0.5})


@case
def best_one_root() -> Case:
    """Chu-Liu/Edmonds."""
    return best_trees(single_root=True)


@case
def best_many_roots() -> Case:
    """Chu-Liu/Edmonds."""
    return best_trees(single_root=False)


@case
def best_projective() -> Case:
    """Eisner's best trees."""
    from catena.structure.projective import ProjectiveTree

    arcs = arcs_like(16, 32).detach()
    runs: dict[str, Run] = {"catena": lambda: total(arcs, ProjectiveTree(arcs).argmax())}
    if SUPAR:
        runs["supar"] = lambda: total(arcs, by_supar("DependencyCRF", arcs, True).argmax[:, 1:])
    return Case("best projective trees, one root, B16 L32", runs)


def eight_best(tree: Any) -> Tensor:
    scores: Tensor = tree.topk(8).scores
    return scores


@case
def others() -> Case:
    """8 best trees and 8 samples, which no other library computes."""
    from catena.structure.nonprojective import NonProjectiveTree
    from catena.structure.projective import ProjectiveTree

    arcs = arcs_like(16, 32).detach()
    runs: dict[str, Run] = {}
    kinds: list[tuple[str, Any]] = [("non-projective", NonProjectiveTree), ("projective", ProjectiveTree)]
    for name, kind in kinds:
        runs[f"8 best {name}"] = partial(eight_best, kind(arcs))
        runs[f"8 samples {name}"] = partial(kind(arcs).sample, 8)
    return Case("8 best and 8 sampled trees, one root, B16 L32", runs, agree=None)


# --- growth -------------------------------------------------------------------------------------------------


def growth(kind: str, question: str) -> Callable[[int], Run]:
    def at(t: int) -> Run:
        from catena.structure.nonprojective import NonProjectiveTree
        from catena.structure.projective import ProjectiveTree

        tree: Any = ProjectiveTree if kind == "projective" else NonProjectiveTree
        arcs = arcs_like(2, t)
        if question == "best":
            return lambda: tree(arcs.detach()).argmax()
        return with_gradient(lambda: tree(arcs).log_partition(), arcs)

    return at


GROWTH["eisner log Z and gradient (says t³)"] = (growth("projective", "sum"), [64, 128, 256], "t", lambda t: t**3)
GROWTH["matrix-tree log Z and gradient (says t³)"] = (growth("non", "sum"), [64, 128, 256, 512], "t", lambda t: t**3)
GROWTH["best non-projective tree (says t²)"] = (growth("non", "best"), [64, 128, 256, 512], "t", lambda t: t**2)


if __name__ == "__main__":
    import structure

    structure.main()
