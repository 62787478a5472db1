"""Torch operators for the best parses, the k best, and samples on the CPU.

Arguments are as in :mod:`catena.kernels.pcfg.ops`. Parses are rows ``(first, last, symbol)`` in preorder, ``[2 t - 1,
3]``; with low-rank rules ``(first, last, symbol, rank)``, ``[2 t - 1, 4]``. A sample takes ``[2 t]`` uniform numbers,
or ``[4 t]`` with low-rank rules.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.ops import fold_vmap, register_sampler, torch_operator
from catena.kernels.common.searches import RowSearches
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.pcfg.chart import PCFGProblem
from catena.kernels.pcfg.cpu_low_rank_search import search_rows
from catena.kernels.pcfg.cpu_low_rank_search import top_rows as low_rank_top_rows
from catena.kernels.pcfg.cpu_search import best_rows, sample_rows, top_rows
from catena.kernels.pcfg.ops import DENSE
from catena.kernels.pcfg.reference import log_partition_reference, low_rank_log_partition_reference
from catena.kernels.pcfg.solve import build_problem, solve_inside


def _spans_or_zero(problem: PCFGProblem) -> Tensor:
    return problem.words.new_zeros(1, 1, 1, 1) if problem.spans is None else problem.spans


# --- dense rules ------------------------------------------------------------------------------------------------------


def _arrays(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor) -> tuple[Any, ...]:
    """What the loops read: rules with the parent last."""
    problem = build_problem(words, (rules,), roots, spans, lengths)
    parent_last = problem.rules[0].permute(0, 2, 3, 1).contiguous()
    tensors = (problem.words, parent_last, problem.roots, _spans_or_zero(problem))
    return *(x.numpy() for x in tensors), problem.spans is not None, problem.lengths.numpy()


def _count_work(words: Tensor, rules: Tensor, *others: Any) -> int:
    b, t, n, s = *words.shape[:2], *rules.shape[1:3]
    return b * t * t * s * s * (t + 3 * n) // 6


def _shape(words: Tensor, *others: Any) -> tuple[int, int]:
    return 2 * words.shape[1] - 1, 3


_SEARCHES = RowSearches("pcfg", log_partition_reference, arrays=_arrays, shape=_shape, work=_count_work)
best = _SEARCHES.best(best_rows)
top = _SEARCHES.top(top_rows)


@torch_operator("pcfg_sample")
def sample(
    words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, uniforms: Tensor
) -> Tensor:
    """Parses sampled from each row, ``[k, b, 2 t - 1, 3]``, with uniform numbers ``[k, b, 2 t]``."""
    problem = build_problem(words, (rules,), roots, spans, lengths)
    solved = solve_inside(problem, DENSE, keep=True)
    b, t = words.shape[:2]
    n = rules.shape[1]
    found = torch.empty((len(uniforms), b, 2 * t - 1, 3), dtype=torch.int64)
    dense = problem.rules[0]
    largest = dense.amax((-2, -1), keepdim=True)
    weighed = (dense - torch.where(largest == -torch.inf, 0.0, largest)).exp()
    # Words as in the chart: minus the largest of each.
    scores = problem.words - torch.where(problem.words.amax(-1) == -torch.inf, 0.0, problem.words.amax(-1))[..., None]
    given = (
        *(x.numpy() for x in (scores, dense, weighed, problem.roots, _spans_or_zero(problem))),
        problem.spans is not None,
        *(x.numpy() for x in (problem.lengths, solved.exact, solved.chart, solved.e)),
    )
    results = (uniforms.contiguous().numpy(), found.numpy())
    in_row_blocks(lambda low, high: sample_rows(*given, low, high, *results), b, b * len(uniforms) * t * t * n * n)
    return found


register_sampler(sample, _shape)


# --- low-rank rules ---------------------------------------------------------------------------------------------------


def _low_rank_arrays(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> tuple[Any, ...]:
    problem = build_problem(words, (parents, lefts, rights), roots, spans, lengths)
    tensors = (problem.words, *problem.rules, problem.roots, _spans_or_zero(problem))
    return *(x.numpy() for x in tensors), problem.spans is not None, problem.lengths.numpy()


def _low_rank_work(words: Tensor, parents: Tensor, lefts: Tensor, *others: Any) -> int:
    b, t = words.shape[:2]
    r, s = lefts.shape[1:]
    return b * t * t * r * (t + 8 * s)


def _low_rank_shape(words: Tensor, *others: Any) -> tuple[int, int]:
    return 2 * words.shape[1] - 1, 4


def _search(best: bool, uniforms: Tensor, *arguments: Any) -> Tensor:
    """The best parse, or parses sampled with ``uniforms``: both are one loop."""
    arrays = _low_rank_arrays(*arguments)
    b = len(arguments[0])
    found = torch.empty((len(uniforms), b, *_low_rank_shape(*arguments)), dtype=torch.int64)
    results = (uniforms.contiguous().numpy(), found.numpy())
    in_row_blocks(lambda low, high: search_rows(*arrays, low, high, best, *results), b, _low_rank_work(*arguments))
    return found


@torch_operator("low_rank_pcfg_best")
def low_rank_best(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """The spans and ranks of the best parse of each row, ``[b, 2 t - 1, 4]``."""
    b, t = words.shape[:2]
    unused = torch.zeros(1, b, 4 * t, dtype=torch.float64)
    return _search(True, unused, words, parents, lefts, rights, roots, spans, lengths)[0]


@torch_operator("low_rank_pcfg_sample")
def low_rank_sample(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor,
    uniforms: Tensor,
) -> Tensor:  # fmt: skip
    """Parses sampled from each row, ``[k, b, 2 t - 1, 4]``, with uniform numbers ``[k, b, 4 t]``."""
    return _search(False, uniforms, words, parents, lefts, rights, roots, spans, lengths)


low_rank_best.register_fake(
    lambda words, *others: words.new_empty((words.shape[0], *_low_rank_shape(words)), dtype=torch.int64)
)
fold_vmap(low_rank_best)
register_sampler(low_rank_sample, _low_rank_shape)
low_rank_top = RowSearches(
    "low_rank_pcfg",
    low_rank_log_partition_reference,
    arrays=_low_rank_arrays,
    shape=_low_rank_shape,
    work=_low_rank_work,
).top(low_rank_top_rows)
