"""Torch operators for sums over parses on the CPU: inside forwards, outside backwards.

Rows of the batch are on the first axis: ``words`` ``[b, t, p]``, ``rules`` ``[g, n, s, s]`` and ``roots`` ``[g, s]``,
each shared by ``b / g`` consecutive rows, and ``spans`` ``[b, t, t, n]`` or None. Low-rank rules are three matrices:
``parents`` ``[g, n, r]``, ``lefts`` and ``rights`` ``[g, r, s]``. All computation is in float64, for every dtype. The
chart, ``t (t + 1) / 2`` spans by ``n`` symbols for each sentence, is saved for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.ops import as_lengths, is_plain
from catena.kernels.common.sums import RowSums
from catena.kernels.pcfg.chart import PCFGProblem
from catena.kernels.pcfg.cpu_logs import dense_log_rows, low_rank_log_rows
from catena.kernels.pcfg.reference import log_partition_reference, low_rank_log_partition_reference
from catena.kernels.pcfg.rules import DenseRules, LowRankRules
from catena.kernels.pcfg.small import SmallChart
from catena.kernels.pcfg.solve import (
    KEEP_ALL,
    Gradients,
    KeptChart,
    Solved,
    SolveKind,
    build_problem,
    count_numbers,
    solve_inside,
    solve_outside,
)

DENSE = SolveKind(DenseRules, dense_log_rows)
LOW_RANK = SolveKind(LowRankRules, low_rank_log_rows)


def log_partition(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor) -> Tensor:
    """log Z of every row, with dense rules."""
    return _sum_or_keep(SUMS, DENSE, words, (rules,), roots, spans, lengths)


def low_rank_log_partition(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """log Z of every row, with low-rank rules."""
    return _sum_or_keep(LOW_RANK_SUMS, LOW_RANK, words, (parents, lefts, rights), roots, spans, lengths)


def _sum_or_keep(
    sums: RowSums,
    kind: SolveKind,
    words: Tensor,
    rules: tuple[Tensor, ...],
    roots: Tensor,
    spans: Tensor | None,
    lengths: Tensor,
) -> Tensor:
    """log Z of every row; the tables of a small batch are kept for the gradient, which takes half the time then."""
    arguments = (words, *rules, roots, spans, lengths)
    if is_plain() and sums.needs_grad(*arguments):
        kept = _keep(kind, words, rules, roots, spans, lengths)
        if kept is not None:
            found: Tensor = _LogZOfChart.apply(sums, kept, *arguments)
            return found
    return sums.log_partition(*arguments)


def _keep(
    kind: SolveKind, words: Tensor, rules: tuple[Tensor, ...], roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> SmallChart | KeptChart | None:
    """The tables of a small batch; None if it is large or needs the general program."""
    b, t, p = words.shape
    if b * count_numbers(t, rules[0].shape[1], p) > KEEP_ALL:
        return None
    if kind is DENSE and len(rules[0]) == 1 and len(roots) in (1, b):
        return SmallChart.solve(words, rules[0], roots, spans, as_lengths(lengths, t))
    with torch.no_grad():
        return KeptChart.solve(build_problem(words, rules, roots, spans, lengths), kind)


class _LogZOfChart(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sums: RowSums, kept: SmallChart | KeptChart, *arguments: Tensor | None) -> Tensor:
        ctx.sums = sums
        ctx.kept = kept
        ctx.constants = {}
        ctx.save_for_backward(*arguments)
        assert arguments[0] is not None
        return kept.log_z.to(arguments[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if torch.is_grad_enabled() or not is_plain():
            return None, None, *ctx.sums.back_log_z(ctx, grad)
        scores = ctx.saved_tensors[:-1]
        found = ctx.kept.gradients(grad)
        found = _like_scores(found, scores) if isinstance(found, Gradients) else found
        return None, None, *found, None


def _parse_sums(name: str, reference: Callable[..., Tensor], kind: SolveKind, n_rules: int) -> RowSums:
    """The operators for words, ``n_rules`` tensors of rules, roots, spans and lengths."""

    def problem(words: Tensor, *others: Any) -> PCFGProblem:
        roots, spans, lengths = others[n_rules:]
        return build_problem(words, others[:n_rules], roots, spans, lengths)

    def sum_rows(keep: bool, *arguments: Any) -> tuple[Tensor, ...]:
        found = solve_inside(problem(*arguments), kind, keep)
        return found.log_z.to(arguments[0].dtype), found.exact, found.chart, found.e

    def kept(words: Tensor, rules: Tensor, *others: Any) -> tuple[Tensor, ...]:
        b, t = words.shape[:2]
        size = t * (t + 1) // 2
        n = rules.shape[1]
        chart = words.new_empty((b, size, n), dtype=torch.float64)
        return words.new_empty(b, dtype=torch.bool), chart, words.new_empty((b, size), dtype=torch.int64)

    def gradients(scale: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        *given, exact, chart, e = arguments
        scores = given[:-1]
        found = solve_outside(problem(*given), kind, scale, Solved(scale, exact, chart, e))
        return tuple(scale.new_empty(len(scale), 0) if x is None else x.clone() for x in _like_scores(found, scores))

    return RowSums(name, reference, n_rules + 3, sum_rows=sum_rows, kept=kept, n_kept=3, gradients=gradients)


def _like_scores(found: Gradients, scores: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Gradients in the dtypes of the scores, and None for spans that were not given."""
    results = (found.words, *found.rules, found.roots, found.spans)
    return tuple(
        None if score is None else _group(x, len(score)).to(score.dtype)
        for x, score in zip(results, scores, strict=True)
    )


def _group(x: Tensor, groups: int) -> Tensor:
    """Gradients of what was copied to each row, summed over the rows that shared it."""
    return x if len(x) == groups else x.unflatten(0, (groups, -1)).sum(1)


SUMS = _parse_sums("pcfg", log_partition_reference, DENSE, 1)
LOW_RANK_SUMS = _parse_sums("low_rank_pcfg", low_rank_log_partition_reference, LOW_RANK, 3)
