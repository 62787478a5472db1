r"""Best paths in a lattice of words under a language model.

An edge of the lattice is one reading of a part of the observed text: some ids, with a score for how well they explain
it. The score of a path is

.. math::  \sum_{e} s(e) + \lambda \log p(\mathrm{ids}\ \mathrm{end})

Beam search keeps the best paths to each node. If a model forgets all but the last ids, as n-gram models do, paths with
the same last ids are merged, so the search is exact if no path is pruned. Tested against enumeration in
tests/niche/correction/test_lattice.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from catena.errors import ConfigError, DataError
from catena.search.stepper import Stepper

_MIN_LOG_PROB = -60.0
"""The least log-probability of an id. The observed text exists, however improbable the model finds parts of it."""


class LatticeEdge(NamedTuple):
    """One reading of the observed tokens ``start … end - 1``.

    Args:
        start: the node it leaves.
        end: the node it reaches, larger than ``start``.
        ids: the ids that are read, one or more.
        score: how well they explain the observed tokens, a log-weight.
        text: the text of the ids.
        min_log_prob: the least log-probability of an id, for ids that the model gives too little probability.
    """

    start: int
    end: int
    ids: tuple[int, ...]
    score: float = 0.0
    text: str = ""
    min_log_prob: float = _MIN_LOG_PROB


class LatticePath(NamedTuple):
    """A path from the first node to the last, with its score and its probability among all paths of the search."""

    edges: tuple[LatticeEdge, ...]
    score: float
    probability: float


class _Link(NamedTuple):
    """The last edge of a path, and the path before it."""

    edge: LatticeEdge
    before: _Link | None


@dataclass(frozen=True)
class _Paths:
    """Paths to one node: path ``i`` is in row ``rows[i]`` of the state before it reads ``last[i]``."""

    state: Any
    rows: NDArray[np.int64]
    last: NDArray[np.int64]
    scores: NDArray[np.float64]
    merged: NDArray[np.float64]
    """The log-sum of the scores of all paths that were merged into one, minus its score."""
    links: Sequence[_Link | None]


class LatticeSearch:
    """Beam search for the best paths through a lattice.

    Args:
        stepper: the language model.
        beam_size: the number of paths kept at each node.
        lm_weight: the exponent λ of the model's probability.
        context: the number of last ids that the model's probabilities depend on; None if on all.
        margin: paths whose score is this much below the best to the same node are pruned.
    """

    def __init__(
        self,
        stepper: Stepper[Any],
        beam_size: int = 32,
        lm_weight: float = 1.0,
        context: int | None = None,
        margin: float = 15.0,
    ) -> None:
        if beam_size < 1:
            raise ConfigError(f"beam_size must be 1 or more, got {beam_size}. Use 32.")
        self.stepper, self.beam_size, self.lm_weight = stepper, beam_size, lm_weight
        self.context, self.margin = context, margin

    @torch.no_grad()
    def search(self, edges: Sequence[LatticeEdge]) -> list[LatticePath]:
        """The best paths, best first. Every node that an edge reaches must be left by one, except the last."""
        last_node = max((edge.end for edge in edges), default=0)
        leaving = _by_start((*edges, LatticeEdge(last_node, last_node + 1, (self.stepper.end,))))
        reaching: dict[int, list[_Paths]] = defaultdict(list)
        zero = np.zeros(1, np.int64)
        paths = _Paths(None, zero, zero, np.zeros(1), np.zeros(1), [None])
        state = self.stepper.start(1)
        for node in range(last_node + 1):
            if node > 0:
                if not reaching[node]:
                    continue
                paths = self._merge(reaching.pop(node))
                state = self._select(paths.state, paths.rows)
                state = self.stepper.advance(state, self._tensor(paths.last))
            for end, continued in self._expand(state, paths, leaving[node]):
                reaching[end].append(continued)
        return _ranked(self._merge(reaching[last_node + 1]))

    def _expand(self, state: Any, paths: _Paths, edges: Sequence[LatticeEdge]) -> Iterator[tuple[int, _Paths]]:
        """The paths continued by edges, with the nodes that they reach."""
        n = len(paths.scores)
        edges = sorted(edges, key=lambda edge: (-len(edge.ids), edge.end))
        # Pair e * n + i is path i continued by edge e. The first pairs have the most ids left to read.
        rows = np.tile(np.arange(n), len(edges))
        scores = (np.array([edge.score for edge in edges])[:, None] + paths.scores).reshape(-1)
        floors = np.repeat([edge.min_log_prob for edge in edges], n)
        active = len(edges)
        for k in range(len(edges[0].ids)):
            ids = np.repeat([edge.ids[k] for edge in edges[:active]], n)
            log_probs = self.stepper.id_log_probs(state, self._tensor(rows), self._tensor(ids)).double().cpu().numpy()
            scores[: active * n] += self.lm_weight * np.maximum(log_probs, floors[: active * n])
            longer = sum(len(edge.ids) > k + 1 for edge in edges[:active])
            for end, group in groupby(range(longer, active), key=lambda e: edges[e].end):
                listed = list(group)
                pairs = self._best(scores, listed[0] * n, (listed[-1] + 1) * n)
                links = [_Link(edges[pair // n], paths.links[pair % n]) for pair in pairs.tolist()]
                yield end, _Paths(state, rows[pairs], ids[pairs], scores[pairs], paths.merged[pairs % n], links)
            if longer:
                active = longer
                state = self._select(state, rows[: active * n])
                state = self.stepper.advance(state, self._tensor(ids[: active * n]))
                rows = np.arange(active * n)

    def _best(self, scores: NDArray[np.float64], low: int, high: int) -> NDArray[np.int64]:
        """The indices of the best scores in a range, best first."""
        some = scores[low:high]
        near = np.flatnonzero(some >= some.max() - self.margin)
        return low + near[np.argsort(-some[near], kind="stable")[: self.beam_size]]

    def _merge(self, parts: Sequence[_Paths]) -> _Paths:
        """The best paths of some lists, best first. Paths with the same last ids count as one."""
        paths = parts[0] if len(parts) == 1 else self._join(parts)
        merged = paths.merged.copy()
        kept: dict[Any, int] = {}
        for i in np.argsort(-paths.scores, kind="stable").tolist():
            best = kept.setdefault(i if self.context is None else _last_ids(paths.links[i], self.context), i)
            if best != i:
                merged[best] = np.logaddexp(merged[best], merged[i] + paths.scores[i] - paths.scores[best])
        some = list(kept.values())[: self.beam_size]
        links = [paths.links[i] for i in some]
        return _Paths(paths.state, paths.rows[some], paths.last[some], paths.scores[some], merged[some], links)

    def _join(self, parts: Sequence[_Paths]) -> _Paths:
        state = self.stepper.join([self._select(part.state, part.rows) for part in parts])
        last = np.concatenate([part.last for part in parts])
        return _Paths(
            state,
            np.arange(len(last)),
            last,
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.merged for part in parts]),
            [link for part in parts for link in part.links],
        )

    def _select(self, state: Any, rows: NDArray[np.int64]) -> Any:
        return self.stepper.select(state, self._tensor(rows))

    def _tensor(self, numbers: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(numbers).to(self.stepper.device)


def _by_start(edges: Sequence[LatticeEdge]) -> dict[int, list[LatticeEdge]]:
    leaving: dict[int, list[LatticeEdge]] = defaultdict(list)
    for edge in edges:
        if edge.end <= edge.start or not edge.ids:
            raise DataError(f"An edge must lead forward and have ids, got {edge[:3]}. Remove it.")
        leaving[edge.start].append(edge)
    if wrong := {edge.end for edge in edges} - set(leaving) - {max(edge.end for edge in edges)}:
        raise DataError(f"An edge must leave every node except the last, got none at {min(wrong)}. Add one.")
    return leaving


def _last_ids(link: _Link | None, n: int) -> tuple[int, ...]:
    """The last n ids of a path, fewer at its start."""
    ids: tuple[int, ...] = ()
    while link is not None and len(ids) < n:
        ids = (*link.edge.ids, *ids)
        link = link.before
    return ids[max(len(ids) - n, 0) :]


def _ranked(paths: _Paths) -> list[LatticePath]:
    total = np.logaddexp.reduce(paths.scores + paths.merged)
    ranked = []
    for link, score in zip(paths.links, paths.scores.tolist(), strict=True):
        edges = []
        while link is not None:
            edges.append(link.edge)
            link = link.before
        ranked.append(LatticePath(tuple(edges[:0:-1]), score, float(np.exp(score - total))))  # without the end
    return ranked
