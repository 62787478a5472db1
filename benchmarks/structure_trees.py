"""Span trees and grammars with Catena and other libraries; ``structure.py`` describes the measurements.

python benchmarks/structure.py trees [--only tree] [--threads 1 2] [--rounds 9]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import structure
from structure import Case, Run, case, in_reference, installed, with_gradient

TORCH_STRUCT = installed("torch_struct")


# --- span trees ---------------------------------------------------------------------------------------------


def span_scores(b: int, t: int, k: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(b, t, t, k, requires_grad=True)


def tree_runs(b: int, t: int, k: int) -> dict[str, Run]:
    from catena.structure.tree import SpanTree

    scores = span_scores(b, t, k)

    def log_z() -> Tensor:
        return SpanTree(scores).log_partition()

    runs = {
        "catena": with_gradient(log_z, scores),
        "catena reference": with_gradient(in_reference(log_z), scores),
    }
    if TORCH_STRUCT:
        from torch_struct import TreeCRF

        runs["torch-struct"] = with_gradient(lambda: TreeCRF(scores).partition, scores)
    return runs


@case
def tree_sum() -> Case:
    """log Z and its gradient, B8 L32."""
    return Case("log Z and gradient of span trees, B8 L32 K1", tree_runs(8, 32, 1), {"torch-struct": 20})


@case
def tree_sum_labels() -> Case:
    """log Z and its gradient with 20 labels."""
    return Case("log Z and gradient of span trees, B8 L32 K20", tree_runs(8, 32, 20))


@case
def tree_sum_large() -> Case:
    """log Z and its gradient of long sentences."""
    return Case("log Z and gradient of span trees, B32 L64 K1", tree_runs(32, 64, 1))


@case
def tree_best() -> Case:
    """The best trees, as spans."""
    from catena.structure.tree import SpanTree

    scores = span_scores(8, 32, 20).detach()
    runs: dict[str, Run] = {"catena": lambda: SpanTree(scores).max()}
    if TORCH_STRUCT:
        from torch_struct import TreeCRF

        def best() -> Tensor:
            parts = TreeCRF(scores.clone()).argmax
            return (parts * scores).sum((1, 2, 3))

        runs["torch-struct"] = best
    return Case("best span trees, B8 L32 K20", runs)


# --- grammars -----------------------------------------------------------------------------------------------


def grammar_scores(b: int, t: int, n: int, p: int) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((b, t, p), (n, n + p, n + p), (n,))
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def for_torch_struct(words: Tensor, rules: Tensor, roots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return all scores copied to each sentence, as torch-struct requires."""
    b = len(words)
    return words, rules[None].expand(b, -1, -1, -1), roots[None].expand(b, -1)


def grammar_runs(b: int, t: int, n: int, p: int) -> dict[str, Run]:
    from catena.structure.pcfg import PCFG

    inputs = grammar_scores(b, t, n, p)

    def log_z() -> Tensor:
        return PCFG(*inputs).log_partition()

    runs = {
        "catena": with_gradient(log_z, *inputs),
        "catena reference": with_gradient(in_reference(log_z), *inputs),
    }
    if TORCH_STRUCT:
        from torch_struct import SentCFG

        runs["torch-struct"] = with_gradient(lambda: SentCFG(for_torch_struct(*inputs)).partition, *inputs)
    return runs


@case
def pcfg_sum() -> Case:
    """log Z and its gradient, B4 L20 NT20 T20."""
    return Case("log Z and gradient of a grammar, B4 L20 NT20 T20", grammar_runs(4, 20, 20, 20), {"torch-struct": 10})


@case
def pcfg_sum_large() -> Case:
    """log Z and its gradient with as many symbols as a typical induced grammar."""
    return Case("log Z and gradient of a grammar, B4 L20 NT30 T60", grammar_runs(4, 20, 30, 60))


@case
def pcfg_best() -> Case:
    """The best parses, as spans."""
    from catena.structure.pcfg import PCFG

    inputs = [x.detach() for x in grammar_scores(4, 20, 20, 20)]
    runs: dict[str, Run] = {"catena": lambda: PCFG(*inputs).max()}
    if TORCH_STRUCT:
        from torch_struct import SentCFG

        def best() -> Tensor:
            scores = tuple(x.clone() for x in for_torch_struct(*inputs))
            parts = SentCFG(scores).argmax
            return sum((part * x).flatten(1).sum(1) for part, x in zip(parts[:3], scores, strict=True))  # type: ignore

        runs["torch-struct"] = best
    return Case("best parses by a grammar, B4 L20 NT20 T20", runs)


@case
def low_rank_pcfg_sum() -> Case:
    """log Z and its gradient with rules of rank 50, compared with the same grammar with dense rules."""
    from catena.structure.low_rank_pcfg import LowRankPCFG

    words, _, roots = grammar_scores(4, 20, 30, 60)
    matrices = [torch.randn(s, requires_grad=True) for s in ((30, 50), (50, 90), (50, 90))]
    grammar = LowRankPCFG(words, *matrices, roots)
    inputs = (words, *matrices, roots)
    runs = {
        "catena": with_gradient(grammar.log_partition, *inputs),
        "catena, dense": with_gradient(lambda: grammar.dense().log_partition(), *inputs),
    }
    return Case("log Z and gradient of a low-rank grammar, B4 L20 NT30 T60 R50", runs)


# --- growth -------------------------------------------------------------------------------------------------


def tree_growth(t: int) -> Run:
    return tree_runs(2, t, 1)["catena"]


def grammar_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        return (grammar_runs(1, n, 10, 10) if over == "t" else grammar_runs(1, 20, n, n))["catena"]

    return at


def low_rank_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        from catena.structure.low_rank_pcfg import LowRankPCFG

        t, rank = (n, 32) if over == "t" else (24, n)
        words, _, roots = grammar_scores(1, t, 16, 16)
        matrices = [torch.randn(s, requires_grad=True) for s in ((16, rank), (rank, 32), (rank, 32))]
        return with_gradient(LowRankPCFG(words, *matrices, roots).log_partition, words, *matrices, roots)

    return at


structure.GROWTH["tree, span trees over t (says t³)"] = (tree_growth, [64, 128, 256, 512], "t", lambda t: t**3 + t**2)
structure.GROWTH["pcfg, over t (says t³ n² + t² n s²)"] = (
    grammar_growth("t"),
    [80, 160, 320],
    "t",
    lambda t: t**3 * 10**2 + t**2 * 10 * 20**2,
)
structure.GROWTH["pcfg, over symbols (says t³ n² + t² n s²)"] = (
    grammar_growth("n"),
    [24, 48, 96],
    "n",
    lambda n: 20**3 * n**2 + 20**2 * n * (2 * n) ** 2,
)
structure.GROWTH["low-rank pcfg, over t (says t³ r + t² r s)"] = (
    low_rank_growth("t"),
    [80, 160, 320],
    "t",
    lambda t: t**3 * 32 + t**2 * 32 * 32,
)
structure.GROWTH["low-rank pcfg, over rank (says r)"] = (low_rank_growth("r"), [1024, 2048, 4096], "r", lambda r: r)


if __name__ == "__main__":
    structure.main()
