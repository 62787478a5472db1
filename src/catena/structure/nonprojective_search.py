"""Reference implementation of the search for the best and the k best non-projective trees.

It processes one sentence at a time, in Python. Arguments and results are the same as in
:mod:`catena.kernels.dependency.ops_nonprojective`. Tested in tests/kernels/test_arborescence.py.
"""

from __future__ import annotations

import heapq
import itertools
import math

import torch
from torch import Tensor

from catena.kernels.common.ops import torch_operator
from catena.kernels.dependency.ops import register_searches

_Scores = dict[tuple[int, int], float]
"""The score of every possible arc (head, word)."""


# Custom operators, because vmap and torch.compile cannot trace loops over values.
@torch_operator("plain_arborescence_best")
def best(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The heads of the best tree of each row, ``[b, t]``."""
    heads = torch.full((arcs.shape[0], arcs.shape[1] - 1), -1, device=arcs.device)
    for r, n in enumerate(lengths.tolist()):
        for word, head in _best_tree(_possible(arcs[r].tolist(), n), n, single_root).items():
            heads[r, word - 1] = head
    return heads


@torch_operator("plain_arborescence_top")
def top(arcs: Tensor, lengths: Tensor, single_root: bool, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Heads and label ranks of the ``k`` best trees of each row, ``[b, k, t]``, and the number of trees found."""
    b, nodes, _, n_labels = arcs.shape
    heads = torch.full((b, k, nodes - 1), -1, device=arcs.device)
    labels = torch.full_like(heads, -1)
    found = torch.zeros(b, dtype=torch.int64, device=arcs.device)
    for r, n in enumerate(lengths.tolist()):
        by_label = [_possible(arcs[r, :, :, j].tolist(), n) for j in range(n_labels)]
        for i, tree in enumerate(_best_trees(by_label, n, single_root, k)):
            found[r] = i + 1
            for word, (head, label) in tree.items():
                heads[r, i, word - 1], labels[r, i, word - 1] = head, label
    return heads, labels, found


register_searches(best, top)


def _possible(arcs: list[list[float]], n: int) -> _Scores:
    pairs = itertools.product(range(n + 1), range(1, n + 1))
    return {(h, m): arcs[h][m] for h, m in pairs if h != m and arcs[h][m] > -math.inf}


def _best_tree(arcs: _Scores, n: int, single_root: bool) -> dict[int, int]:
    """The head of every word; empty if there is no tree. For a single root, every word is tried as its dependent."""
    if not single_root:
        return _grown(arcs, set(range(1, n + 1)))
    trees = []
    for root in range(1, n + 1):
        mine = {(h, m): s for (h, m), s in arcs.items() if (h == 0) == (m == root)}
        tree = _grown(mine, set(range(1, n + 1)))
        if tree:
            trees.append((math.fsum(mine[h, m] for m, h in tree.items()), tree))
    return max(trees, key=lambda pair: pair[0])[1] if trees else {}


def _grown(arcs: _Scores, words: set[int]) -> dict[int, int]:
    """Chu & Liu (1965), Edmonds (1967): every word takes its best head, and a cycle is contracted to one word."""
    heads = {}
    for m in words:
        choices = [(s, h) for (h, word), s in arcs.items() if word == m]
        if not choices:
            return {}
        heads[m] = max(choices)[1]
    cycle = _cycle(heads)
    if not cycle:
        return heads
    new = max(max(words), max(cycle)) + 1
    smaller: _Scores = {}
    origin: dict[tuple[int, int], tuple[int, int]] = {}
    for (h, m), s in arcs.items():
        if h in cycle and m in cycle:
            continue
        gain = s - arcs[heads[m], m] if m in cycle else s
        pair = (new if h in cycle else h, new if m in cycle else m)
        if pair not in smaller or gain > smaller[pair]:
            smaller[pair], origin[pair] = gain, (h, m)
    tree = _grown(smaller, (words - cycle) | {new})
    if not tree:
        return {}
    entered = {origin[h, m][1]: origin[h, m][0] for m, h in tree.items()}
    return {m: heads[m] for m in cycle} | entered


def _cycle(heads: dict[int, int]) -> set[int]:
    for start in heads:
        trail: list[int] = []
        word = start
        while word in heads and word not in trail:
            trail.append(word)
            word = heads[word]
        if word in trail:
            return set(trail[trail.index(word) :])
    return set()


def _best_trees(by_label: list[_Scores], n: int, single_root: bool, k: int) -> list[dict[int, tuple[int, int]]]:
    """Lawler (1972): the trees other than the best are split by the first word whose arc differs."""
    if n == 0:
        return [{}]
    arcs = {(h, m, q): s for q, scores in enumerate(by_label) for (h, m), s in scores.items()}
    queue: list[tuple[float, int, dict[int, tuple[int, int]], dict[tuple[int, int, int], float]]] = []
    ticket = itertools.count()

    def enter(allowed: dict[tuple[int, int, int], float]) -> None:
        tree = _best_labeled(allowed, n, single_root)
        if tree:
            score = math.fsum(allowed[h, m, q] for m, (h, q) in tree.items())
            heapq.heappush(queue, (-score, next(ticket), tree, allowed))

    enter(arcs)
    found: list[dict[int, tuple[int, int]]] = []
    while queue and len(found) < k:
        _, _, tree, allowed = heapq.heappop(queue)
        found.append(tree)
        for word in range(1, n + 1):
            arc = (tree[word][0], word, tree[word][1])
            enter({a: s for a, s in allowed.items() if a != arc})
            allowed = {a: s for a, s in allowed.items() if a[1] != word or a == arc}
    return found


def _best_labeled(arcs: dict[tuple[int, int, int], float], n: int, single_root: bool) -> dict[int, tuple[int, int]]:
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for (h, m, q), s in arcs.items():
        if (h, m) not in best or s > best[h, m][0]:
            best[h, m] = s, q
    heads = _best_tree({pair: s for pair, (s, _) in best.items()}, n, single_root)
    return {m: (h, best[h, m][1]) for m, h in heads.items()}
