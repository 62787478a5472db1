"""Weights of strings and parses of context-free grammars, one derivation at a time. Imports nothing of catena.

A grammar is a list of rules ``(left, right, weight)``. Symbols on the right are nonterminals if some rule, or a
symbol in ``left`` position, has that name and they are tuples of one name, as ``("S",)``; a word is a plain string.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

Symbol = tuple[str] | str
OracleRule = tuple[str, tuple[Symbol, ...], float]
Tree = tuple
"""``(rule number, part, part, …)``; a part is a tree or a word."""


def cuts(words: Sequence[str], pieces: int) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Every way to split words into n consecutive pieces, including empty ones."""
    words = tuple(words)
    if pieces == 0:
        if not words:
            yield ()
        return
    for end in range(len(words) + 1):
        for rest in cuts(words[end:], pieces - 1):
            yield (words[:end], *rest)


def derivations(rules: Sequence[OracleRule], symbol: str, words: Sequence[str], depth: int) -> list[tuple[Tree, float]]:
    """Every derivation of the words from the symbol up to a given depth, with its weight."""
    found: list[tuple[Tree, float]] = []
    if depth == 0:
        return found
    for number, (left, right, weight) in enumerate(rules):
        if left != symbol or weight == 0:
            continue
        for pieces in cuts(words, len(right)):
            choices = [below(rules, part, piece, depth - 1) for part, piece in zip(right, pieces, strict=True)]
            for parts in itertools.product(*choices):
                tree = (number, *(part for part, _ in parts))
                found.append((tree, weight * math.prod(w for _, w in parts)))
    return found


def below(
    rules: Sequence[OracleRule], part: Symbol, piece: tuple[str, ...], depth: int
) -> list[tuple[Tree | str, float]]:
    if isinstance(part, str):
        return [(part, 1.0)] if piece == (part,) else []
    return list(derivations(rules, part[0], piece, depth))


def weight_up_to(rules: Sequence[OracleRule], start: str, words: Sequence[str], depth: int) -> float:
    """The summed weight of all derivations up to a given depth, depth by depth; with depth it grows to the sum
    over all of them.
    """
    words = tuple(words)
    spans = [(i, j) for i in range(len(words) + 1) for j in range(i, len(words) + 1)]
    symbols = {left for left, _, _ in rules} | {p[0] for _, right, _ in rules for p in right if not isinstance(p, str)}
    weights = {(symbol, span): 0.0 for symbol in symbols for span in spans}

    def part_weight(part: Symbol, i: int, j: int) -> float:
        if isinstance(part, str):
            return 1.0 if words[i:j] == (part,) else 0.0
        return weights[part[0], (i, j)]

    def right_weight(right: tuple[Symbol, ...], i: int, j: int) -> float:
        if not right:
            return 1.0 if i == j else 0.0
        return math.fsum(part_weight(right[0], i, k) * right_weight(right[1:], k, j) for k in range(i, j + 1))

    for _ in range(depth):
        weights = {
            (symbol, (i, j)): math.fsum(w * right_weight(right, i, j) for left, right, w in rules if left == symbol)
            for symbol, (i, j) in weights
        }
    return weights[start, (0, len(words))]
