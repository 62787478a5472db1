"""The compiled loops for the k best non-projective trees; :mod:`catena.kernels.arborescence_loops` has the notation.

What is left beside the trees already found is kept as *parts*, each a set of trees given by its best tree ``a``, which
is found already, the arcs it demands, and those it forbids. Labels are arcs side by side: the ``rank`` of an arc is how
many of its labels, best first, are forbidden. A part also knows the word whose arc is given up in its second tree, and
that one's score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.arborescence_loops import HEAD, HOLDER, WORD, contract_all, expand
from catena.kernels.jit import jit


@njit(nogil=True)
def _score(arcs: Any, h: int, m: int, rank: int) -> float:
    """The score of an arc with the label of this rank."""
    return arcs[h, m, rank] if rank < arcs.shape[2] else -np.inf


@njit(nogil=True)
def _load(arcs: Any, n: int, ranks: Any, demanded: Any, s: Any, to: Any) -> None:
    """The heads of words that a part of the trees allows."""
    for v in range(1, n + 1):
        for u in range(n + 1):
            to[v, u] = v
            allowed = u != v and (demanded[v] < 0 or demanded[v] == u)
            s[v, u] = _score(arcs, u, v, ranks[u, v]) if allowed else -np.inf


@njit(nogil=True)
def _number_subtrees(n: int, heads: Any, enter: Any, leave: Any) -> None:
    """``u`` descends from ``v`` where enter[v] ≤ enter[u] < leave[v]. ``heads[v]`` is -1 for the root alone."""
    stack, depth, count = np.empty(n + 1, np.int64), 1, 0
    leave[: n + 1] = -1
    stack[0] = 0
    while depth > 0:
        v = stack[depth - 1]
        if leave[v] == -1:
            enter[v], leave[v] = count, -2
            count += 1
            for u in range(1, n + 1):
                if heads[u] == v:
                    stack[depth] = u
                    depth += 1
        else:
            depth -= 1
            leave[v] = count


@njit(nogil=True)
def _least_loss(
    arcs: Any, n: int, size: int, single_root: bool, ranks: Any, demanded: Any, s: Any, took: Any, gain: Any,
    final: Any, heads: Any, scratch: Any,
) -> Any:  # fmt: skip
    """(what the second tree loses, the word whose arc it gives up), from the contraction that gave the best one."""
    enter, leave, place = scratch[0], scratch[1], scratch[2]
    lost = np.zeros(n + 1)  # what the arcs into each word lost in the cycles that hold it, inside of c
    _number_subtrees(n, heads, enter, leave)
    least, word = np.inf, -1
    for v in range(n + 1):
        place[v] = v
    for c in range(1, size):
        for v in range(1, n + 1):
            if took[place[v], HOLDER] == c:
                lost[v] += gain[place[v]]
                place[v] = c
        h, m = took[c, HEAD], took[c, WORD]
        if final[c, HEAD] != h or final[c, WORD] != m or demanded[m] >= 0:
            continue
        next_best = _score(arcs, h, m, ranks[h, m] + 1) - lost[m]
        for u in range(n + 1):
            below = enter[m] <= enter[u] < leave[m]
            if u != h and not below and (u > 0 or not single_root):
                next_best = max(next_best, s[c, u])
        for v in range(1, n + 1):
            if place[v] == c and v != m and (demanded[v] < 0 or demanded[v] == h):
                next_best = max(next_best, _score(arcs, h, v, ranks[h, v]) - lost[v])
        if gain[c] - next_best < least:
            least, word = gain[c] - next_best, m
    return least, word


@njit(nogil=True)
def _total(arcs: Any, n: int, heads: Any, ranks: Any) -> float:
    total = 0.0
    for v in range(1, n + 1):
        total += _score(arcs, heads[v], v, ranks[heads[v], v])
    return total


@njit(nogil=True)
def _solve(
    arcs: Any, n: int, single_root: bool, ranks: Any, demanded: Any, s: Any, gain: Any, numbers: Any, tree: Any
) -> int:
    """The best tree of a part: the head of every word, and -1 for the root. Returns the number of nodes."""
    to, took, final, state, place, path, _ = numbers
    _load(arcs, n, ranks, demanded, s, to)
    count = contract_all(n, single_root, s, to, took, gain, place, state, path)
    expand(n, count, took, final)
    tree[0] = -1
    for v in range(1, n + 1):
        tree[v] = final[v, HEAD]
    return count


@njit(nogil=True)
def _second(
    arcs: Any, n: int, single_root: bool, ranks: Any, demanded: Any, s: Any, gain: Any, numbers: Any, tree: Any,
    other: Any,
) -> Any:  # fmt: skip
    """(score, word whose arc is given up) of the second tree of a part; -inf where there is none. The best is ``tree``.

    Where several trees are best, the one found here may be another: then it is the second.
    """
    _, took, final, _, _, _, scratch = numbers
    count = _solve(arcs, n, single_root, ranks, demanded, s, gain, numbers, other)
    for v in range(1, n + 1):
        if other[v] != tree[v]:
            return _total(arcs, n, other, ranks), v
    loss, word = _least_loss(arcs, n, count, single_root, ranks, demanded, s, took, gain, final, tree, scratch)
    return _total(arcs, n, tree, ranks) - loss, word


@jit("4", "i1", "b", "i", "i", "i3", "i3", "i1")
def top_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, heads: Any, labels: Any, found: Any
) -> None:
    """Heads and ranks of labels of the best trees of each row, best first, into what is -1 before; their number."""
    size, width = arcs.shape[1], heads.shape[1]
    s, gain, other = np.empty((2 * size, size)), np.empty(2 * size), np.empty(size, np.int64)
    pairs, triples = np.empty((2 * size, 2), np.int64), np.empty((2 * size, 3), np.int64)
    numbers = (
        np.empty((2 * size, size), np.int64), triples, pairs, np.empty(2 * size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.int64), np.empty((3, size), np.int64),
    )  # fmt: skip
    # Part i has the i-th tree for its best.
    ranks, demanded = np.zeros((width, size, size), np.int64), np.empty((width, size), np.int64)
    trees, seconds, words = np.empty((width, size), np.int64), np.empty(width), np.empty(width, np.int64)
    for r in range(low, high):
        n, part, new = lengths[r], -1, 0
        ranks[0], demanded[0] = 0, -1
        while new < width:
            if new > 0:
                part = int(np.argmax(seconds[:new]))
                if seconds[part] == -np.inf:
                    break
                word, head = words[part], trees[part, words[part]]
                ranks[new], demanded[new] = ranks[part], demanded[part]
                ranks[new, head, word] += 1
                demanded[part, word] = head
            if n > 0 and _solve(arcs[r], n, single_root, ranks[new], demanded[new], s, gain, numbers, trees[new]) == 0:
                break
            for v in range(1, n + 1):
                heads[r, new, v - 1], labels[r, new, v - 1] = trees[new, v], ranks[new, trees[new, v], v]
            for i in (part, new):
                if i >= 0:
                    seconds[i], words[i] = _second(
                        arcs[r], n, single_root, ranks[i], demanded[i], s, gain, numbers, trees[i], other
                    )
            new += 1
        found[r] = new
