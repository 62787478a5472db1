r"""Well-formed trees: a stepper that generates only matching brackets around a given number of leaves.

.. math::  T \to (_q\; C^+\; )_q \qquad  C \to T \mid leaf

A sequence is one such T and the end. The labels of a bracket's two sides must be the same, so no automaton accepts
these sequences; each row has a stack of open labels (Vinyals et al. 2015, who repaired bad trees instead).

An id is possible if and only if some well-formed tree within the limits continues with it, so a search never reaches a
dead end. Probabilities are not normalized again, as for other constraints. A step costs O(v) for each row in addition
to the model, without a GPU synchronization. Works on ids only.
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
"""The kind of an id. Other ids are never generated."""


@dataclass(frozen=True)
class BracketIds:
    """The ids of brackets and leaves.

    Args:
        opening: the id that opens a bracket, for each label.
        closing: the id that closes it, for each label.
        leaves: the ids of leaves.
    """

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    leaves: tuple[int, ...]

    def __post_init__(self) -> None:
        used = (*self.opening, *self.closing, *self.leaves)
        if len(self.opening) != len(self.closing) or not self.opening or not self.leaves:
            raise ConfigError(
                f"opening and closing must have the same number of ids, at least one, and leaves at least one, got "
                f"{len(self.opening)}, {len(self.closing)} and {len(self.leaves)} ids. Add the missing ids."
            )
        if len(set(used)) < len(used):
            twice = next(id for id in used if used.count(id) > 1)
            raise ConfigError(f"ids must be in one of opening, closing and leaves, got {twice} twice. Remove one.")


class Nesting(NamedTuple):
    """The inner state and, for each row, the partial tree.

    ``stack[i, :depth[i]]`` are the open labels, the outermost first; ``leaves`` is the number of leaves left to
    generate; ``steps_left`` counts the steps left, including the end; ``opened`` counts the brackets opened last
    in a row. A row that has ended, or read an id that is not allowed, is not ``live``.
    """

    inner: Any
    stack: Int[Tensor, "n m"]
    depth: Int[Tensor, " n"]
    leaves: Int[Tensor, " n"]
    steps_left: Int[Tensor, " n"]
    opened: Int[Tensor, " n"]
    live: Bool[Tensor, " n"]


class Bracketed(WrapperStepper[Nesting]):
    """A stepper that generates only well-formed trees.

    Args:
        stepper: the model; the rows of its ``start`` belong to sentences, as in an encoder-decoder.
        ids: the ids of brackets and leaves.
        leaves: the number of leaves of each row's tree, at least 1.
        limits: the maximum number of steps of each row, including the end: at least its leaves + 3. The ``max_length``
            of the search must not be smaller.
        most_opened: the maximum number of brackets opened in a row, which also limits chains of brackets around the
            same leaves.
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
            raise ConfigError(f"most_opened must be at least 1, got {most_opened}. Use 1 or more.")
        self.stepper, self.ids, self.most_opened = stepper, ids, most_opened
        self.v, self.end = stepper.v, stepper.end
        for row, (n, limit) in enumerate(zip(leaves.tolist(), limits.tolist(), strict=True)):
            if n < 1 or limit < n + 3:
                raise ImpossibleError(
                    "limits must be at least leaves + 3 (a bracket around them and the end) and leaves at least 1, got "
                    f"limit {limit} and {n} leaves in row {row}. Raise the limit."
                )
        self._leaves, self._limits = leaves, limits
        kind, label = self._table()
        self._kind, self._label = kind.to(leaves.device), label.to(leaves.device)
        self._deepest = max(((limits - leaves - 1) // 2).tolist(), default=1)

    def _table(self) -> tuple[Int[Tensor, " v"], Int[Tensor, " v"]]:
        """The kind of each id, and the label that it opens or closes."""
        kind, label = torch.full((self.v,), OTHER), torch.zeros(self.v, dtype=torch.int64)
        groups = ((OPEN, self.ids.opening), (CLOSE, self.ids.closing), (LEAF, self.ids.leaves))
        for what, group in groups:
            for place, id in enumerate(group):
                if not 0 <= id < self.v or id == self.end:
                    raise ConfigError(
                        f"ids must be below v = {self.v} and not the end {self.end}, got {id}. Use other ids."
                    )
                kind[id], label[id] = what, place
        kind[self.end] = END
        return kind, label

    def start(self, n: int) -> Nesting:
        if n != len(self._leaves):
            raise ShapeError(f"n must be {len(self._leaves)}, the number of rows of leaves, got {n}. Start that many.")
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
        """A leaf and a closing bracket leave one id less to generate, an opening bracket leaves one more."""
        rows, left = torch.arange(len(state.depth), device=state.depth.device), state.leaves + state.depth
        changes = (OPEN, 1), (CLOSE, -1), (LEAF, -1)
        return [Branch(rows, (self._kind == kind).nonzero()[:, 0], left + change) for kind, change in changes]

    def _may(self, state: Nesting) -> Bool[Tensor, "n kind"]:
        """Which kinds of ids may follow, so that open brackets and remaining leaves fit into the remaining steps."""
        some, inside, done = state.leaves > 0, state.depth > 0, (state.leaves == 0) & (state.depth == 0)
        needed = state.leaves + state.depth + 1
        opens = some & (state.opened < self.most_opened) & (needed + 2 <= state.steps_left)
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
            state.steps_left - 1,
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
    """The label of the innermost open bracket; undefined if none is open."""
    return state.stack.gather(1, (state.depth - 1).clamp(min=0)[:, None])[:, 0]
