r"""Constrained search: a stepper that generates only sequences that an acceptor allows.

.. math::  p'(y_t \mid y_{<t}) = p(y_t \mid y_{<t}) \, [\,y_{\le t} \text{ begins a sequence of the set}\,]

Probabilities are not normalized again, so a hypothesis keeps its log-probability under the model, and the best one is
the best of the set. The composition is lazy: states of the acceptor are computed when the search reaches them. Ids that
lead to no accepted sequence, or to none that is short enough, are impossible from the start, so that beams do not die.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError, ImpossibleError
from catena.numerics import NEG_INF
from catena.search.acceptor import UNREACHABLE, Acceptor
from catena.search.stepper import Branch, Stepper, WrapperStepper

_DEAD_STATE = -1
"""The state of a row that has ended or read an id that is not allowed."""


class Constraint(NamedTuple):
    """The inner state, and for each row the index of its acceptor state and the number of ids generated."""

    inner: Any
    places: Int[Tensor, " n"]
    written: Int[Tensor, " n"]


class Constrained(WrapperStepper[Constraint]):
    """A stepper restricted to a set of sequences.

    Args:
        stepper: the model.
        acceptor: the set of sequences.
        max_length: the maximum number of steps of the search, including the end. If given, prefixes that cannot end
            in time are impossible, too.
    """

    def __init__(self, stepper: Stepper[Any], acceptor: Acceptor, max_length: int | None = None) -> None:
        if stepper.v != acceptor.v:
            raise ConfigError(
                f"acceptor must have the v = {stepper.v} ids of its stepper, got {acceptor.v}. Build it with that v."
            )
        self.stepper, self.acceptor, self.max_length = stepper, acceptor, max_length
        self.v, self.end = stepper.v, stepper.end
        self._known: list[Hashable] = []
        self._numbers: dict[Hashable, int] = {}
        self._needed: list[Tensor] = []
        self._moves: dict[tuple[int, int], int] = {}
        self._ids_by_remaining: dict[int, list[tuple[int, Tensor]]] = {}
        shortest = acceptor.options(acceptor.start()).shortest
        if shortest >= UNREACHABLE or (max_length is not None and shortest + 1 > max_length):
            raise ImpossibleError(
                f"max_length must be at least {shortest + 1} for the constraint, got {max_length}. Raise max_length."
                if shortest < UNREACHABLE
                else "The constraint does not accept any sequence. Remove a part of it."
            )

    def start(self, n: int) -> Constraint:
        return self.after(self.stepper.start(n), n)

    def after(self, state: Any, n: int) -> Constraint:
        """The state of ``n`` prefixes that the inner stepper read without the constraint, which begins here."""
        first = self._number(self.acceptor.start())
        return Constraint(state, torch.full((n,), first), torch.zeros(n, dtype=torch.int64))

    def inner(self, state: Constraint) -> Any:
        return state.inner

    def log_probs(self, state: Constraint) -> Float[Tensor, "n v"]:
        log_probs = self.stepper.log_probs(state.inner)
        nowhere = torch.full((self.v,), UNREACHABLE, dtype=torch.int16)
        rows = [self._needed[place] if place != _DEAD_STATE else nowhere for place in state.places.tolist()]
        if not rows:
            return log_probs
        left = torch.full_like(state.written, UNREACHABLE - 1)
        if self.max_length is not None:  # the id, the ids that must follow it, and the end must fit
            left = (self.max_length - state.written - 2).clamp(max=UNREACHABLE - 1)
        return log_probs.masked_fill((torch.stack(rows) > left[:, None]).to(log_probs.device), NEG_INF)

    @property
    def constrained(self) -> bool:
        return True

    def branches(self, state: Constraint) -> list[Branch]:
        found = []
        for place in state.places.unique().tolist():
            rows = (state.places == place).nonzero()[:, 0]
            for remaining, ids in self._branches_of(place):
                found.append(Branch(rows, ids, torch.full_like(rows, remaining)))
        return found

    def _branches_of(self, place: int) -> list[tuple[int, Int[Tensor, " c"]]]:
        if place == _DEAD_STATE:
            return []
        if place not in self._ids_by_remaining:
            remaining = self.acceptor.remaining(self._known[place]).copy()
            remaining[self.end] = UNREACHABLE
            values = np.unique(remaining[remaining < UNREACHABLE]).tolist()
            ids = [torch.from_numpy(np.flatnonzero(remaining == value).astype(np.int32)) for value in values]
            self._ids_by_remaining[place] = list(zip(values, ids, strict=True))
        return self._ids_by_remaining[place]

    def advance(self, state: Constraint, ids: Int[Tensor, " n"]) -> Constraint:
        places = [self._move(*move) for move in zip(state.places.tolist(), ids.tolist(), strict=True)]
        inner = self.stepper.advance(state.inner, ids)
        return Constraint(inner, torch.tensor(places, dtype=torch.int64), state.written + 1)

    def select(self, state: Constraint, rows: Int[Tensor, " m"]) -> Constraint:
        here = rows.cpu()
        return Constraint(self.stepper.select(state.inner, rows), state.places[here], state.written[here])

    def join(self, states: Sequence[Constraint]) -> Constraint:
        inner, places, written = zip(*states, strict=True)
        return Constraint(self.stepper.join(inner), torch.cat(places), torch.cat(written))

    def _number(self, place: Hashable) -> int:
        if place not in self._numbers:
            needed, accepts = self.acceptor.options(place)
            row = torch.from_numpy(needed.copy())
            row[self.end] = -1 if accepts else UNREACHABLE  # the end itself is the last step
            self._numbers[place] = len(self._known)
            self._known.append(place)
            self._needed.append(row)
        return self._numbers[place]

    def _move(self, place: int, id: int) -> int:
        if (place, id) not in self._moves:
            possible = place != _DEAD_STATE and id != self.end and int(self._needed[place][id]) < UNREACHABLE
            moved = self._number(self.acceptor.step(self._known[place], id)) if possible else _DEAD_STATE
            self._moves[place, id] = moved
        return self._moves[place, id]
