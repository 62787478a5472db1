"""CPU search of span trees: the best, the k best, and samples. Backtracking recomputes its choices.

Arguments are as in :mod:`catena.kernels.tree`; charts are kept by width, as in ``tree_loops``. Trees are
written as rows ``(first, last, label)`` in preorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from catena.kernels.jit import jit
from catena.kernels.ops import draws, fold_vmap, torch_operator
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree import ready
from catena.kernels.tree_loops import inside, label_room, sum_labels
from catena.kernels.tree_numbers import power_of_two


@njit(nogil=True)
def clear(rows: Any) -> None:
    """No span in any row."""
    for row in range(rows.shape[0]):
        for x in range(rows.shape[1]):
            rows[row, x] = -1


@njit(nogil=True)
def _best_labels(scores: Any, n: int, own: Any) -> None:
    for i in range(n):
        for j in range(i, n):
            top = scores[i, j, 0]
            for q in range(1, scores.shape[2]):
                top = scores[i, j, q] if scores[i, j, q] > top else top
            own[j - i, i] = top


@njit(nogil=True)
def _best_trees(n: int, own: Any, best: Any, inner: Any) -> None:
    """``best[w, i]``: the score of the best tree over a span; ``inner`` is without that of the span itself."""
    for i in range(n):
        best[0, i] = own[0, i]
    for w in range(1, n):
        top = inner[w]
        for i in range(n - w):
            top[i] = -np.inf
        for u in range(w):
            left, right = best[u], best[w - 1 - u, u + 1 :]
            for i in range(n - w):
                value = left[i] + right[i]
                top[i] = value if value > top[i] else top[i]
        for i in range(n - w):
            best[w, i] = top[i] + own[w, i]


@njit(nogil=True)
def _label_of(scores: Any, value: float) -> int:
    """The first label with this score."""
    for q in range(scores.shape[0]):
        if scores[q] == value:
            return q
    return -1


@njit(nogil=True)
def _split_of(best: Any, value: float, w: int, i: int) -> int:
    """The first split whose parts have this score together."""
    for u in range(w):
        if best[u, i] + best[w - 1 - u, i + u + 1] == value:
            return u
    return -1


@jit("d4", "i1", "i", "i", "i3")
def best_rows(scores: Any, lengths: Any, low: int, high: int, spans: Any) -> None:
    """The best tree of each row; rows of -1 beyond it and where none is possible."""
    t = scores.shape[1]
    own, best, inner = np.empty((t, t)), np.empty((t, t)), np.empty((t, t))
    todo = np.empty((t + 1, 2), np.int64)
    for r in range(low, high):
        n = lengths[r]
        clear(spans[r])
        if n == 0:
            continue
        _best_labels(scores[r], n, own)
        _best_trees(n, own, best, inner)
        if best[n - 1, 0] == -np.inf:
            continue
        waiting, row = 1, 0
        todo[0, 0], todo[0, 1] = n - 1, 0
        while waiting > 0:
            waiting -= 1
            w, i = todo[waiting, 0], todo[waiting, 1]
            spans[r, row, 0], spans[r, row, 1] = i, i + w
            spans[r, row, 2] = _label_of(scores[r, i, i + w], own[w, i])
            row += 1
            if w > 0:
                u = _split_of(best, inner[w, i], w, i)
                todo[waiting, 0], todo[waiting, 1] = w - 1 - u, i + u + 1
                todo[waiting + 1, 0], todo[waiting + 1, 1] = u, i
                waiting += 2


# --- the k best ---------------------------------------------------------------------------------------------


@njit(nogil=True)
def place_way(scores: Any, ways: Any, n: int, value: float, a: int, b: int, c: int) -> int:
    """Put a way (a, b, c) of this value where it belongs among the ``n`` best so far; how many there are then."""
    width = scores.shape[0]
    at = min(n, width - 1)
    while at > 0 and scores[at - 1] < value:
        scores[at] = scores[at - 1]
        for x in range(3):
            ways[at, x] = ways[at - 1, x]
        at -= 1
    scores[at] = value
    ways[at, 0], ways[at, 1], ways[at, 2] = a, b, c
    return min(n + 1, width)


@njit(nogil=True)
def top_of_lists(lists: Any, added: Any, scores: Any, ways: Any) -> int:
    """The best ways (number of a list, place in it) among sorted lists, each with something added; how many exist."""
    width, n = scores.shape[0], 0
    for a in range(lists.shape[0]):
        for place in range(width):
            value = lists[a, place] + added[a]
            if value == -np.inf or (n == width and value <= scores[width - 1]):
                break
            n = place_way(scores, ways, n, value, a, place, 0)
    for place in range(n, width):
        scores[place] = -np.inf
    return n


@njit(nogil=True)
def _top_splits(best: Any, w: int, i: int, scores: Any, ways: Any) -> int:
    """The best ways (split, rank on the left, rank on the right) to make two parts of a span, best first."""
    width, n = scores.shape[0], 0
    if w == 0:
        return place_way(scores, ways, 0, 0.0, -1, -1, -1)
    for u in range(w):
        left, right = best[u, i], best[w - 1 - u, i + u + 1]
        for p in range(width):
            for q in range(width // (p + 1)):  # this number of others is at least as good as the rest
                value = left[p] + right[q]
                if value == -np.inf or (n == width and value <= scores[n - 1]):
                    break
                n = place_way(scores, ways, n, value, u, p, q)
    return n


@njit(nogil=True)
def _top_labels(labels: Any, inner: Any, n_inner: int, scores: Any, ways: Any) -> int:
    """The best ways (label, rank of the way to split) to make a span, best first."""
    width, n = scores.shape[0], 0
    for q in range(labels.shape[0]):
        for rank in range(n_inner):
            value = labels[q] + inner[rank]
            if value == -np.inf or (n == width and value <= scores[n - 1]):
                break
            n = place_way(scores, ways, n, value, q, rank, 0)
    return n


@jit("d4", "i1", "i", "i", "i4", "i1")
def top_rows(scores: Any, lengths: Any, low: int, high: int, spans: Any, found: Any) -> None:
    """The best trees of each row into ``spans[r, n]``, best first, and how many there are."""
    t, width = scores.shape[1], spans.shape[1]
    best = np.empty((t, t, width))
    inner, splits = np.empty(width), np.empty((width, 3), np.int64)
    outer, labels = np.empty(width), np.empty((width, 3), np.int64)
    todo = np.empty((t + 1, 3), np.int64)
    for r in range(low, high):
        n = lengths[r]
        for rank in range(width):
            clear(spans[r, rank])
        found[r] = 1
        if n == 0:
            continue
        for w in range(n):
            for i in range(n - w):
                count = _top_splits(best, w, i, inner, splits)
                count = _top_labels(scores[r, i, i + w], inner, count, outer, labels)
                for rank in range(width):
                    best[w, i, rank] = outer[rank] if rank < count else -np.inf
        found[r] = 0
        while found[r] < width and best[n - 1, 0, found[r]] > -np.inf:
            waiting, row = 1, 0
            todo[0, 0], todo[0, 1], todo[0, 2] = n - 1, 0, found[r]
            while waiting > 0:
                waiting -= 1
                w, i, rank = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
                count = _top_splits(best, w, i, inner, splits)
                _top_labels(scores[r, i, i + w], inner, count, outer, labels)
                spans[r, found[r], row, 0], spans[r, found[r], row, 1] = i, i + w
                spans[r, found[r], row, 2] = labels[rank, 0]
                row += 1
                if w > 0:
                    way = splits[labels[rank, 1]]
                    u, left, right = way[0], way[1], way[2]
                    todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = w - 1 - u, i + u + 1, right
                    todo[waiting + 1, 0], todo[waiting + 1, 1], todo[waiting + 1, 2] = u, i, left
                    waiting += 2
            found[r] += 1


# --- samples ------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _draw_label(shares: Any, uniform: float) -> int:
    found, running = -1, 0.0
    for q in range(shares.shape[0]):
        if shares[q] > 0:
            found = q
            running += shares[q]
            if running > uniform:
                break
    return found


@njit(nogil=True)
def _draw_split(beta: Any, beta_e: Any, total: float, e: int, w: int, i: int, uniform: float) -> int:
    found, running = -1, 0.0
    for u in range(w):
        share = beta[u, i] * beta[w - 1 - u, i + u + 1]
        share *= power_of_two(beta_e[u, i] + beta_e[w - 1 - u, i + u + 1] - e)
        if share > 0:
            found = u
            running += share
            if running > uniform * total:
                break
    return found


@jit("d4", "i1", "i", "i", "d3", "i4")
def sample_rows(scores: Any, lengths: Any, low: int, high: int, uniforms: Any, spans: Any) -> None:
    """``spans[s, r]``: trees drawn by ``uniforms[s, r]``, one number for each label and split, top down."""
    t = scores.shape[1]
    own, own_e = np.empty((t, t)), np.empty((t, t), np.int64)
    beta, beta_e = np.empty((t, t)), np.empty((t, t), np.int64)
    inner, inner_e = np.empty((t, t)), np.empty((t, t), np.int64)
    shares, todo = np.empty(scores.shape[1:]), np.empty((t + 1, 2), np.int64)
    spans_room, labels_room = label_room(t, scores.shape[3])
    for r in range(low, high):
        n = lengths[r]
        for s in range(spans.shape[0]):
            clear(spans[s, r])
        if n == 0:
            continue
        sum_labels(scores[r], n, 0, 1, own, own_e, shares, True, spans_room, labels_room)
        inside(n, 1, own, own_e, beta, beta_e, inner, inner_e)
        if beta[n - 1, 0] == 0:
            continue
        for s in range(spans.shape[0]):
            waiting, row, drawn = 1, 0, 0
            todo[0, 0], todo[0, 1] = n - 1, 0
            while waiting > 0:
                waiting -= 1
                w, i = todo[waiting, 0], todo[waiting, 1]
                spans[s, r, row, 0], spans[s, r, row, 1] = i, i + w
                spans[s, r, row, 2] = _draw_label(shares[i, i + w], uniforms[s, r, drawn])
                drawn, row = drawn + 1, row + 1
                if w > 0:
                    u = _draw_split(beta, beta_e, inner[w, i], inner_e[w, i], w, i, uniforms[s, r, drawn])
                    drawn += 1
                    todo[waiting, 0], todo[waiting, 1] = w - 1 - u, i + u + 1
                    todo[waiting + 1, 0], todo[waiting + 1, 1] = u, i
                    waiting += 2


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("tree_best")
def best(scores: Tensor, lengths: Tensor) -> Tensor:
    """The spans of the best tree of each row, ``[b, 2 t - 1, 3]``."""
    b, t = scores.shape[:2]
    wide, lengths = ready(scores.double(), lengths)
    spans = torch.empty((b, 2 * t - 1, 3), dtype=torch.int64)
    arrays, result = (wide.numpy(), lengths.numpy()), spans.numpy()
    in_row_blocks(lambda low, high: best_rows(*arrays, low, high, result), b, b * t * t * (t + scores.shape[3]))
    return spans


@torch_operator("tree_top")
def top(scores: Tensor, lengths: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The spans of the ``n`` best trees of each row, ``[b, n, 2 t - 1, 3]``, and how many of them there are."""
    b, t = scores.shape[:2]
    wide, lengths = ready(scores.double(), lengths)
    spans, found = torch.empty((b, n, 2 * t - 1, 3), dtype=torch.int64), torch.empty(b, dtype=torch.int64)
    arrays, results = (wide.numpy(), lengths.numpy()), (spans.numpy(), found.numpy())
    work = 8 * n * b * t * t * (t + scores.shape[3])
    in_row_blocks(lambda low, high: top_rows(*arrays, low, high, *results), b, work)
    return spans, found


