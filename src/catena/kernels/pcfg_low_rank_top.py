"""The k best parses for low-rank rules on the CPU, by lists of the k best of every span and symbol.

Huang & Chiang (2005), algorithm 1. Arguments are as in :mod:`catena.kernels.pcfg_low_rank`; parses are rows
``(first, last, symbol, rank)`` in preorder. A rank is chosen between a symbol and its parts, and pairs of symbols are
not listed: O(t³ r k log k + t² r s k) for k parses. No back-pointers: the way down makes the lists of its spans again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from catena.kernels.jit import jit
from catena.kernels.ops import fold_vmap, torch_operator
from catena.kernels.pcfg_solve import build_problem
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree_search import clear, place_way, top_of_lists


@njit(nogil=True)
def _top_splits(left: Any, right: Any, i: int, j: int, q: int, scores: Any, ways: Any) -> None:
    """The best ways (last word on the left, place on the left, place on the right) to split a span under rank q."""
    width, n = scores.shape[0], 0
    for m in range(i, j):
        for a in range(width):
            for b in range(width // (a + 1)):  # (a + 1)(b + 1) combinations are at least as good
                value = left[i, m, q, a] + right[m + 1, j, q, b]
                if value == -np.inf or (n == width and value <= scores[width - 1]):
                    break
                n = place_way(scores, ways, n, value, m, a, b)
    for place in range(n, width):
        scores[place] = -np.inf


@njit(nogil=True)
def _fill(
    words: Any, up: Any, to_left: Any, to_right: Any, spans: Any, has_spans: bool, n_words: int, best: Any, left: Any,
    right: Any, merged: Any, ways: Any,
) -> None:  # fmt: skip
    """Scores of the best parses: ``best[i, j, a]`` with ``a`` over a span, ``left[i, j, q]`` as left part of rank q."""
    n, ranks = up.shape
    s = to_left.shape[1]
    for w in range(n_words):
        for i in range(n_words - w):
            j = i + w
            best[i, j] = -np.inf
            if w == 0:
                best[i, j, n:, 0] = words[i]
            else:
                for q in range(ranks):
                    _top_splits(left, right, i, j, q, merged[q], ways)
                for a in range(n):
                    top_of_lists(merged, up[a], best[i, j, a], ways)
                    if has_spans:
                        best[i, j, a] += spans[i, j, a]
            for q in range(ranks):
                top_of_lists(best[i, j, :s], to_left[q], left[i, j, q], ways)
                top_of_lists(best[i, j, :s], to_right[q], right[i, j, q], ways)


@njit(nogil=True)
def _write_tree(
    up: Any, to_left: Any, to_right: Any, n_words: int, top: Any, best: Any, left: Any, right: Any, merged: Any,
    splits: Any, todo: Any, scores: Any, ways: Any, found: Any,
) -> None:  # fmt: skip
    """The parse that begins with the way ``top`` (symbol, place), in preorder."""
    waiting, row = 1, 0
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, n_words - 1, top[0], top[1]
    while waiting > 0:
        waiting -= 1
        i, j, a, place = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
        found[row, 0], found[row, 1], found[row, 2] = i, j, a
        if i < j:
            for q in range(up.shape[1]):
                _top_splits(left, right, i, j, q, merged[q], splits[q])
            top_of_lists(merged, up[a], scores, ways)
            q = ways[place, 0]
            m, on_left, on_right = splits[q, ways[place, 1]]
            found[row, 3] = q
            top_of_lists(best[m + 1, j], to_right[q], scores, ways)
            todo[waiting, 0], todo[waiting, 1] = m + 1, j
            todo[waiting, 2], todo[waiting, 3] = ways[on_right, 0], ways[on_right, 1]
            top_of_lists(best[i, m], to_left[q], scores, ways)
            todo[waiting + 1, 0], todo[waiting + 1, 1] = i, m
            todo[waiting + 1, 2], todo[waiting + 1, 3] = ways[on_left, 0], ways[on_left, 1]
            waiting += 2
        row += 1


@jit("d3", "d3", "d3", "d3", "d2", "d4", "b", "i1", "i", "i", "i4", "i1")
def top_rows(
    words: Any, parents: Any, lefts: Any, rights: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int,
    high: int, found: Any, counts: Any,
) -> None:  # fmt: skip
    """The best parses of each sentence into ``found[r, k]``, best first, and how many there are."""
    t, s, ranks, width = words.shape[1], lefts.shape[2], parents.shape[2], found.shape[1]
    best = np.empty((t, t, s, width))
    left, right = np.empty((t, t, ranks, width)), np.empty((t, t, ranks, width))
    merged, splits = np.empty((ranks, width)), np.zeros((ranks, width, 3), np.int64)
    scores, ways, tops = np.empty(width), np.zeros((width, 3), np.int64), np.zeros((width, 3), np.int64)
    todo = np.empty((t + 1, 4), np.int64)
    for r in range(low, high):
        counts[r] = 0
        for k in range(width):
            clear(found[r, k])
        n_words = lengths[r]
        if n_words == 0:
            continue
        up, to_left = parents[min(r, parents.shape[0] - 1)], lefts[min(r, lefts.shape[0] - 1)]
        to_right, own = rights[min(r, rights.shape[0] - 1)], spans[min(r, spans.shape[0] - 1)]
        _fill(words[r], up, to_left, to_right, own, has_spans, n_words, best, left, right, merged, ways)
        counts[r] = top_of_lists(best[0, n_words - 1], roots[min(r, roots.shape[0] - 1)], scores, tops)
        for k in range(counts[r]):
            _write_tree(
                up, to_left, to_right, n_words, tops[k], best, left, right, merged, splits, todo, scores, ways,
                found[r, k],
            )  # fmt: skip


@torch_operator("low_rank_pcfg_top")
def top(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor,
    k: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The spans and ranks of the ``k`` best parses of each row, ``[b, k, 2 t - 1, 4]``, and how many there are."""
    problem = build_problem(words, (parents, lefts, rights), roots, spans, lengths)
    own = problem.words.new_zeros(1, 1, 1, 1) if problem.spans is None else problem.spans
    given = [x.numpy() for x in (problem.words, *problem.rules, problem.roots, own)]
    (b, t), (ranks, s) = words.shape[:2], lefts.shape[1:]
    found, counts = torch.empty((b, k, 2 * t - 1, 4), dtype=torch.int64), torch.empty(b, dtype=torch.int64)
    fixed, results = (problem.spans is not None, problem.lengths.numpy()), (found.numpy(), counts.numpy())
    in_row_blocks(
        lambda low, high: top_rows(*given, *fixed, low, high, *results), b, 4 * b * t * t * ranks * (t + 2 * s) * k
    )
    return found, counts


@top.register_fake
def _(words: Tensor, *arguments: Any) -> Any:
    b, t = words.shape[:2]
    return words.new_empty((b, arguments[-1], 2 * t - 1, 4), dtype=torch.int64), words.new_empty(b, dtype=torch.int64)


fold_vmap(top)
