"""Torch operators of sums over parses with dense rules on the CPU: inside forwards, outside backwards.

Rows of the batch lie on the first axis: ``words`` ``[b, t, p]``, ``rules`` ``[g, n, s, s]`` and ``roots``
``[g, s]``, each shared by ``b / g`` consecutive rows, and ``spans`` ``[b, t, t, n]`` or None. All is computed
in float64, whatever the dtype. Saved for the backward pass: the chart, ``t (t + 1) / 2`` spans by ``n``
symbols for each sentence.

The second derivative is taken through :func:`plain_log_partition`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.ops import differentiable, fold_vmap, keep_all, keep_inputs, needs_grad, torch_operator
from catena.kernels.pcfg_dense import DenseRules
from catena.kernels.pcfg_logs import dense_log_rows
from catena.kernels.pcfg_solve import Solved, SolveKind, build_problem, solve_inside, solve_outside
from catena.kernels.second_derivative import second_derivative
from catena.numerics import NEG_INF, log_sum_exp

DENSE = SolveKind(DenseRules, dense_log_rows)


def log_partition(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    keep = needs_grad(*(x for x in (words, rules, roots, spans) if x is not None))
    return _inside(words, rules, roots, spans, lengths, keep)[0]


def plain_log_partition(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    (b, t, p), n = words.shape, rules.shape[1]
    rules, roots = rules.repeat_interleave(b // len(rules), 0), roots.repeat_interleave(b // len(roots), 0)
    by_width = [torch.cat((words.new_full((b, t, n), NEG_INF), words), dim=2)]
    total = torch.where(lengths == 1, log_sum_exp(roots + by_width[0][:, 0], dim=1), NEG_INF)
    for w in range(1, t):
        m = t - w
        left = torch.stack([by_width[u][:, :m] for u in range(w)])
        right = torch.stack([by_width[w - 1 - u][:, u + 1 : u + 1 + m] for u in range(w)])
        pairs = log_sum_exp(left[..., :, None] + right[..., None, :], dim=0).flatten(2)
        here = log_sum_exp(rules.flatten(2)[:, None] + pairs[:, :, None], dim=3)
        if spans is not None:
            here = here + spans.diagonal(w, dim1=1, dim2=2).transpose(1, 2)
        by_width.append(torch.cat((here, words.new_full((b, m, p), NEG_INF)), dim=2))
        total = torch.where(lengths == w + 1, log_sum_exp(roots + by_width[w][:, 0], dim=1), total)
    return total


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("pcfg_inside")
def _inside_op(
    words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = solve_inside(build_problem(words, (rules,), roots, spans, lengths), DENSE, keep)
    return found.log_z.to(words.dtype), found.exact, found.chart, found.e


@torch_operator("pcfg_slopes")
def _slopes_op(
    scale: Tensor, words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, exact: Tensor,
    chart: Tensor, e: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    problem = build_problem(words, (rules,), roots, spans, lengths)
    found = solve_outside(problem, DENSE, scale, Solved(scale, exact, chart, e))
    by_rules, by_roots = grouped_again(found.rules[0], len(rules)), grouped_again(found.roots, len(roots))
    by_spans = found.spans if spans is not None else found.spans.expand(len(words), 0, 0, 0)
    kinds = (found.words, by_rules, by_roots, by_spans)
    by_words, by_rules, by_roots, by_spans = (x.to(words.dtype).clone() for x in kinds)
    return by_words, by_rules, by_roots, by_spans


def grouped_again(x: Tensor, groups: int) -> Tensor:
    """Gradients of what was copied to each row, summed over the rows that shared it."""
    return x if len(x) == groups else x.unflatten(0, (groups, -1)).sum(1)


@_inside_op.register_fake
def _(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, keep: bool) -> Any:
    return words.new_empty(words.shape[0]), *chart_shapes(words, rules.shape[1], keep)


def chart_shapes(words: Tensor, n: int, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Empty tensors in the shape of what is kept."""
    b, t = words.shape[:2]
    size = t * (t + 1) // 2 if keep else 0
    exact, e = words.new_empty(b, dtype=torch.bool), words.new_empty((b, size), dtype=torch.int64)
    return exact, words.new_empty((b, size, n), dtype=torch.float64), e


@_slopes_op.register_fake
def _(scale: Tensor, words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, *rest: Tensor) -> Any:
    by_spans = words.new_empty((words.shape[0], 0, 0, 0)) if spans is None else spans
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (words, rules, roots, by_spans))


for _op in (_inside_op, _slopes_op):
    fold_vmap(_op)


# --- derivatives --------------------------------------------------------------------------------------------


def _back_inside(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    words, rules, roots, spans, lengths, exact, chart, e = ctx.saved_tensors
    if chart.shape[1] == 0:
        exact, chart, e = (x.detach() for x in _inside(words, rules, roots, spans, lengths, True)[1:])
    found = _slopes(grad, words, rules, roots, spans, lengths, exact, chart, e)
    return *found[:3], None if spans is None else found[3], None, None


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, words, rules, roots, spans, lengths = ctx.saved_tensors[:6]
    scores = [x for x in (words, rules, roots, spans) if x is not None]

    def log_z(*chosen: Tensor) -> Tensor:
        words, rules, roots, *spans = chosen
        return plain_log_partition(words, rules, roots, spans[0] if spans else None, lengths)

    found = second_derivative(log_z, scale, scores, grads[: len(scores)])
    return *found, *(None for _ in range(9 - len(found)))


_inside = differentiable(_inside_op, keep_all, _back_inside)
_slopes = differentiable(_slopes_op, keep_inputs, _back_slopes, is_gradient=True)
