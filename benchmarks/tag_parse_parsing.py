"""Dependency parsing from given scores, in sentences per second: best trees and arc marginals.

    python benchmarks/tag_parse.py parsing [--threads 1] [--rounds 3]

A batch of 64 sentences of 3 to 50 words, one root each, with random scores as early in training and peaked ones as late
in training (for which all find the best tree faster). Catena and SuPar get the same tensor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from structure_dependency import SUPAR, supar_structs
from tag_parse import line, verdict
from torch import Tensor

from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree
from structure import timed

B, LONGEST, WANTED = 64, 50, 3.0
KINDS: dict[str, tuple[Any, str]] = {
    "non-projective": (NonProjectiveTree, "MatrixTree"),
    "projective": (ProjectiveTree, "DependencyCRF"),
}


def batch(peaked: bool) -> tuple[Tensor, Tensor]:
    """Return scores ``[b, head, word]`` and lengths, the longest first as parsers sort them."""
    torch.manual_seed(0)
    lengths = torch.randint(3, LONGEST + 1, (B,)).sort(descending=True).values
    arcs = torch.randn(B, LONGEST + 1, LONGEST + 1)
    if peaked:
        for row, n in enumerate(lengths.tolist()):
            for word in range(2, n + 1):
                arcs[row, int(torch.randint(1, word, ())), word] += 8.0
            arcs[row, 0, 1] += 8.0
    return arcs, lengths


def by_supar(name: str, arcs: Tensor, lengths: Tensor) -> Any:
    return getattr(supar_structs(), name)(arcs.transpose(1, 2), lengths, multiroot=False)


def tree_scores(arcs: Tensor, heads: Tensor, lengths: Tensor) -> Tensor:
    """Return the summed scores of trees, so that tied trees compare equal."""
    real = torch.arange(heads.shape[1]) < lengths[:, None]
    return torch.where(real, arcs[:, :, 1:].gather(1, heads.clamp_min(0)[:, None])[:, 0], 0.0).sum(-1)


def best(kind: str, arcs: Tensor, lengths: Tensor) -> dict[str, Callable[[], Tensor]]:
    ours, theirs = KINDS[kind]
    runs = {"catena": lambda: tree_scores(arcs, ours(arcs, lengths=lengths).argmax(), lengths)}
    if SUPAR:
        runs["supar"] = lambda: tree_scores(arcs, by_supar(theirs, arcs, lengths).argmax[:, 1:], lengths)
    return runs


def marginals(kind: str, arcs: Tensor, lengths: Tensor) -> dict[str, Callable[[], Tensor]]:
    ours, theirs = KINDS[kind]
    runs = {"catena": lambda: ours(arcs, lengths=lengths).arc_marginals()[:, :, 1:]}
    if SUPAR:
        runs["supar"] = lambda: by_supar(theirs, arcs, lengths).marginals.transpose(1, 2)[:, :, 1:]
    return runs


def run(options: argparse.Namespace) -> None:
    """Print a line for each task: sentences per second, the ratio, and the difference of the results."""
    questions = {"best tree": best, "probabilities": marginals}
    for peaked in (False, True):
        arcs, lengths = batch(peaked)
        print(f"\ndependency trees, {B} sentences of up to {LONGEST} words, {'peaked' if peaked else 'random'} scores")
        for kind in KINDS:
            for task, make_runs in questions.items():
                runs = make_runs(kind, arcs, lengths)
                answers = {name: one() for name, one in runs.items()}
                times = timed(runs, options.rounds)
                cells = {name: f"{B / times[name][0] * 1e3:,.0f} sentences/s" for name in runs}
                if "supar" in runs:
                    cells["ratio"] = verdict(times["supar"][0] / times["catena"][0], WANTED)
                    cells["differs"] = f"{(answers['catena'] - answers['supar']).abs().max().item():.1e}"
                line(f"{task}, {kind}", cells)
