r"""Search, predictions and evaluation of a pointer network, and training by policy gradient.

Policy gradient on the lengths of round trips, with the network's greedy output as baseline.

.. math::  \nabla E[\ell] = E_{y \sim p}\big[(\ell(y) - \ell(\hat y))\, \nabla \log p(y \mid x)\big]

Williams 1992; Bello et al. 2017; the greedy baseline as in Rennie et al. 2017 and Kool et al. 2019. Training
needs no targets. A sample is generated step by step without gradients; its probability is then computed in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.metrics.measure import Metric
from catena.metrics.points import PointingResult
from catena.niche.geometry.problems import PROBLEMS
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.pointer import PointerInputs, PointerNetwork
from catena.seq2seq.pointing import most_steps
from catena.seq2seq.recurrent import draw
from catena.tasks.base import EvaluationResult, RankedPrediction
from catena.tasks.point.data import PointEncoding, PointItem, PointSetBatch


@dataclass(frozen=True)
class PointPrediction(RankedPrediction):
    """The output positions of a set. Prints as the positions.

    Args:
        item: the set.
        positions: the output positions, counted from 0; None for an empty set.
        log_prob: the log-probability of the output.
        truncated: whether the output reached the maximum number of steps before its end symbol.
        n_best: the n best predictions, if several were requested.
        scores: whether log-probabilities are shown in tables.
    """

    item: PointItem
    positions: tuple[int, ...] | None
    log_prob: float | None = None
    truncated: bool = False
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return " ".join(map(str, self.positions or ()))

    def input_fields(self) -> dict[str, Any]:
        return {self.item.kind: self.item.things}

    def output_fields(self) -> dict[str, Any]:
        positions = None if self.positions is None else list(self.positions)
        return {"positions": positions, "log_prob": self.log_prob, "truncated": self.truncated}

    def row_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {self.item.kind: self.item.text(), "positions": str(self)}
        return {**row, "log_prob": self.log_prob} if self.scores else row

    def to_text(self, format: str) -> str:
        return str(self)


# --- policy gradient --------------------------------------------------------------------------------------------------


def rollout(
    network: PointerNetwork, things: PointerInputs, choose: Callable[[Float[Tensor, "b v"]], Int[Tensor, " b"]]
) -> Int[Tensor, "b t"]:
    """The ids of an order of each set with its end symbol, from a choice at every step.

    Args:
        network: the pointer network.
        things: the sets.
        choose: maps log-probabilities to the chosen ids.
    """
    stepper, ids = network.stepper(things), []
    state = stepper.start(len(things))
    for _ in range(stepper.v):
        ids.append(choose(stepper.log_probs(state)))
        state = stepper.advance(state, ids[-1])
    return torch.stack(ids, dim=1)


def tour_lengths(points: Float[Tensor, "b s f"], ids: Int[Tensor, "b t"]) -> Float[Tensor, " b"]:
    """The lengths of closed round trips, whose ids include the end symbol."""
    first = points.gather(1, (ids[:, :1, None] - 1).expand(-1, -1, points.shape[2]))
    table = torch.cat((first, points), dim=1)
    way = table.gather(1, ids[..., None].expand(-1, -1, points.shape[2]))
    return (way[:, 1:] - way[:, :-1]).norm(dim=2).sum(dim=1)


def surrogate(
    network: PointerNetwork, things: PointerInputs, ids: Int[Tensor, "b t"], baseline: Float[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """Surrogate loss whose gradient estimates that of the expected length.

    Args:
        network: the pointer network.
        things: the sets.
        ids: orders sampled from the network.
        baseline: length of the greedy order of each set.
    """
    found = network.token_log_probs(things, ids, things.lengths + 1).sum(dim=1)
    return (tour_lengths(things.values, ids) - baseline) * found


def reinforced_loss(network: PointerNetwork, things: PointerInputs) -> Float[Tensor, ""]:
    """The mean surrogate loss over sets, with one sample per set."""
    greedy = rollout(network, things, lambda log_probs: log_probs.argmax(dim=1))
    sampled = rollout(network, things, draw)
    return surrogate(network, things, sampled, tour_lengths(things.values, greedy)).mean()


# --- search -----------------------------------------------------------------------------------------------------------


_BLOCK = 4096
"""Number of hypotheses that are searched together."""


def point_tensors(sets: PointSetBatch, rows: np.ndarray, device: torch.device) -> PointerInputs:
    """The sets at ``rows`` as tensors, trimmed to the largest set."""
    sizes = sets.sizes[rows]
    values = torch.from_numpy(sets.values[rows, : max(1, int(sizes.max(initial=1)))])
    values = values.float() if values.is_floating_point() else values
    return PointerInputs(values.to(device), torch.from_numpy(sizes).to(device))


@torch.no_grad()
def search(
    model: PointerNetwork, encoding: PointEncoding, sets: PointSetBatch, beam_size: int, n_best: int = 1
) -> list[list[Hypothesis]]:
    """The best hypotheses of each set, as ids of the network.

    Args:
        model: the pointer network.
        encoding: its encoding.
        sets: the sets.
        beam_size: beam size.
        n_best: number of hypotheses per set.
    """
    device = next(model.parameters()).device
    found: list[list[Hypothesis]] = [[] for _ in range(len(sets))]
    width = max(beam_size, n_best)
    for rows in _together(model.rule, sets.sizes, encoding.longest, max(1, _BLOCK // width)):
        stepper = model.stepper(point_tensors(sets, rows, device))
        steps = most_steps(model.rule, stepper.v - 1, encoding.longest)
        state = stepper.start(len(rows))
        some = greedy(stepper, state, steps) if width == 1 else beam(stepper, state, width, steps, n_best=n_best)
        for row, listed in zip(rows.tolist(), some, strict=True):
            found[row] = listed
    return found


def _together(rule: str, sizes: Int[np.ndarray, " n"], longest: int, block: int) -> Iterator[Int[np.ndarray, " m"]]:
    """Batches of rows to search together.

    The rule ``any`` has no bound on the number of steps, so its batches have sets with the same limit: where an output
    is truncated must not depend on the other sets.
    """
    steps = np.maximum(sizes, longest) if rule == "any" else np.zeros_like(sizes)
    for same in np.unique(steps):
        rows = np.flatnonzero(steps == same)
        yield from (rows[low : low + block] for low in range(0, len(rows), block))


def hypothesis_positions(hypothesis: Hypothesis) -> tuple[int, ...]:
    """The positions of a hypothesis, without its end symbol."""
    return tuple(id - 1 for id in hypothesis.ids)


def predict_positions(sets: PointSetBatch, found: Sequence[Sequence[Hypothesis]]) -> list[PointingResult]:
    """The best output of each set, with its points or tokens."""
    return [PointingResult(sets.things(i), hypothesis_positions(listed[0])) for i, listed in enumerate(found)]


@dataclass(frozen=True, eq=False)
class PointEvaluation(EvaluationResult):
    """Target and output positions of sets."""

    problem: str
    gold: list[PointingResult]
    predicted: list[PointingResult]
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return PROBLEMS[self.problem].measures

    def pairs(self, name: str) -> tuple[list[PointingResult], list[PointingResult]]:
        return self.gold, self.predicted

    def notes(self) -> list[str]:
        sizes = [len(one.things) for one in self.gold]
        return [f"{len(self.gold):,} sets of {min(sizes)} to {max(sizes)}"]
