"""Parses from best to worst, computed lazily.

Every node keeps a list of its parses found so far and a heap of candidates: a hyperedge with the rank of the parse to
use for each child. When a candidate is taken from the heap, it is replaced by those that use the next rank of one
child (Jiménez and Marzal 2000; Huang and Chiang 2005, algorithm 3). The first parse of a node is chosen so that no
parse contains itself, so cycles of unit rules are harmless.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from catena.grammar.binary import HELPER
from catena.grammar.closure import NEVER
from catena.grammar.derivation import Derivation
from catena.grammar.forest import WORD, Forest, ForestNode, HyperEdge, Parts

_TIE = 1e-10
"""Relative tolerance: sums of the same weights in another order differ by less."""

_Ranks = tuple[int, ...]


class _Found(NamedTuple):
    score: float
    way: HyperEdge
    ranks: _Ranks


class _Row:
    """The parses of one node: those found, and the candidates for the next."""

    def __init__(self) -> None:
        self.found: list[_Found] = []
        self.heap: list[tuple[float, int, _Found]] = []
        self.pending: list[tuple[HyperEdge, _Ranks]] = []
        self.seen: set[tuple[int, _Ranks]] = set()
        self.ended = False


def rank_parses(forest: Forest) -> Iterator[Parts]:
    """Yield the parses in a forest, best first, as the parts of its root: one, unless it was created by splitting.

    There may be infinitely many.
    """
    if forest.value(forest.root) == NEVER:
        return
    ranking = _Ranking(forest)
    for rank in count():
        if not ranking.find(forest.root, rank):
            return
        yield ranking.parts(rank)


class _Ranking:
    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.rows: dict[ForestNode, _Row] = {}
        self.first: dict[ForestNode, HyperEdge] = {}
        self.ticket = count()

    # --- scores ---------------------------------------------------------------------------------------------

    def find(self, node: ForestNode, rank: int) -> bool:
        """Return whether the node has a parse of this rank, from 0; afterwards its list contains it."""
        waiting = [(node, rank)]
        while waiting:
            here, wanted = waiting[-1]
            row = self._row(here)
            if row.ended or len(row.found) > wanted:
                waiting.pop()
                continue
            missing = self._admit(row)
            if missing is not None:
                waiting.append(missing)
            elif row.heap:
                self._take(row)
            else:
                row.ended = True
        return len(self._row(node).found) > rank

    def _row(self, node: ForestNode) -> _Row:
        if node in self.rows:
            return self.rows[node]
        row = self.rows[node] = _Row()
        first = self._first(node)
        for way in self.forest.ways(node):
            ranks = (0,) * len(way.children)
            score = way.log_weight + math.fsum(self.forest.value(child) for child in way.children)
            # The first parse must not contain itself, even if rounding makes equal weights differ.
            key = -math.inf if way is first else -score
            heapq.heappush(row.heap, (key, next(self.ticket), _Found(score, way, ranks)))
        return row

    def _admit(self, row: _Row) -> tuple[ForestNode, int] | None:
        """Put pending candidates on the heap. Return the child and rank that must be computed first, if any."""
        while row.pending:
            way, ranks = row.pending[-1]
            for child, rank in zip(way.children, ranks, strict=True):
                below = self._row(child)
                if len(below.found) <= rank and not below.ended and child.symbol != WORD:
                    return child, rank
            row.pending.pop()
            scores = [self._score(child, rank) for child, rank in zip(way.children, ranks, strict=True)]
            if None not in scores:
                score = way.log_weight + math.fsum(x for x in scores if x is not None)
                heapq.heappush(row.heap, (-score, next(self.ticket), _Found(score, way, ranks)))
        return None

    def _score(self, node: ForestNode, rank: int) -> float | None:
        if rank == 0:
            return self.forest.value(node)
        found = self._row(node).found
        return found[rank].score if rank < len(found) else None

    def _take(self, row: _Row) -> None:
        taken = heapq.heappop(row.heap)[-1]
        row.found.append(taken)
        for index, child in enumerate(taken.way.children):
            ranks = tuple(rank + (index == other) for other, rank in enumerate(taken.ranks))
            key = (id(taken.way), ranks)
            if child.symbol != WORD and key not in row.seen:
                row.seen.add(key)
                row.pending.append((taken.way, ranks))

    # --- the first of each node -----------------------------------------------------------------------------

    def _first(self, node: ForestNode) -> HyperEdge | None:
        """Return a best hyperedge of a node such that no node over the same words is below itself."""
        if node not in self.first and node.symbol != WORD:
            tolerance = _TIE
            while node not in self.first:
                self._choose(self._tied(node, tolerance), tolerance)
                tolerance *= 10
        return self.first.get(node)

    def _tied(self, node: ForestNode, tolerance: float) -> list[ForestNode]:
        """Return the node and those over the same words that its best hyperedges lead to."""
        found, waiting = [node], [node]
        while waiting:
            for way in self._best_ways(waiting.pop(), tolerance):
                new = [child for child in way.children if child[1:] == node[1:] and child.symbol != WORD]
                new = [child for child in dict.fromkeys(new) if child not in self.first and child not in found]
                found += new
                waiting += new
        return found

    def _choose(self, nodes: list[ForestNode], tolerance: float) -> None:
        chosen = -1
        while chosen != len(self.first):
            chosen = len(self.first)
            for node in nodes:
                for way in self._best_ways(node, tolerance) if node not in self.first else ():
                    same = [child for child in way.children if child[1:] == node[1:] and child.symbol != WORD]
                    if all(child in self.first for child in same):
                        self.first[node] = way
                        break

    def _best_ways(self, node: ForestNode, tolerance: float) -> list[HyperEdge]:
        best = self.forest.value(node)
        least = best - tolerance * max(1.0, abs(best))
        scored = [
            (way.log_weight + math.fsum(self.forest.value(child) for child in way.children), way)
            for way in self.forest.ways(node)
        ]
        return [way for score, way in sorted(scored, key=lambda item: -item[0]) if score >= least]

    # --- trees ----------------------------------------------------------------------------------------------

    def parts(self, rank: int) -> Parts:
        """Return the parse of the root of this rank, which must have been found, in the rules of the grammar."""
        results: list[Parts] = []
        waiting: list[tuple[ForestNode, int] | _Found] = [(self.forest.root, rank)]
        while waiting:
            item = waiting.pop()
            if isinstance(item, _Found):
                n = len(item.way.children)
                parts = [part for several in results[len(results) - n :] for part in several]
                del results[len(results) - n :]
                results.append(self._built(item.way, tuple(parts)))
                continue
            node, wanted = item
            if node.symbol == WORD:
                results.append(self.forest.leaves[node.i])
                continue
            self.find(node, wanted)
            found = self._row(node).found[wanted]
            waiting.append(found)
            waiting.extend(reversed(list(zip(found.way.children, found.ranks, strict=True))))
        return results[0]

    def _built(self, way: HyperEdge, parts: Parts) -> Parts:
        if way.origin == HELPER:
            return parts
        return (Derivation(self.forest.binary.grammar.rules[way.origin], parts),)
