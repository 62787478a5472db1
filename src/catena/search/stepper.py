r"""The stepper: a distribution over sequences, one id after another. The only model interface of searches.

.. math::  p(y) = \prod_{t} p(y_t \mid y_{<t})

It knows nothing of tokens: ids in, log-probabilities out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ShapeError, StepperError
from catena.kernels.top_k.ops import largest

StepperState = TypeVar("StepperState")
"""The memory of a stepper for the prefixes it has read, one row for each; opaque to searches."""


def check_log_probs(log_probs: Tensor, v: int) -> Float[Tensor, "n v"]:
    """The log-probabilities of a stepper, checked for the shape that searches rely on."""
    if log_probs.ndim != 2 or log_probs.shape[1] != v:
        raise StepperError(
            f"log_probs must have the shape [n, v] with v = {v}, got {list(log_probs.shape)}. Call "
            "catena.search.check.check_stepper to find what else is wrong with the stepper."
        )
    return log_probs


def check_no_nan(log_probs: Float[Tensor, "n k"], written: int, rows: Int[Tensor, " n"]) -> None:
    """Raise StepperError if a row has nan, which a search would treat as impossible; ``rows`` are prefix indices."""
    if bool((wrong := log_probs.isnan()).any()):
        row = int(rows[wrong.any(dim=1)][0])
        raise StepperError(
            f"log_probs of row {row} must be numbers, got nan after {written} ids. Use -inf for impossible ids, or "
            "look for nan in the weights of the model."
        )


class Branch(NamedTuple):
    """Next ids after which a constraint requires the same number of ids, in each of some rows."""

    rows: Int[Tensor, " m"]
    ids: Int[Tensor, " c"]
    """The next ids, without the end."""
    remaining: Int[Tensor, " m"]
    """The number of ids that the constraint requires, in each row, after any one of ``ids``."""


class Stepper(ABC, Generic[StepperState]):
    """Abstract model of p(next | prefix) for a batch of prefixes, one row for each.

    Searches rely on these rules, which ``tests/laws/stepper_laws.py`` tests:

    - ``advance``, ``select``, ``join`` and ``extend`` return new states and do not change their arguments.
    - A row never depends on the other rows.
    - ``advance`` accepts every id, including ``end`` and impossible ones, since finished rows stay in the batch; the
      ``log_probs`` after those are not used, but must not be nan or fail.
    """

    v: int
    """The size of the vocabulary: ids are 0 … v - 1."""
    end: int
    """The id that ends a sequence. Its log-probability is the last factor of p(y)."""
    single_rows: bool = False
    """Whether a step gets faster with every row that is left out; False if all sources must have as many rows."""

    @property
    def device(self) -> torch.device | None:
        """The device of the ids it takes and the log-probabilities it returns; None if any device will do.

        Steppers that are bound to a device return it, so that steppers of several devices can be combined.
        """
        return None

    @abstractmethod
    def start(self, n: int) -> StepperState:
        """The state of ``n`` empty prefixes, after the start token if there is one."""

    @abstractmethod
    def log_probs(self, state: StepperState) -> Float[Tensor, "n v"]:
        """``log_probs[i, w]`` is log p(w | prefix i), normalized, and exactly -inf for impossible ids."""

    def top_log_probs(self, state: StepperState, k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        """The ``k`` largest of ``log_probs`` in each row, in descending order, and their ids.

        Override it if the model can compute them without the rest.
        """
        return largest(check_log_probs(self.log_probs(state), self.v), k)

    def id_log_probs(self, state: StepperState, rows: Int[Tensor, " m"], ids: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """``[i]`` is log p(ids[i] | prefix rows[i]).

        Override it if the model can compute them without the rest of ``log_probs``.
        """
        return check_log_probs(self.log_probs(state), self.v)[rows, ids]

    @abstractmethod
    def advance(self, state: StepperState, ids: Int[Tensor, " n"]) -> StepperState:
        """The state after one more id in every row."""

    @abstractmethod
    def select(self, state: StepperState, rows: Int[Tensor, " m"]) -> StepperState:
        """The state of the given rows in the given order; rows may be repeated or left out."""

    @abstractmethod
    def join(self, states: Sequence[StepperState]) -> StepperState:
        """The rows of several states, concatenated.

        The states may come from other steppers of the same model with other sources; a stepper that cannot join them
        raises an error.
        """

    @property
    def constrained(self) -> bool:
        """Whether :meth:`branches` groups the next ids by the number of ids that a constraint still requires."""
        return False

    def branches(self, state: StepperState) -> list[Branch]:
        """All next ids that a constraint allows, grouped by how many ids it requires after them.

        Beams reserve slots by these numbers. Only for steppers that are ``constrained``.
        """
        raise NotImplementedError

    def extend(self, state: StepperState, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> StepperState:
        """The state after the first ``lengths[i]`` ids of row ``i`` of a prompt; later ids are not read.

        The default takes ``t`` steps, with the rows sorted by length so that none is read too far. Override it if the
        model can read many ids in one call.
        """
        counts = checked_lengths(ids, lengths)
        if len(set(counts)) <= 1:
            for t in range(max(counts, default=0)):
                state = self.advance(state, ids[:, t])
            return state
        order = lengths.argsort(descending=True, stable=True)
        state, ids = self.select(state, order), ids[order]
        live, read = len(counts), []
        for t in range(max(counts)):
            still = sum(count > t for count in counts)
            if still < live:
                places = torch.arange(live, device=order.device)
                read.append(self.select(state, places[still:]))
                state, live = self.select(state, places[:still]), still
            state = self.advance(state, ids[:live, t])
        return self.select(self.join([state, *reversed(read)]), order.argsort())

    def token_log_probs(self, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n t"]:
        """``[i, t]`` is log p(ids[i, t] | ids[i, :t]) after the empty prefix, 0 from ``lengths[i]`` on.

        Nothing is added: the caller appends ``end``. The default takes ``t`` steps; models override it.
        """
        counts = checked_lengths(ids, lengths)
        state, found = self.start(len(counts)), []
        for t in range(max(counts, default=0)):
            real = lengths > t
            read = torch.where(real, ids[:, t], self.end)
            log_probs = self.log_probs(state).gather(1, read[:, None])[:, 0]
            found.append(torch.where(real, log_probs, 0.0))
            state = self.advance(state, read)
        if not found:
            return self.log_probs(state).new_zeros(ids.shape)
        return torch.nn.functional.pad(torch.stack(found, dim=1), (0, ids.shape[1] - len(found)))


def checked_lengths(ids: Tensor, lengths: Tensor) -> list[int]:
    """The lengths as integers; raises ShapeError if one does not fit the ids."""
    counts = lengths.tolist()
    for row, count in enumerate(counts):
        if not 0 <= count <= ids.shape[1]:
            raise ShapeError(
                f"lengths must be from 0 to {ids.shape[1]}, the width of ids, got {count} in row {row}. Fix lengths."
            )
    return counts


class HasAttention(ABC, Generic[StepperState]):
    """Interface of steppers that attend to a source, which the coverage penalty of beam search needs."""

    @abstractmethod
    def attention(self, state: StepperState) -> Float[Tensor, "n s"]:
        """The attention weights over source positions used by ``log_probs(state)``; 0 at padding."""

    @abstractmethod
    def source_mask(self, state: StepperState) -> Bool[Tensor, "n s"]:
        """True where a source position is not padding."""


class WrapperStepper(Stepper[StepperState]):
    """A stepper around another one, whose states contain states of the inner one."""

    stepper: Stepper[Any]

    @property
    def device(self) -> torch.device | None:
        return self.stepper.device

    @property
    def constrained(self) -> bool:
        return self.stepper.constrained

    @abstractmethod
    def inner(self, state: StepperState) -> Any:
        """The state of the inner stepper."""

    def branches(self, state: StepperState) -> list[Branch]:
        return self.stepper.branches(self.inner(state))
