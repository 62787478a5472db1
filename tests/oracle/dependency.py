"""All dependency trees of a sentence with their scores, one by one, from the definitions. Imports nothing of catena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

Heads = tuple[int, ...]


def descends(word: int, ancestor: int, heads: dict[int, int]) -> bool:
    """Whether the way up from a word, itself included, passes an ancestor; a cycle passes nobody else."""
    seen = set()
    while word not in seen:
        if word == ancestor:
            return True
        seen.add(word)
        if word == 0:
            return False
        word = heads[word]
    return False


def is_tree(heads: dict[int, int]) -> bool:
    return all(descends(word, 0, heads) for word in heads)


def is_projective(heads: dict[int, int]) -> bool:
    """Whether every word between a head and its dependent descends from that head."""
    return all(
        descends(between, head, heads)
        for word, head in heads.items()
        for between in range(min(word, head) + 1, max(word, head))
        if between in heads
    )


@cache
def all_heads(real: tuple[bool, ...], single_root: bool, projective: bool) -> list[Heads]:
    """Every tree over the real words: for each word its head, 0 for the root; -1 where a word is not real."""
    words = [i + 1 for i, is_real in enumerate(real) if is_real]
    found = []
    for choice in itertools.product([0, *words], repeat=len(words)):
        heads = dict(zip(words, choice, strict=True))
        if single_root and words and choice.count(0) != 1:
            continue
        if is_tree(heads) and (not projective or is_projective(heads)):
            found.append(tuple(heads.get(i + 1, -1) for i in range(len(real))))
    return found


def all_trees(
    arcs: Sequence[Sequence[float]],
    labels: Sequence[Sequence[Sequence[float]]] | None,
    real: Sequence[bool],
    single_root: bool,
    projective: bool,
) -> list[tuple[tuple, float]]:
    """Every tree with its score. With labels, a tree is a pair (head, label) for each word, (-1, -1) where none is."""
    found: list[tuple[tuple, float]] = []
    for heads in all_heads(tuple(real), single_root, projective):
        if labels is None:
            found.append((heads, added([arcs[h][i + 1] for i, h in enumerate(heads) if h >= 0])))
            continue
        for choice in itertools.product(range(len(labels[0][0])), repeat=sum(real)):
            rest = iter(choice)
            pairs = tuple((h, next(rest)) if h >= 0 else (-1, -1) for h in heads)
            terms = [arcs[h][i + 1] for i, h in enumerate(heads) if h >= 0]
            terms += [labels[h][i + 1][q] for i, (h, q) in enumerate(pairs) if h >= 0]
            found.append((pairs, added(terms)))
    return found


def added(terms: Sequence[float]) -> float:
    return -math.inf if -math.inf in terms else math.fsum(terms)
