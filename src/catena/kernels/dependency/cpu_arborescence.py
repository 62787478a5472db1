"""Compiled loops for the best and the k best non-projective trees, by contraction of cycles.

Every word takes its best head. If that closes a cycle, its words become one node, and the score of an arc into it
becomes what is gained by entering there (Chu & Liu 1965, Edmonds 1967). Grown along one path, each contraction costs
the words it joins times all heads, O(n²) together (Tarjan 1977, for dense graphs).

**A single root.** Trees are compared by their number of roots first and by their score second. So an arc from the root
is taken only if there is no other, which makes the best tree one with a single root if there is any (Gabow & Tarjan
1984). No large number is added to any score, and none of their digits is lost.

**The k best.** The second tree is the best one with one arc exchanged, where an arc into a contracted cycle counts as
one: the arc that ``c`` (a word or a cycle) took is given up for the next best one that does not come from a descendant
(Camerini et al. 1980). The remaining trees are split into those with the given-up arc and those without. As the order
of trees puts one root first, the k best with one root are the first k (Zmigrod et al. 2021). Each *part* of the
remaining trees is given by its best tree ``a``, which is found already, the arcs it requires, and those it forbids.
Labels are parallel arcs: the ``rank`` of an arc is the number of its labels, best first, that are forbidden. A part
also holds the word whose arc is given up in its second tree, and the score of that tree.

Node 0 is the root, words are 1 to n, cycles follow in the order of their contraction. For node ``c`` and each head
``u`` outside of it, ``s[c, u]`` is the gain of the best arc from ``u`` into ``c``, and ``to[c, u]`` the word where it
enters; ``took[c]`` is (head, word, node of the cycle that holds ``c``, or -1), and ``gain[c]`` the gain of that arc.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import jit

HEAD, WORD, HOLDER = 0, 1, 2
UNSEEN, ON_PATH, DONE = 0, 1, 2


@njit(nogil=True)
def _best_head(s: Any, single_root: bool) -> int:
    """The head with the greatest gain, the root last if it may be taken once; -1 where there is none."""
    top = -np.inf
    head = -1
    for u in range(1 if single_root else 0, s.shape[0]):
        if s[u] > top:
            top = s[u]
            head = u
    return 0 if head < 0 and s[0] > -np.inf else head


@njit(nogil=True)
def _contract(path: Any, first: int, last: int, new: int, s: Any, to: Any, took: Any, gain: Any, place: Any) -> None:
    """Make one node of those on the path from ``first`` to ``last``."""
    s[new, :] = -np.inf
    for i in range(first, last + 1):
        c = path[i]
        took[c, HOLDER] = new
        lost = gain[c]
        for u in range(s.shape[1]):
            value = s[c, u] - lost
            if value > s[new, u]:
                s[new, u] = value
                to[new, u] = to[c, u]
    for u in range(1, s.shape[1]):
        if took[place[u], HOLDER] == new:
            place[u] = new
            s[new, u] = -np.inf


@njit(nogil=True)
def contract_all(
    n: int, single_root: bool, s: Any, to: Any, took: Any, gain: Any, place: Any, state: Any, path: Any
) -> int:
    """Grow paths until all words hang from the root. ``s`` and ``to`` hold the words' heads.

    Returns the number of nodes, root included, or 0 where there is no tree.
    """
    size = n + 1
    roots = 0
    for v in range(n + 1):
        place[v] = v
        state[v] = UNSEEN
    took[:, HOLDER] = -1
    for start in range(1, n + 1):
        if state[place[start]] == DONE:
            continue
        path[0] = place[start]
        top = 0
        state[path[0]] = ON_PATH
        while top >= 0:
            c = path[top]
            u = _best_head(s[c, : n + 1], single_root)
            if u < 0 or (u == 0 and single_root and roots > 0):
                return 0
            took[c, HEAD] = u
            took[c, WORD] = to[c, u]
            gain[c] = s[c, u]
            roots += u == 0
            if u == 0 or state[place[u]] == DONE:
                for i in range(top + 1):
                    state[path[i]] = DONE
                top = -1
            elif state[place[u]] == UNSEEN:
                top += 1
                path[top] = place[u]
                state[path[top]] = ON_PATH
            else:
                first = top
                while path[first] != place[u]:
                    first -= 1
                _contract(path, first, top, size, s[:, : n + 1], to, took, gain, place)
                top = first
                path[top] = size
                state[size] = ON_PATH
                size += 1
    return size


@njit(nogil=True)
def expand(n: int, size: int, took: Any, final: Any) -> None:
    """The arcs of the tree: ``final[c]`` is (head, word) of the arc by which it enters ``c``."""
    for c in range(1, size):
        final[c, HEAD], final[c, WORD] = took[c, HEAD], took[c, WORD]
    for c in range(size - 1, n, -1):
        inner = final[c, WORD]
        while took[inner, HOLDER] != c:
            inner = took[inner, HOLDER]
        final[inner, HEAD], final[inner, WORD] = final[c, HEAD], final[c, WORD]


@jit("3", "i1", "b", "i", "i", "i2")
def best_rows(arcs: Any, lengths: Any, single_root: bool, low: int, high: int, heads: Any) -> None:
    """The heads of the best tree of each row, into what is -1 before."""
    size = arcs.shape[1]
    s = np.empty((2 * size, size))
    to = np.empty((2 * size, size), np.int64)
    took = np.empty((2 * size, 3), np.int64)
    final = np.empty((2 * size, 2), np.int64)
    gain = np.empty(2 * size)
    place = np.empty(size, np.int64)
    state = np.empty(2 * size, np.int64)
    path = np.empty(size, np.int64)
    for r in range(low, high):
        n = lengths[r]
        for v in range(1, n + 1):
            for u in range(n + 1):
                s[v, u] = arcs[r, u, v]
                to[v, u] = v
            s[v, v] = -np.inf
        count = contract_all(n, single_root, s, to, took, gain, place, state, path)
        expand(n, count, took, final)
        for v in range(1, n + 1 if count > 0 else 1):
            heads[r, v - 1] = final[v, HEAD]


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
    stack = np.empty(n + 1, np.int64)
    depth = 1
    count = 0
    leave[: n + 1] = -1
    stack[0] = 0
    while depth > 0:
        v = stack[depth - 1]
        if leave[v] == -1:
            enter[v] = count
            leave[v] = -2
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
    least = np.inf
    word = -1
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
            least = gain[c] - next_best
            word = m
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
    size = arcs.shape[1]
    width = heads.shape[1]
    s = np.empty((2 * size, size))
    gain = np.empty(2 * size)
    other = np.empty(size, np.int64)
    pairs = np.empty((2 * size, 2), np.int64)
    triples = np.empty((2 * size, 3), np.int64)
    numbers = (
        np.empty((2 * size, size), np.int64), triples, pairs, np.empty(2 * size, np.int64), np.empty(size, np.int64),
        np.empty(size, np.int64), np.empty((3, size), np.int64),
    )  # fmt: skip
    # Part i has the i-th tree for its best.
    ranks = np.zeros((width, size, size), np.int64)
    demanded = np.empty((width, size), np.int64)
    trees = np.empty((width, size), np.int64)
    seconds = np.empty(width)
    words = np.empty(width, np.int64)
    for r in range(low, high):
        n = lengths[r]
        part = -1
        new = 0
        ranks[0] = 0
        demanded[0] = -1
        while new < width:
            if new > 0:
                part = int(np.argmax(seconds[:new]))
                if seconds[part] == -np.inf:
                    break
                word = words[part]
                head = trees[part, words[part]]
                ranks[new] = ranks[part]
                demanded[new] = demanded[part]
                ranks[new, head, word] += 1
                demanded[part, word] = head
            if n > 0 and _solve(arcs[r], n, single_root, ranks[new], demanded[new], s, gain, numbers, trees[new]) == 0:
                break
            for v in range(1, n + 1):
                heads[r, new, v - 1] = trees[new, v]
                labels[r, new, v - 1] = ranks[new, trees[new, v], v]
            for i in (part, new):
                if i >= 0:
                    seconds[i], words[i] = _second(
                        arcs[r], n, single_root, ranks[i], demanded[i], s, gain, numbers, trees[i], other
                    )
            new += 1
        found[r] = new
