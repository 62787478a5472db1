"""The k best parses for dense rules on the CPU, by lists of the k best of every span and symbol.

Huang & Chiang (2005), algorithm 1. Arguments are as in :mod:`catena.kernels.pcfg`, charts and rows those of
``pcfg_search``. No back-pointers: the way down makes the lists of the spans that it meets again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from catena.kernels.jit import jit
from catena.kernels.ops import fold_vmap, torch_operator
from catena.kernels.pcfg_search import search_arrays, symbol_range
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree_search import clear, place_way, top_of_lists


@njit(nogil=True)
def _top_pairs(best: Any, n: int, i: int, j: int, scores: Any, ways: Any, counts: Any) -> None:
    """For each pair of symbols the best ways (middle, rank on the left, rank on the right), best first."""
    s, width = best.shape[2], best.shape[3]
    for b in range(s):
        for c in range(s):
            counts[b, c] = 0
    for m in range(i, j):
        b_low, b_high = symbol_range(m - i + 1, n, s)
        c_low, c_high = symbol_range(j - m, n, s)
        for b in range(b_low, b_high):
            for c in range(c_low, c_high):
                for p in range(width):
                    for q in range(width // (p + 1)):
                        value = best[i, m, b, p] + best[m + 1, j, c, q]
                        count = counts[b, c]
                        if value == -np.inf or (count == width and value <= scores[b, c, width - 1]):
                            break
                        counts[b, c] = place_way(scores[b, c], ways[b, c], count, value, m, p, q)


@njit(nogil=True)
def _top_parents(pairs: Any, counts: Any, rules: Any, a: int, scores: Any, ways: Any) -> int:
    """The best ways (left symbol, right symbol, rank of the way to split) to make ``a``, best first."""
    s, width, n = counts.shape[0], scores.shape[0], 0
    for b in range(s):
        for c in range(s):
            for rank in range(counts[b, c]):
                value = pairs[b, c, rank] + rules[b, c, a]
                if value == -np.inf or (n == width and value <= scores[width - 1]):
                    break
                n = place_way(scores, ways, n, value, b, c, rank)
    return n


@jit("d3", "d4", "d2", "d4", "b", "i1", "i", "i", "i4", "i1")
def top_rows(
    words: Any, rules: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int, high: int, found: Any,
    counts: Any,
) -> None:  # fmt: skip
    """The best parses of each sentence into ``found[r, k]``, best first, and how many there are."""
    t, n, s, width = words.shape[1], rules.shape[3], rules.shape[1], found.shape[1]
    best, todo = np.empty((t, t, s, width)), np.empty((t + 1, 4), np.int64)
    pairs, splits, many = np.empty((s, s, width)), np.empty((s, s, width, 3), np.int64), np.empty((s, s), np.int64)
    scores, ways, tops = np.empty(width), np.empty((width, 3), np.int64), np.empty((width, 3), np.int64)
    for r in range(low, high):
        counts[r] = 0
        for k in range(width):
            clear(found[r, k])
        n_words, own = lengths[r], rules[min(r, rules.shape[0] - 1)]
        if n_words == 0:
            continue
        for w in range(n_words):
            for i in range(n_words - w):
                here = best[i, i + w]
                for a in range(s):
                    for k in range(width):
                        here[a, k] = -np.inf
                if w == 0:
                    for q in range(s - n):
                        here[n + q, 0] = words[r, i, q]
                    continue
                _top_pairs(best, n, i, i + w, pairs, splits, many)
                for a in range(n):
                    bonus = spans[r, i, i + w, a] if has_spans else 0.0
                    for k in range(_top_parents(pairs, many, own, a, scores, ways)):
                        here[a, k] = scores[k] + bonus
        counts[r] = top_of_lists(best[0, n_words - 1], roots[min(r, roots.shape[0] - 1)], scores, tops)
        for k in range(counts[r]):
            waiting, row = 1, 0
            todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, n_words - 1, tops[k, 0], tops[k, 1]
            while waiting > 0:
                waiting -= 1
                i, j, a, rank = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
                found[r, k, row, 0], found[r, k, row, 1], found[r, k, row, 2] = i, j, a
                row += 1
                if i < j:
                    _top_pairs(best, n, i, j, pairs, splits, many)
                    _top_parents(pairs, many, own, a, scores, ways)
                    b, c = ways[rank, 0], ways[rank, 1]
                    way = splits[b, c, ways[rank, 2]]
                    right, left = todo[waiting], todo[waiting + 1]
                    right[0], right[1], right[2], right[3] = way[0] + 1, j, c, way[2]
                    left[0], left[1], left[2], left[3] = i, way[0], b, way[1]
                    waiting += 2


@torch_operator("pcfg_top")
def top(
    words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The spans of the ``k`` best parses of each row, ``[b, k, 2 t - 1, 3]``, and how many of them there are."""
    given = search_arrays(words, rules, roots, spans, lengths)
    b, t, n, s = *words.shape[:2], *rules.shape[1:3]
    found, counts = torch.empty((b, k, 2 * t - 1, 3), dtype=torch.int64), torch.empty(b, dtype=torch.int64)
    results = (found.numpy(), counts.numpy())
    in_row_blocks(lambda low, high: top_rows(*given, low, high, *results), b, b * t * t * s * s * (t + 3 * n) * k)
    return found, counts


@top.register_fake
def _(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, k: int) -> Any:
    b, t = words.shape[:2]
    return words.new_empty((b, k, 2 * t - 1, 3), dtype=torch.int64), words.new_empty(b, dtype=torch.int64)


fold_vmap(top)
