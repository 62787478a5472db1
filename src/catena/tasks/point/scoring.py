"""Search with a pointer network, and metrics of its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int

from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.measure import signature
from catena.metrics.points import PointingResult
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.search.hypothesis import Hypothesis
from catena.seq2seq.pointer import PointerInputs, PointerNetwork
from catena.seq2seq.pointing import most_steps
from catena.tasks.application import EvaluationReport
from catena.tasks.point.dataset import PointEncoding, PointSetBatch
from catena.tasks.point.problems import PROBLEMS

BLOCK = 4096


def point_tensors(sets: PointSetBatch, rows: np.ndarray, device: torch.device) -> PointerInputs:
    """The sets at ``rows`` as tensors, trimmed to the largest set."""
    sizes = sets.sizes[rows]
    values = torch.from_numpy(sets.values[rows, : max(1, int(sizes.max(initial=1)))])
    values = values.float() if values.is_floating_point() else values
    return PointerInputs(values.to(device), torch.from_numpy(sizes).to(device))


@torch.no_grad()
def search(
    model: PointerNetwork, encoding: PointEncoding, sets: PointSetBatch, width: int, n_best: int = 1
) -> list[list[Hypothesis]]:
    """The best hypotheses of each set, as ids of the network.

    Args:
        model: the pointer network.
        encoding: its encoding.
        sets: the sets.
        width: beam size.
        n_best: number of hypotheses per set.
    """
    device = next(model.parameters()).device
    found: list[list[Hypothesis]] = [[] for _ in range(len(sets))]
    width = max(width, n_best)
    for rows in _together(model.rule, sets.sizes, encoding.longest, max(1, BLOCK // width)):
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


def compute_scores(problem: str, right: Sequence[PointingResult], given: Sequence[PointingResult]) -> dict[str, float]:
    """The scores of all metrics of a problem."""
    return {name: float(measure(right, given)) for name, measure in PROBLEMS[problem].measures.items()}


def build_report(problem: str, right: Sequence[PointingResult], given: Sequence[PointingResult]) -> EvaluationReport:
    """The report of the scores with confidence intervals."""
    measures = PROBLEMS[problem].measures
    scores = compute_scores(problem, right, given)
    signed = {name: signature(measure.name, len(right)) for name, measure in measures.items()}
    lines = [f"{len(right):,} sets of {min(len(x.things) for x in right)} to {max(len(x.things) for x in right)}"]
    for name, measure in measures.items():
        between = ""
        if len(right) > 1:
            rows = measure.statistics(right, given)
            interval = bootstrap_score_interval(rows, measure.score, np.random.default_rng(0))
            between = f" ({interval.low:.4f} to {interval.high:.4f})"
        lines.append(f"{name} {scores[name]:.4f}{between}   {signed[name]}")
    return EvaluationReport(scores, signed, tuple(lines))
