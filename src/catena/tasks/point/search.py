"""Search with a pointer network, and the evaluation of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int

from catena.metrics.measure import Metric
from catena.metrics.points import PointingResult
from catena.niche.geometry.problems import PROBLEMS
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.pointer import PointerInputs, PointerNetwork
from catena.seq2seq.pointing import most_steps
from catena.tasks.base import EvaluationResult
from catena.tasks.point.data import PointEncoding, PointSetBatch

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
