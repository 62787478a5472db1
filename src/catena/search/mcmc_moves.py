"""Moves of a Markov chain over sequences: a small edit, and the ratio of its probability to the reverse edit's."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch

from catena.errors import ConfigError
from catena.search.stepper import Stepper

_Ids = tuple[int, ...]


class Proposal(NamedTuple):
    """A proposed edit. The ratio is log q(back) - log q(there); an impossible move leaves the sequence unchanged."""

    kind: str
    ids: _Ids
    log_ratio: float


class EditMoves:
    """Proposes to substitute, insert, delete or transpose at a uniformly random position.

    Every edit has one edit that undoes it, and the ratio is of these two, so the chain is reversible edit by edit.

    Args:
        symbols: the ids that may be generated.
        max_length: the maximum length of a sequence.
        rates: how often each kind of edit is tried.
        confusions: symbols that are tried for each other, in both directions.
        favorites: symbols that are tried first in insertions, such as those of the observed text.
        near: how often a confusion or a favorite is tried, if there is one, instead of any symbol.
        guide: probabilities of ``symbols`` after a prefix, to sample from instead of any symbol; see
            :class:`ModelProposal`.
        guided: how often the guide is used, if there is one.
    """

    KINDS = ("substitute", "insert", "delete", "transpose")

    def __init__(
        self,
        symbols: Sequence[int],
        max_length: int,
        rates: Mapping[str, float] | None = None,
        confusions: Mapping[int, Sequence[int]] | None = None,
        favorites: Sequence[int] = (),
        near: float = 0.5,
        guide: Callable[[_Ids], np.ndarray] | None = None,
        guided: float = 0.4,
    ) -> None:
        rates = {"substitute": 0.7, "insert": 0.1, "delete": 0.1, "transpose": 0.1} if rates is None else rates
        total = sum(rates.values())
        if set(rates) - set(self.KINDS) or min(rates.values(), default=0) < 0 or total <= 0:
            raise ConfigError(
                f"rates must be of {', '.join(self.KINDS)}, at least 0 and not all 0, got {dict(rates)}. Change them."
            )
        if rates.get("insert", 0) > 0 < rates.get("delete", 0) or rates.get("insert", 0) == rates.get("delete", 0) == 0:
            self.rates = {kind: rates.get(kind, 0.0) / total for kind in self.KINDS}
        else:
            raise ConfigError(
                f"rates must have both insert and delete or neither, since each undoes the other, got {dict(rates)}. "
                "Set both or none."
            )
        if not 0 <= near <= 1 or not 0 <= guided <= 1 or near + guided >= 1:
            raise ConfigError(
                f"near + guided must be below 1, both at least 0, got near = {near} and guided = {guided}. Lower one "
                "of them."
            )
        self.symbols, self.max_length, self.near = sorted(set(symbols)), max_length, near
        self.guide, self.guided = guide, guided if guide else 0.0
        self._place = {symbol: place for place, symbol in enumerate(self.symbols)}
        self._edges = list(accumulate(self.rates.values()))
        self._near: dict[int, set[int]] = {}
        for x, others in (confusions or {}).items():
            for other in set(others) & set(self.symbols) - {x}:
                self._near.setdefault(x, set()).add(other)
                self._near.setdefault(other, set()).add(x)
        self._favorites = sorted(set(favorites) & set(self.symbols))
        self._moves: dict[str, Callable[[_Ids, np.random.Generator], tuple[_Ids, float]]] = {
            "substitute": self._substitute,
            "insert": self._insert,
            "delete": self._delete,
            "transpose": self._transpose,
        }

    def propose(self, ids: _Ids, generator: np.random.Generator) -> Proposal:
        kind = self.KINDS[bisect_right(self._edges, generator.random() * self._edges[-1])]
        return Proposal(kind, *self._moves[kind](ids, generator))

    def _substitute(self, ids: _Ids, generator: np.random.Generator) -> tuple[_Ids, float]:
        if not ids:
            return ids, 0.0
        i = int(generator.integers(len(ids)))
        old, prefix, near = ids[i], ids[:i], sorted(self._near.get(ids[i], ()))
        new = self._drawn(prefix, near, generator)
        ratio = self._chance(prefix, old, sorted(self._near.get(new, ()))) - self._chance(prefix, new, near)
        return (*ids[:i], new, *ids[i + 1 :]), ratio

    def _insert(self, ids: _Ids, generator: np.random.Generator) -> tuple[_Ids, float]:
        if len(ids) >= self.max_length:
            return ids, 0.0
        i = int(generator.integers(len(ids) + 1))
        new = self._drawn(ids[:i], self._favorites, generator)
        # There: one of len + 1 positions and this symbol. Back: one of the len + 1 symbols of the longer sequence.
        there = math.log(self.rates["insert"]) + self._chance(ids[:i], new, self._favorites)
        return (*ids[:i], new, *ids[i:]), math.log(self.rates["delete"]) - there

    def _delete(self, ids: _Ids, generator: np.random.Generator) -> tuple[_Ids, float]:
        if not ids:
            return ids, 0.0
        i = int(generator.integers(len(ids)))
        back = math.log(self.rates["insert"]) + self._chance(ids[:i], ids[i], self._favorites)
        return (*ids[:i], *ids[i + 1 :]), back - math.log(self.rates["delete"])

    def _transpose(self, ids: _Ids, generator: np.random.Generator) -> tuple[_Ids, float]:
        if len(ids) < 2:
            return ids, 0.0
        i = int(generator.integers(len(ids) - 1))
        return (*ids[:i], ids[i + 1], ids[i], *ids[i + 2 :]), 0.0

    def _drawn(self, prefix: _Ids, near: Sequence[int], generator: np.random.Generator) -> int:
        u, share = generator.random(), self.near if near else 0.0
        if u < share:
            return near[int(generator.integers(len(near)))]
        if self.guide and u < share + self.guided:
            edges = self.guide(prefix).cumsum()
            return self.symbols[min(int(edges.searchsorted(generator.random() * edges[-1], "right")), len(edges) - 1)]
        return self.symbols[int(generator.integers(len(self.symbols)))]

    def _chance(self, prefix: _Ids, symbol: int, near: Sequence[int]) -> float:
        """The log-probability that :meth:`_drawn` returns a symbol."""
        share = self.near if near else 0.0
        p = share / len(near) if symbol in near else 0.0
        if self.guide:
            p += self.guided * float(self.guide(prefix)[self._place[symbol]])
        return math.log(p + (1 - share - self.guided) / len(self.symbols))


class ModelProposal:
    """The next-id distribution of a stepper, as a guide of moves; exact, because a move does not change its prefix."""

    def __init__(self, stepper: Stepper[Any], symbols: Sequence[int]) -> None:
        self.stepper, self.symbols = stepper, torch.tensor(sorted(set(symbols)))
        self._known: dict[_Ids, np.ndarray] = {}

    @torch.no_grad()
    def __call__(self, prefix: _Ids) -> np.ndarray:
        if prefix not in self._known:
            ids = torch.tensor([prefix], dtype=torch.int64).reshape(1, len(prefix))
            state = self.stepper.extend(self.stepper.start(1), ids, torch.tensor([len(prefix)]))
            p = self.stepper.log_probs(state)[0].double().exp().cpu()[self.symbols].numpy()
            self._known[prefix] = p / p.sum() if p.sum() > 0 else np.full(len(p), 1 / len(p))
        return self._known[prefix]
