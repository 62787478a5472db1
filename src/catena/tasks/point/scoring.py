"""Answers of a pointer network, and how good they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int

from catena.decoding.beam import beam
from catena.decoding.greedy import greedy
from catena.decoding.hypothesis import Hypothesis
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.measure import signature
from catena.metrics.points import Pointed
from catena.seq2seq.pointer import PointerNetwork, Things
from catena.seq2seq.pointing import most_steps
from catena.tasks.application import Report
from catena.tasks.point.dataset import Encoding, Sets
from catena.tasks.point.problems import PROBLEMS

BLOCK = 4096


def things_of(sets: Sets, rows: np.ndarray, device: torch.device) -> Things:
    """Some sets as tensors, no wider than they must be."""
    sizes = sets.sizes[rows]
    values = torch.from_numpy(sets.values[rows, : max(1, int(sizes.max(initial=1)))])
    values = values.float() if values.is_floating_point() else values
    return Things(values.to(device), torch.from_numpy(sizes).to(device))


@torch.no_grad()
def search(model: PointerNetwork, encoding: Encoding, sets: Sets, width: int, nbest: int = 1) -> list[list[Hypothesis]]:
    """The best answers for each set; ids are those of the network."""
    device = next(model.parameters()).device
    found: list[list[Hypothesis]] = [[] for _ in range(len(sets))]
    width = max(width, nbest)
    for rows in _together(model.rule, sets.sizes, encoding.longest, max(1, BLOCK // width)):
        stepper = model.stepper(things_of(sets, rows, device))
        steps = most_steps(model.rule, stepper.v - 1, encoding.longest)
        state = stepper.start(len(rows))
        some = greedy(stepper, state, steps) if width == 1 else beam(stepper, state, width, steps, n_best=nbest)
        for row, listed in zip(rows.tolist(), some, strict=True):
            found[row] = listed
    return found


def _together(rule: str, sizes: Int[np.ndarray, " n"], longest: int, block: int) -> Iterator[Int[np.ndarray, " m"]]:
    """The rows that are searched at once. The rule ``any`` never ends by itself, so that there only those are which
    may have as many steps: where an answer is cut must not depend on the others."""
    steps = np.maximum(sizes, longest) if rule == "any" else np.zeros_like(sizes)
    for same in np.unique(steps):
        rows = np.flatnonzero(steps == same)
        yield from (rows[low : low + block] for low in range(0, len(rows), block))


def positions_of(hypothesis: Hypothesis) -> tuple[int, ...]:
    """The positions that were pointed at."""
    return tuple(id - 1 for id in hypothesis.ids)


def pointed(sets: Sets, found: Sequence[Sequence[Hypothesis]]) -> list[Pointed]:
    """The best answer for each set, with its things."""
    return [Pointed(sets.things(i), positions_of(listed[0])) for i, listed in enumerate(found)]


def scores_of(problem: str, right: Sequence[Pointed], given: Sequence[Pointed]) -> dict[str, float]:
    """Everything that a problem is scored by."""
    return {name: float(measure(right, given)) for name, measure in PROBLEMS[problem].measures.items()}


def report_of(problem: str, right: Sequence[Pointed], given: Sequence[Pointed]) -> Report:
    """The scores with their intervals, in lines for a person."""
    measures = PROBLEMS[problem].measures
    scores = scores_of(problem, right, given)
    signed = {name: signature(measure.name, len(right)) for name, measure in measures.items()}
    lines = [f"{len(right):,} sets of {min(len(x.things) for x in right)} to {max(len(x.things) for x in right)}"]
    for name, measure in measures.items():
        between = ""
        if len(right) > 1:
            rows = measure.statistics(right, given)
            interval = bootstrap_score_interval(rows, measure.score, np.random.default_rng(0))
            between = f" ({interval.low:.4f} to {interval.high:.4f})"
        lines.append(f"{name} {scores[name]:.4f}{between}   {signed[name]}")
    return Report(scores, signed, tuple(lines))
