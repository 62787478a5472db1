"""Sums over the parses of a grammar with low-rank rules on the CPU: inside forwards, outside backwards.

Arguments as in :mod:`catena.kernels.pcfg`, with three matrices in place of the rules: ``parents`` ``[g, n, r]``,
``lefts`` and ``rights`` ``[g, r, s]``. The second derivative is taken through :func:`plain_log_partition`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.ops import differentiable, fold_vmap, keep_all, keep_inputs, needs_grad, torch_operator
from catena.kernels.pcfg import chart_shapes, grouped_again
from catena.kernels.pcfg_chart import ChartLayout, PCFGChart, PCFGProblem, PCFGRules, scale_by_max
from catena.kernels.pcfg_logs import low_rank_log_rows
from catena.kernels.pcfg_loops import merge_back, merge_spans
from catena.kernels.pcfg_solve import Solved, SolveKind, build_problem, solve_inside, solve_outside
from catena.kernels.second_derivative import second_derivative
from catena.numerics import NEG_INF, log_sum_exp


class LowRankRules(PCFGRules):
    """What each rank finds in a span, as a left and as a right part, is kept beside the weights of its symbols."""

    def __init__(self, problem: PCFGProblem, layout: ChartLayout, signs_only: bool = False) -> None:
        parents, lefts, rights = problem.rules
        self.layout, self.n, self.r = layout, parents.shape[1], parents.shape[2]
        if signs_only:
            self.parents, self.lefts, self.rights = ((x > -torch.inf).double() for x in problem.rules)
            self.steepest = torch.zeros(parents.shape[:2], dtype=torch.float64)
        else:
            (self.lefts, left_top), (self.rights, right_top) = scale_by_max(lefts), scale_by_max(rights)
            self.parents, self.steepest = scale_by_max(parents + (left_top + right_top)[:, None])
        self.up, self.down = self.parents.transpose(1, 2).contiguous(), self.parents
        self.from_left, self.from_right = self.lefts.transpose(1, 2), self.rights.transpose(1, 2)  # g s r

    def begin(self, chart: PCFGChart) -> None:
        size = (self.layout.rows, self.r)
        self.found_left, self.found_right = (torch.zeros(size, dtype=torch.float64) for _ in range(2))
        tensors = (self.found_left, self.found_right, chart.e)
        self.fixed = (*(x.numpy() for x in tensors), self.layout.place, self.layout.lengths)
        self._project(0, chart.words, slice(self.n, None))

    def sums(self, chart: PCFGChart, w: int) -> tuple[Tensor, Any]:
        merged, most = self._merge(w)
        return self.layout.times(w, merged, self.up), most

    def closed(self, chart: PCFGChart, w: int) -> None:
        low, rows = self.layout.blocks[w]
        self._project(w, chart.chart[low : low + rows], slice(self.n))

    def begin_back(self, chart: PCFGChart) -> None:
        self.begin(chart)
        for w in range(1, len(self.layout.blocks)):
            self.closed(chart, w)
        self.by_left, self.by_right = torch.zeros_like(self.found_left), torch.zeros_like(self.found_right)
        self.by_from_left, self.by_from_right = torch.zeros_like(self.from_left), torch.zeros_like(self.from_right)
        self.by_up = torch.zeros_like(self.up)

    def exponents(self, chart: PCFGChart, w: int) -> Any:
        low, rows = self.layout.blocks[w]
        here = slice(low, low + rows)
        chart.gradients[here] += self._project_back(w, chart.chart[here], slice(self.n))
        self.merged, self.most = self._merge(w)
        return self.most

    def back(self, chart: PCFGChart, w: int, onward: Tensor) -> None:
        layout, most = self.layout, self.most
        layout.add_product(w, self.merged, onward, self.by_up)
        given = layout.times(w, onward, self.down).numpy()
        fixed, results = self.fixed, (self.by_left.numpy(), self.by_right.numpy())
        layout.each(lambda low, high: merge_back(*fixed, w, low, high, most, given, *results), given.size * w * 4)

    def words_back(self, chart: PCFGChart) -> None:
        chart.by_words += self._project_back(0, chart.words, slice(self.n, None))

    def gradients(self) -> tuple[Tensor, ...]:
        by_left, by_right = self.by_from_left.transpose(1, 2), self.by_from_right.transpose(1, 2)
        return self.by_up.transpose(1, 2) * self.parents, by_left * self.lefts, by_right * self.rights

    def _project(self, w: int, weights: Tensor, symbols: slice) -> None:
        """What each rank finds in the spans of ``w + 1`` words, of which these symbols have weights."""
        low, rows = self.layout.blocks[w] if self.layout.blocks else (0, 0)
        if rows:
            self.found_left[low : low + rows] = self.layout.times(w, weights, self.from_left[:, symbols])
            self.found_right[low : low + rows] = self.layout.times(w, weights, self.from_right[:, symbols])

    def _project_back(self, w: int, weights: Tensor, symbols: slice) -> Tensor:
        low, rows = self.layout.blocks[w] if self.layout.blocks else (0, 0)
        by_left, by_right = self.by_left[low : low + rows], self.by_right[low : low + rows]
        if not rows:
            return torch.zeros_like(weights)
        self.layout.add_product(w, weights, by_left, self.by_from_left[:, symbols])
        self.layout.add_product(w, weights, by_right, self.by_from_right[:, symbols])
        back = self.layout.times(w, by_left, self.lefts[:, :, symbols])
        return back + self.layout.times(w, by_right, self.rights[:, :, symbols])

    def _merge(self, w: int) -> tuple[Tensor, Any]:
        rows, fixed = self.layout.blocks[w][1], self.fixed
        merged, most = torch.empty(rows, self.r, dtype=torch.float64), np.empty(rows, np.int64)
        result = merged.numpy()
        self.layout.each(lambda low, high: merge_spans(*fixed, w, low, high, most, result), rows * w * self.r * 2)
        return merged, most


_LOW_RANK = SolveKind(LowRankRules, low_rank_log_rows)


def log_partition(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """log Z of every row."""
    keep = needs_grad(*(x for x in (words, parents, lefts, rights, roots, spans) if x is not None))
    return _inside(words, parents, lefts, rights, roots, spans, lengths, keep)[0]


def plain_log_partition(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    (b, t, p), n = words.shape, parents.shape[1]
    groups = (x.repeat_interleave(b // len(x), 0) for x in (parents, lefts, rights, roots))
    parents, lefts, rights, roots = groups
    column = torch.cat((words.new_full((b, t, n), NEG_INF), words), dim=2)
    total = torch.where(lengths == 1, log_sum_exp(roots + column[:, 0], dim=1), NEG_INF)
    as_left: list[Tensor] = []
    as_right: list[Tensor] = []
    for w in range(1, t):
        m = t - w
        as_left.append(log_sum_exp(lefts[:, None] + column[:, :, None], dim=3))
        as_right.append(log_sum_exp(rights[:, None] + column[:, :, None], dim=3))
        left = torch.stack([as_left[u][:, :m] for u in range(w)])
        right = torch.stack([as_right[w - 1 - u][:, u + 1 : u + 1 + m] for u in range(w)])
        here = log_sum_exp(parents[:, None] + log_sum_exp(left + right, dim=0)[:, :, None], dim=3)
        if spans is not None:
            here = here + spans.diagonal(w, dim1=1, dim2=2).transpose(1, 2)
        column = torch.cat((here, words.new_full((b, m, p), NEG_INF)), dim=2)
        total = torch.where(lengths == w + 1, log_sum_exp(roots + column[:, 0], dim=1), total)
    return total


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("low_rank_pcfg_inside")
def _inside_op(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    found = solve_inside(build_problem(words, (parents, lefts, rights), roots, spans, lengths), _LOW_RANK, keep)
    return found.log_z.to(words.dtype), found.exact, found.chart, found.e


@torch_operator("low_rank_pcfg_slopes")
def _slopes_op(
    scale: Tensor, words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None,
    lengths: Tensor, exact: Tensor, chart: Tensor, e: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    problem = build_problem(words, (parents, lefts, rights), roots, spans, lengths)
    found = solve_outside(problem, _LOW_RANK, scale, Solved(scale, exact, chart, e))
    by_spans = found.spans if spans is not None else found.spans.expand(len(words), 0, 0, 0)
    shared = zip((*found.rules, found.roots), (parents, lefts, rights, roots), strict=True)
    kinds = (found.words, *(grouped_again(x, len(given)) for x, given in shared), by_spans)
    results = tuple(x.to(words.dtype, copy=True).contiguous() for x in kinds)
    return results  # type: ignore[return-value]


@_inside_op.register_fake
def _(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor,
    keep: bool,
) -> Any:  # fmt: skip
    return words.new_empty(words.shape[0]), *chart_shapes(words, parents.shape[1], keep)


@_slopes_op.register_fake
def _(
    scale: Tensor, words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None,
    *rest: Tensor,
) -> Any:  # fmt: skip
    by_spans = words.new_empty((words.shape[0], 0, 0, 0)) if spans is None else spans
    kinds = (words, parents, lefts, rights, roots, by_spans)
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in kinds)


for _op in (_inside_op, _slopes_op):
    fold_vmap(_op)


# --- derivatives --------------------------------------------------------------------------------------------


def _back_inside(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 8
    *given, exact, chart, e = ctx.saved_tensors
    if chart.shape[1] == 0:
        exact, chart, e = (x.detach() for x in _inside(*given, True)[1:])
    found = _slopes(grad, *given, exact, chart, e)
    return *found[:5], None if given[5] is None else found[5], None, None


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, *given, lengths = ctx.saved_tensors[:8]
    scores = [x for x in given if x is not None]

    def log_z(*chosen: Tensor) -> Tensor:
        words, parents, lefts, rights, roots, *spans = chosen
        return plain_log_partition(words, parents, lefts, rights, roots, spans[0] if spans else None, lengths)

    found = second_derivative(log_z, scale, scores, grads[: len(scores)])
    return *found, *(None for _ in range(11 - len(found)))


_inside = differentiable(_inside_op, keep_all, _back_inside)
_slopes = differentiable(_slopes_op, keep_inputs, _back_slopes, is_gradient=True)
