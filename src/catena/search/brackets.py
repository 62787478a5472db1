r"""Well-formed trees: a stepper that writes only brackets that match, around as many leaves as it is told.

.. math::  T \to (_q\; C^+\; )_q \qquad  C \to T \mid leaf

A sequence is one such T and the end. The labels of a bracket's two sides must be the same, so no automaton accepts
these sequences; each row has a stack of the labels that are open (Vinyals et al. 2015, who repaired bad trees instead).

An id is possible if and only if some well-formed tree that fits into the limits goes on with it, so a search never
comes to a dead end. Probabilities are not normalized again, as for other constraints. A step costs O(v) for each row
beside the model's own, without a look at the numbers: nothing waits for a GPU. Knows ids alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ConfigError, ImpossibleError, ShapeError
from catena.numerics import NEG_INF
from catena.search.stepper import Branch, Stepper, WrapperStepper

OPEN, CLOSE, LEAF, END, OTHER = range(5)
"""What an id is. Others are never written."""


@dataclass(frozen=True)
class BracketIds:
    """The ids that trees are written with.

    Args:
        opening: the id that opens a bracket, for each label.
        closing: the id that closes it, for each label.
        leaves: the ids that stand for a leaf.
    """

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    leaves: tuple[int, ...]

    def __post_init__(self) -> None:
        used = (*self.opening, *self.closing, *self.leaves)
        if len(self.opening) != len(self.closing) or not self.opening or not self.leaves:
            raise ConfigError(
                f"trees need as many ids that close as that open, and one leaf at least, but {len(self.opening)} ids "
                f"open, {len(self.closing)} close and {len(self.leaves)} are leaves"
            )
        if len(set(used)) < len(used):
            twice = next(id for id in used if used.count(id) > 1)
            raise ConfigError(f"an id must open, close or be a leaf, but {twice} is named more than once")


class Nesting(NamedTuple):
    """The inner state and, for each row, the tree as far as it is written.

    ``stack[i, :depth[i]]`` are the labels that are open, the outermost first; ``leaves`` are still to be written;
    ``room`` is the number of steps that are left, the end among them; ``opened`` brackets were opened last, without
    anything after them. A row that has ended, or was given what is not allowed, is no longer ``live``.
    """

    inner: Any
    stack: Int[Tensor, "n m"]
    depth: Int[Tensor, " n"]
    leaves: Int[Tensor, " n"]
    room: Int[Tensor, " n"]
    opened: Int[Tensor, " n"]
    live: Bool[Tensor, " n"]


class Bracketed(WrapperStepper[Nesting]):
    """A stepper that writes trees.

    Args:
        stepper: rows of its ``start`` belong to sentences, such as those of an encoder-decoder.
        ids: what opens, what closes, what is a leaf.
        leaves: how many leaves the tree of each row has, at least 1.
        limits: the most steps of each row, the end among them: at least 3 more than it has leaves. The search itself
            must take as many.
        most_opened: how many brackets may be opened in a row, which also limits chains of brackets around the same
            leaves.
    """

    def __init__(
        self,
        stepper: Stepper[Any],
        ids: BracketIds,
        leaves: Int[Tensor, " n"],
        limits: Int[Tensor, " n"],
        most_opened: int = 12,
    ) -> None:
        if most_opened < 1:
            raise ConfigError(f"a tree opens a bracket at least, but most_opened = {most_opened}")
        self.stepper, self.ids, self.most_opened = stepper, ids, most_opened
        self.v, self.end = stepper.v, stepper.end
        for row, (n, limit) in enumerate(zip(leaves.tolist(), limits.tolist(), strict=True)):
            if n < 1 or limit < n + 3:
                raise ImpossibleError(
                    f"a tree has at least one leaf, and {n} leaves need {n + 3} steps (a bracket around them, and the "
                    f"end), but row {row} has a limit of {limit}: raise it"
                )
        self._leaves, self._limits = leaves, limits
        kind, label = self._table()
        self._kind, self._label = kind.to(leaves.device), label.to(leaves.device)
        self._deepest = max(((limits - leaves - 1) // 2).tolist(), default=1)

    def _table(self) -> tuple[Int[Tensor, " v"], Int[Tensor, " v"]]:
        """What each id is, and the label that it opens or closes."""
        kind, label = torch.full((self.v,), OTHER), torch.zeros(self.v, dtype=torch.int64)
        groups = ((OPEN, self.ids.opening), (CLOSE, self.ids.closing), (LEAF, self.ids.leaves))
        for what, group in groups:
            for place, id in enumerate(group):
                if not 0 <= id < self.v or id == self.end:
                    raise ConfigError(
                        f"ids of trees must be below {self.v} and not the end, {self.end}, but one is {id}"
                    )
                kind[id], label[id] = what, place
        kind[self.end] = END
        return kind, label

    def start(self, n: int) -> Nesting:
        if n != len(self._leaves):
            raise ShapeError(f"there are numbers of leaves for {len(self._leaves)} rows, and {n} rows are started")
        zero = torch.zeros_like(self._leaves)
        stack = zero[:, None].repeat(1, self._deepest)
        return Nesting(
            self.stepper.start(n),
            stack,
            zero,
            self._leaves,
            self._limits,
            zero,
            torch.ones_like(zero, dtype=torch.bool),
        )

    def inner(self, state: Nesting) -> Any:
        return state.inner

    def log_probs(self, state: Nesting) -> Float[Tensor, "n v"]:
        unmatched = (self._kind == CLOSE) & (self._label != _top(state)[:, None])
        return self.stepper.log_probs(state.inner).masked_fill(~self._may(state)[:, self._kind] | unmatched, NEG_INF)

    @property
    def constrained(self) -> bool:
        return True

    def branches(self, state: Nesting) -> list[Branch]:
        """A leaf and a closed bracket leave one id less to write, an opened one leaves one more."""
        rows, left = torch.arange(len(state.depth), device=state.depth.device), state.leaves + state.depth
        changes = (OPEN, 1), (CLOSE, -1), (LEAF, -1)
        return [Branch(rows, (self._kind == kind).nonzero()[:, 0], left + change) for kind, change in changes]

    def _may(self, state: Nesting) -> Bool[Tensor, "n kind"]:
        """Which kinds of ids may come next. What is open, and the leaves that are left, must always find room."""
        some, inside, done = state.leaves > 0, state.depth > 0, (state.leaves == 0) & (state.depth == 0)
        needed = state.leaves + state.depth + 1
        opens = some & (state.opened < self.most_opened) & (needed + 2 <= state.room)
        closes = inside & (state.opened == 0) & ((state.depth > 1) | ~some)
        kinds = torch.stack((opens, closes, some & inside, done, torch.zeros_like(done)), dim=1)
        return kinds & state.live[:, None]

    def advance(self, state: Nesting, ids: Int[Tensor, " n"]) -> Nesting:
        kind, label = self._kind[ids], self._label[ids]
        allowed = self._may(state).gather(1, kind[:, None])[:, 0] & ((kind != CLOSE) | (label == _top(state)))
        live = allowed & (kind != END)
        opens, closes, leaf = live & (kind == OPEN), live & (kind == CLOSE), live & (kind == LEAF)
        place = state.depth.clamp(max=self._deepest - 1)[:, None]
        pushed = torch.where(opens[:, None], label[:, None], state.stack.gather(1, place))
        return Nesting(
            self.stepper.advance(state.inner, ids),
            state.stack.scatter(1, place, pushed),
            state.depth + opens.long() - closes.long(),
            state.leaves - leaf.long(),
            state.room - 1,
            torch.where(opens, state.opened + 1, 0),
            live,
        )

    def select(self, state: Nesting, rows: Int[Tensor, " m"]) -> Nesting:
        here = rows.to(state.depth.device)
        inner, *own = state
        return Nesting(self.stepper.select(inner, rows), *(x[here] for x in own))

    def join(self, states: Sequence[Nesting]) -> Nesting:
        inner, *own = zip(*states, strict=True)
        return Nesting(self.stepper.join(inner), *(torch.cat(parts) for parts in own))


def _top(state: Nesting) -> Int[Tensor, " n"]:
    """The label of the innermost bracket that is open; of no meaning where none is."""
    return state.stack.gather(1, (state.depth - 1).clamp(min=0)[:, None])[:, 0]