@best.register_fake
def _(scores: Tensor, lengths: Tensor) -> Tensor:
    return scores.new_empty((scores.shape[0], 2 * scores.shape[1] - 1, 3), dtype=torch.int64)


@top.register_fake
def _(scores: Tensor, lengths: Tensor, n: int) -> tuple[Tensor, Tensor]:
    b, t = scores.shape[:2]
    return scores.new_empty((b, n, 2 * t - 1, 3), dtype=torch.int64), scores.new_empty(b, dtype=torch.int64)


fold_vmap(best)
fold_vmap(top)


@torch_operator("tree_sample")
def sample(scores: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    """Trees drawn from each row, ``[n, b, 2 t - 1, 3]``, by uniform numbers ``[n, b, 3 t]``."""
    b, t = scores.shape[:2]
    wide, lengths = ready(scores.double(), lengths)
    spans = torch.empty((len(uniforms), b, 2 * t - 1, 3), dtype=torch.int64)
    arrays, results = (wide.numpy(), lengths.numpy()), (uniforms.contiguous().numpy(), spans.numpy())
    work = b * t * t * (t + 3 * scores.shape[3] + 2 * len(uniforms))
    in_row_blocks(lambda low, high: sample_rows(*arrays, low, high, *results), b, work)
    return spans


draws(sample, lambda scores, _: (2 * scores.shape[1] - 1, 3))
