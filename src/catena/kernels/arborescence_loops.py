"""The compiled loops that find best trees by contracting cycles. Uses only numpy arrays.

Every word takes its best head; where that closes a cycle, its words become one, and the score of an arc into it becomes
what is gained by entering there (Chu & Liu 1965, Edmonds 1967). Grown along one path, each contraction costs the words
it joins times all heads, O(n²) together (Tarjan 1977, for dense graphs).

**A single root.** Trees are compared by their number of roots first and by their score second. So an arc from the root
is taken only where there is no other, which makes the best tree one with a single root if there is any (Gabow & Tarjan
1984). No large number is added to any score, and none of their digits is lost.

**The k best.** The second tree is the best one with one arc exchanged, where an arc into a contracted cycle counts as
one: the arc that ``c`` (a word or a cycle) took is given up for the next best one that does not come from a descendant
(Camerini et al. 1980). What is left is split into the trees with the given-up arc and those without. As the order of
trees puts one root first, the k best with one root are the first k (Zmigrod et al. 2021).

Node 0 is the root, words are 1 to n, cycles follow in the order of their contraction. For node ``c`` and each head
``u`` outside of it, ``s[c, u]`` is the gain of the best arc from ``u`` into ``c``, and ``to[c, u]`` the word where it
enters; ``took[c]`` is (head, word, node of the cycle that holds ``c``, or -1), and ``gain[c]`` the gain of that arc.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.jit import jit

HEAD, WORD, HOLDER = 0, 1, 2
UNSEEN, ON_PATH, DONE = 0, 1, 2


@njit(nogil=True)
def _best_head(s: Any, single_root: bool) -> int:
    """The head with the greatest gain, the root last if it may be taken once; -1 where there is none."""
    top, head = -np.inf, -1
    for u in range(1 if single_root else 0, s.shape[0]):
        if s[u] > top:
            top, head = s[u], u
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
                s[new, u], to[new, u] = value, to[c, u]
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
        place[v], state[v] = v, UNSEEN
    took[:, HOLDER] = -1
    for start in range(1, n + 1):
        if state[place[start]] == DONE:
            continue
        path[0], top = place[start], 0
        state[path[0]] = ON_PATH
        while top >= 0:
            c = path[top]
            u = _best_head(s[c, : n + 1], single_root)
            if u < 0 or (u == 0 and single_root and roots > 0):
                return 0
            took[c, HEAD], took[c, WORD], gain[c] = u, to[c, u], s[c, u]
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
                path[top], state[size] = size, ON_PATH
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
    s, to = np.empty((2 * size, size)), np.empty((2 * size, size), np.int64)
    took, final, gain = np.empty((2 * size, 3), np.int64), np.empty((2 * size, 2), np.int64), np.empty(2 * size)
    place, state, path = np.empty(size, np.int64), np.empty(2 * size, np.int64), np.empty(size, np.int64)
    for r in range(low, high):
        n = lengths[r]
        for v in range(1, n + 1):
            for u in range(n + 1):
                s[v, u], to[v, u] = arcs[r, u, v], v
            s[v, v] = -np.inf
        count = contract_all(n, single_root, s, to, took, gain, place, state, path)
        expand(n, count, took, final)
        for v in range(1, n + 1 if count > 0 else 1):
            heads[r, v - 1] = final[v, HEAD]
