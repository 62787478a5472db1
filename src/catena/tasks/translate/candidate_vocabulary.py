"""Search over a candidate vocabulary: a subset of the target vocabulary for each source.

The output layer computes scores only for the candidates of a batch. Each row is then restricted to its own candidates,
so that a translation does not depend on the other sources of its batch. Jean et al. 2015, section 3.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.outputs.base import OutputLayer, scatter_log_probs
from catena.search.filters import log_normalize
from catena.search.stepper import Stepper, WrapperStepper
from catena.seq2seq.base import EncoderDecoder


class CandidateOutput(OutputLayer):
    """An output layer that computes only some ids and gives all others probability 0. For search only."""

    likelihood = False
    ids: Tensor

    def __init__(self, layer: OutputLayer, ids: Int[Tensor, " c"]) -> None:
        super().__init__()
        self.d_in, self.v, self.normalized = layer.d_in, layer.v, True
        self.few = layer.restricted(ids)
        self.register_buffer("ids", ids)

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        return scatter_log_probs(self.few.log_probs(hidden), self.ids, self.v)

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        raise NotImplementedError("CandidateOutput is only for search. Train the wrapped layer.")

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        return self.log_probs(hidden).gather(1, targets[:, None])[:, 0]

    def start_at(self, frequencies: np.ndarray) -> None:
        raise NotImplementedError("CandidateOutput is only for search. Initialize the wrapped layer.")


@contextmanager
def restrict_output(model: EncoderDecoder, ids: Int[Tensor, " c"]) -> Iterator[None]:
    """Context in which steppers of the model compute scores only for ``ids``.

    Output layers that cannot be restricted are left unchanged.
    """
    output = getattr(model, "output", None)
    if not isinstance(output, OutputLayer):
        yield
        return
    owner: Any = model
    owner.output = CandidateOutput(output, ids)
    try:
        yield
    finally:
        owner.output = output


class CandidateState(NamedTuple):
    """The inner state, the candidates of all sources, and the source index of each row."""

    inner: Any
    allowed: Bool[Tensor, "b v"]
    sources: Int[Tensor, " n"]


class CandidateStepper(WrapperStepper[CandidateState]):
    """Stepper of p(next | prefix, next is a candidate of the source).

    Args:
        stepper: the stepper to restrict.
        allowed: ``allowed[i, w]`` is True if ``w`` is a candidate of source ``i``.
    """

    def __init__(self, stepper: Stepper[Any], allowed: Bool[Tensor, "b v"]) -> None:
        self.stepper, self.allowed, self.v, self.end = stepper, allowed, stepper.v, stepper.end

    def start(self, n: int) -> CandidateState:
        return CandidateState(self.stepper.start(n), self.allowed, torch.arange(n, device=self.allowed.device))

    def inner(self, state: CandidateState) -> Any:
        return state.inner

    def log_probs(self, state: CandidateState) -> Float[Tensor, "n v"]:
        return log_normalize(self.stepper.log_probs(state.inner).masked_fill(~self.allowed[state.sources], NEG_INF))

    def advance(self, state: CandidateState, ids: Int[Tensor, " n"]) -> CandidateState:
        return state._replace(inner=self.stepper.advance(state.inner, ids))

    def select(self, state: CandidateState, rows: Int[Tensor, " m"]) -> CandidateState:
        return CandidateState(self.stepper.select(state.inner, rows), self.allowed, state.sources[rows])

    def join(self, states: Sequence[CandidateState]) -> CandidateState:
        """Join states of this stepper.

        Raises:
            ConfigError: if a state belongs to another stepper, whose output layer has other candidates.
        """
        if other := [i for i, state in enumerate(states) if state.allowed is not self.allowed]:
            raise ConfigError(
                f"states must all come from this CandidateStepper, got states of other steppers at indices {other}. "
                f"Translate all sources with one stepper."
            )
        joined = self.stepper.join([state.inner for state in states])
        return CandidateState(joined, self.allowed, torch.cat([state.sources for state in states]))


class Candidates:
    """Candidate target ids of sources.

    Args:
        frequent: candidates of every source, including the end symbol.
        table: ``table[f]`` are the candidates of source id ``f``, padded with -1.
        v: size of the target vocabulary.
    """

    def __init__(self, frequent: np.ndarray, table: np.ndarray, v: int) -> None:
        self.frequent, self.table, self.v = frequent, table, v

    def allowed(self, sources: Sequence[np.ndarray]) -> Bool[Tensor, "b v"]:
        """The candidates of each source, given its ids."""
        found = np.zeros((len(sources), self.v), bool)
        found[:, self.frequent] = True
        for row, ids in zip(found, sources, strict=True):
            own = self.table[ids]
            row[own[own >= 0]] = True
        return torch.from_numpy(found)
