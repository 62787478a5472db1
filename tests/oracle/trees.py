"""All binary trees over a sentence with their scores, one by one. Imports nothing of catena.

A tree is a tuple of spans in preorder: a span before its parts, the left part before the right. Rows of -1 fill a
tree up to the size of the longest sentence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

Span = tuple[int, int]
Table = Sequence[Sequence[float]]
Member = tuple[tuple[tuple[int, ...], ...], float]


def bracketings(first: int, last: int) -> Iterator[tuple[Span, ...]]:
    """Every way to bracket the words from ``first`` to ``last`` in two, each as its spans in preorder."""
    if first == last:
        yield ((first, last),)
        return
    for middle in range(first, last):
        for left, right in itertools.product(bracketings(first, middle), bracketings(middle + 1, last)):
            yield ((first, last), *left, *right)


def children(spans: Sequence[Span], at: int) -> tuple[int, int]:
    """The rows of the two children of span ``at``."""
    left = at + 1
    return left, spans.index((spans[left][1] + 1, spans[at][1]))


def padded(rows: Sequence[tuple[int, ...]], words: int, width: int) -> tuple[tuple[int, ...], ...]:
    return (*rows, *((-1,) * width for _ in range(2 * words - 1 - len(rows))))


def summed(terms: Sequence[float]) -> float:
    return -math.inf if -math.inf in terms else math.fsum(terms)


def all_span_trees(scores: Sequence[Sequence[Sequence[float]]], n: int) -> list[Member]:
    """Every bracketing of the first ``n`` words with every labeling of its spans."""
    words = len(scores)
    if n == 0:
        return [(padded([], words, 3), 0.0)]
    found = []
    for spans in bracketings(0, n - 1):
        for labels in itertools.product(range(len(scores[0][0])), repeat=len(spans)):
            rows = [(i, j, q) for (i, j), q in zip(spans, labels, strict=True)]
            found.append((padded(rows, words, 3), summed([scores[i][j][q] for i, j, q in rows])))
    return found


def _symbol_choices(spans: Sequence[Span], nonterminals: int, preterminals: int) -> Iterator[tuple[int, ...]]:
    leaf, inner = range(nonterminals, nonterminals + preterminals), range(nonterminals)
    return itertools.product(*(leaf if i == j else inner for i, j in spans))


def _tree_terms(
    spans: Sequence[Span], symbols: Sequence[int], words: Table, roots: Sequence[float], bonus: Sequence[Table] | None
) -> list[float]:
    """What words, root and spans add to a tree's score; a root without a score is impossible."""
    terms = [roots[symbols[0]] if symbols[0] < len(roots) else -math.inf]
    for (i, j), a in zip(spans, symbols, strict=True):
        if i == j:
            terms.append(words[i][a])
        elif bonus is not None:
            terms.append(bonus[i][j][a])
    return terms


def all_parses(
    words: Table, rules: Sequence[Table], roots: Sequence[float], bonus: Sequence[Table] | None, n: int
) -> list[Member]:
    """Every parse of the first ``n`` words by rules ``rules[a][b][c]``. Preterminals come after the nonterminals."""
    nonterminals, preterminals = len(rules), len(words[0])
    leaves = [[-math.inf] * nonterminals + list(row) for row in words]
    found: list[Member] = []
    for spans in bracketings(0, n - 1) if n else ():
        for symbols in _symbol_choices(spans, nonterminals, preterminals):
            terms = _tree_terms(spans, symbols, leaves, roots, bonus)
            for at, (i, j) in enumerate(spans):
                if i < j:
                    left, right = children(spans, at)
                    terms.append(rules[symbols[at]][symbols[left]][symbols[right]])
            rows = [(i, j, a) for (i, j), a in zip(spans, symbols, strict=True)]
            found.append((padded(rows, len(words), 3), summed(terms)))
    return found or [(padded([], len(words), 3), -math.inf)]


def all_ranked_parses(
    words: Table, parents: Table, lefts: Table, rights: Table, roots: Sequence[float], bonus: Sequence[Table] | None,
    rank_bonus: Sequence[Table] | None, n: int,
) -> list[Member]:  # fmt: skip
    """Every parse with a rank r for each rule: parents[a][r] + lefts[r][b] + rights[r][c]. A word's rank is -1."""
    nonterminals, preterminals = len(parents), len(words[0])
    leaves = [[-math.inf] * nonterminals + list(row) for row in words]
    found: list[Member] = []
    for spans in bracketings(0, n - 1) if n else ():
        pairs = [None if i == j else children(spans, at) for at, (i, j) in enumerate(spans)]
        ranks = list(itertools.product(*((-1,) if pair is None else range(len(lefts)) for pair in pairs)))
        for symbols in _symbol_choices(spans, nonterminals, preterminals):
            fixed = _tree_terms(spans, symbols, leaves, roots, bonus)
            for choice in ranks:
                terms = list(fixed)
                for at, pair in enumerate(pairs):
                    if pair is not None:
                        r, (left, right), (i, j) = choice[at], pair, spans[at]
                        terms += [parents[symbols[at]][r], lefts[r][symbols[left]], rights[r][symbols[right]]]
                        terms += [] if rank_bonus is None else [rank_bonus[i][j][r]]
                rows = [(i, j, a, r) for (i, j), a, r in zip(spans, symbols, choice, strict=True)]
                found.append((padded(rows, len(words), 4), summed(terms)))
    return found or [(padded([], len(words), 4), -math.inf)]


def keeping(members: Sequence[Member], keep: Callable[[set[Span]], bool]) -> list[Member]:
    """The trees whose set of spans is kept."""
    return [(rows, score) for rows, score in members if keep({(row[0], row[1]) for row in rows if row[0] >= 0})]
