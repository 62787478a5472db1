"""The best parses and samples for low-rank rules on the CPU, in log space. Backtracking recomputes its choices.

Best and drawn parses are one program: where the one takes a maximum the other takes a sum of weights, and where the one
takes the greatest the other draws. Parses are rows ``(first, last, symbol, rank)`` in preorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from catena.kernels.jit import jit
from catena.kernels.ops import draws, fold_vmap, torch_operator
from catena.kernels.pcfg_logs import low_rank_inside, merge_logs
from catena.kernels.pcfg_search import draw_log
from catena.kernels.pcfg_solve import build_problem
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree_search import clear


@njit(nogil=True)
def _choose(terms: Any, best: bool, uniform: float) -> int:
    """The greatest term, or one drawn in proportion to exp(terms); -1 where all are -inf."""
    if not best:
        return draw_log(terms, uniform)
    top, found = -np.inf, -1
    for k in range(terms.shape[0]):
        if terms[k] > top:
            top, found = terms[k], k
    return found


@jit("d3", "d3", "d3", "d3", "d2", "d4", "b", "i1", "i", "i", "b", "d3", "i4")
def search_rows(
    words: Any, parents: Any, lefts: Any, rights: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int,
    high: int, best: bool, uniforms: Any, found: Any,
) -> None:  # fmt: skip
    """``found[k, r]``: parses drawn by ``uniforms[k, r]``, one number for the root and four for each rule."""
    t, s, ranks = words.shape[1], lefts.shape[2], parents.shape[2]
    beta, left, right = np.empty((t, t, s)), np.empty((t, t, ranks)), np.empty((t, t, ranks))
    todo, splits, terms = np.empty((t + 1, 3), np.int64), np.empty(t), np.empty(ranks)
    for r in range(low, high):
        for k in range(found.shape[0]):
            clear(found[k, r])
        n_words = lengths[r]
        if n_words == 0:
            continue
        up, to_left = parents[min(r, parents.shape[0] - 1)], lefts[min(r, lefts.shape[0] - 1)]
        to_right, own = rights[min(r, rights.shape[0] - 1)], spans[min(r, spans.shape[0] - 1)]
        low_rank_inside(words[r], up, to_left, to_right, own, has_spans, n_words, best, beta, left, right)
        whole = roots[min(r, roots.shape[0] - 1)] + beta[0, n_words - 1]
        for k in range(found.shape[0]):
            draws, drawn = uniforms[k, r], 1
            a = _choose(whole, best, draws[0])
            if a < 0:
                break
            waiting, row = 1, 0
            todo[0, 0], todo[0, 1], todo[0, 2] = 0, n_words - 1, a
            while waiting > 0:
                waiting -= 1
                i, j, a = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
                found[k, r, row, 0], found[k, r, row, 1], found[k, r, row, 2] = i, j, a
                if i < j:
                    merge_logs(left, right, i, j, best, splits, terms)
                    q = _choose(up[a] + terms, best, draws[drawn])
                    for m in range(i, j):
                        splits[m - i] = left[i, m, q] + right[m + 1, j, q]
                    m = i + _choose(splits[: j - i], best, draws[drawn + 1])
                    b = _choose(to_left[q] + beta[i, m], best, draws[drawn + 2])
                    c = _choose(to_right[q] + beta[m + 1, j], best, draws[drawn + 3])
                    drawn += 4
                    found[k, r, row, 3] = q
                    todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = m + 1, j, c
                    todo[waiting + 1, 0], todo[waiting + 1, 1], todo[waiting + 1, 2] = i, m, b
                    waiting += 2
                row += 1


@torch_operator("low_rank_pcfg_best")
def best(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """The spans and ranks of the best parse of each row, ``[b, 2 t - 1, 4]``."""
    b, t = words.shape[:2]
    nothing = torch.zeros(1, b, 4 * t, dtype=torch.float64)
    return _searched(words, parents, lefts, rights, roots, spans, lengths, True, nothing)[0]


@best.register_fake
def _(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    return words.new_empty((words.shape[0], 2 * words.shape[1] - 1, 4), dtype=torch.int64)


fold_vmap(best)


@torch_operator("low_rank_pcfg_sample")
def sample(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor,
    uniforms: Tensor,
) -> Tensor:  # fmt: skip
    """Parses drawn from each row, ``[k, b, 2 t - 1, 4]``, by uniform numbers ``[k, b, 4 t]``."""
    return _searched(words, parents, lefts, rights, roots, spans, lengths, False, uniforms)


draws(sample, lambda scores, _: (2 * scores.shape[1] - 1, 4))


def _searched(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor,
    best: bool, uniforms: Tensor,
) -> Tensor:  # fmt: skip
    problem = build_problem(words, (parents, lefts, rights), roots, spans, lengths)
    own = problem.words.new_zeros(1, 1, 1, 1) if problem.spans is None else problem.spans
    given = [x.numpy() for x in (problem.words, *problem.rules, problem.roots, own)]
    (b, t), (r, s) = words.shape[:2], lefts.shape[1:]
    found = torch.empty((len(uniforms), b, 2 * t - 1, 4), dtype=torch.int64)
    fixed, results = (
        (problem.spans is not None, problem.lengths.numpy()),
        (uniforms.contiguous().numpy(), found.numpy()),
    )
    work = b * t * t * r * (t + 8 * s + len(uniforms))
    in_row_blocks(lambda low, high: search_rows(*given, *fixed, low, high, best, *results), b, work)
    return found
