"""Single-path searches: one prefix in each row, without backtracking. Greedy search and sampling use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.hypothesis import Hypotheses, Hypothesis
from catena.search.next_scores import ScoreFn, score_all_ids
from catena.search.stepper import Stepper, check_no_nan

_Choice = Callable[[Any], tuple[Int[Tensor, " n"], Float[Tensor, " n"]]]
"""From the scores of the next ids, by default all log-probabilities, to an id in each row and the log-probability it
was chosen with."""

_COMPACT_BELOW = 0.9
"""A batch is made smaller if less than this fraction of its rows is active."""


@dataclass(frozen=True)
class SingleStep:
    """One step of a single-path search. A finished row neither writes nor ends."""

    ids: Int[Tensor, " n"]
    log_probs: Float[Tensor, " n"]
    """The stepper's log-probability of the id; 0 in a finished row."""
    scores: Float[Tensor, " n"]
    """The log-probability that it was chosen with, the same if nothing is filtered."""
    writes: Bool[Tensor, " n"]
    ends: Bool[Tensor, " n"]


def single_path(
    stepper: Stepper[Any],
    state: Any,
    choose: _Choice,
    max_length: int,
    min_length: int = 0,
    copies: int = 1,
    leaving: bool = False,
    look: ScoreFn = score_all_ids,
) -> Iterator[SingleStep]:
    """Yields the steps of a search that follows one path from each prefix of ``state``.

    A row stops at the end, after ``max_length`` steps, or if no id is possible any more.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix.
        choose: the choice of an id in each row.
        max_length: the maximum number of steps, including the end.
        min_length: the minimum number of ids before the end.
        copies: the number of paths of each row, adjacent in the batch.
        leaving: remove finished rows from the batch; not for choices that sample row by row from one generator.
        look: scores the next ids. If it does not score all ids, the choice must return the log-probabilities unchanged.
    """
    check_lengths(min_length, max_length)
    if max_length == 0:
        return
    ahead = look(stepper, state, min_length < 1)
    rows = torch.arange(len(ahead), device=ahead.device).repeat_interleave(copies)
    if copies != 1:
        state, ahead = stepper.select(state, rows), ahead[rows]
    total, everyone = rows.shape[0], True
    n = total
    running = torch.ones_like(rows, dtype=torch.bool)
    nobody = ~running
    here: Tensor | None = None  # the active rows, once some have left
    for t in range(max_length):
        ids, scores = choose(ahead)
        chosen = scores if look is not score_all_ids else ahead.gather(1, ids[:, None])[:, 0]
        if here is not None:
            ids, scores, chosen = (_at(here, x, total, stepper.end) for x in (ids, scores, chosen))
        everyone = everyone and stepper.end not in ids.tolist() and bool((scores > NEG_INF).all())
        if everyone:  # nothing to mask, as in most steps
            yield SingleStep(ids, chosen, scores, running, nobody)
        else:
            before, running, is_end = running, running & (scores > NEG_INF), ids == stepper.end
            still = running & ~is_end
            if (left := int(still.sum())) < n:
                check_no_nan(chosen.where(before, 0)[:, None], t, rows)
            ids = ids.where(running, stepper.end)
            yield SingleStep(ids, chosen.where(running, 0), scores.where(running, 0), still, running & is_end)
            running, n = still, left
        if t + 1 == max_length or not n:
            return
        if leaving and n <= _COMPACT_BELOW * (total if here is None else len(here)):
            after = running.nonzero()[:, 0]
            state = stepper.select(state, after if here is None else torch.searchsorted(here, after))
            here = after
        state = stepper.advance(state, ids if here is None else ids[here])
        ahead = look(stepper, state, min_length <= t + 1)


def _at(here: Int[Tensor, " c"], x: Shaped[Tensor, " c"], n: int, nothing: int | float) -> Shaped[Tensor, " n"]:
    """Scatters the values of some rows to all rows; the other rows get ``nothing``."""
    return x.new_full((n,), nothing).index_copy(0, here, x)


def to_hypotheses(steps: Iterable[SingleStep], n: int, copies: int = 1) -> Hypotheses:
    """The hypotheses of ``n`` rows, ``copies`` for each, in the order of the batch."""
    taken = list(steps)
    if not taken:
        return [[Hypothesis((), 0.0, 0.0, False)] * copies for _ in range(n)]
    ids, writes = (torch.stack([getattr(step, name) for step in taken], dim=1) for name in ("ids", "writes"))
    log_prob, score, ends = (
        torch.stack([getattr(step, name) for step in taken]).double().sum(dim=0).tolist()
        for name in ("log_probs", "scores", "ends")
    )
    lengths = writes.sum(dim=1).tolist()
    rows = [
        Hypothesis(tuple(row[:length]), one, other, bool(end))
        for row, length, one, other, end in zip(ids.tolist(), lengths, log_prob, score, ends, strict=True)
    ]
    return [rows[i : i + copies] for i in range(0, len(rows), copies)]


def stream_ids(steps: Iterator[SingleStep]) -> Iterator[list[int | None]]:
    """Yields the ids of all rows at each step, None for a finished row."""
    while True:
        with torch.no_grad():  # around each step only, so that it does not apply to the caller's code in between
            step = next(steps, None)
        if step is None or not step.writes.any():
            return
        ids, writes = step.ids.tolist(), step.writes.tolist()
        yield [id if written else None for id, written in zip(ids, writes, strict=True)]


def check_lengths(min_length: int, max_length: int) -> None:
    """Raise ConfigError if a length is negative or if ``max_length`` is too small for ``min_length`` and the end."""
    if min(min_length, max_length) < 0:
        raise ConfigError(
            f"min_length and max_length must be at least 0, got {min_length} and {max_length}. Use 0 or more."
        )
    if 0 < min_length >= max_length:
        raise ConfigError(
            f"max_length must be above min_length = {min_length} to include the end, got {max_length}. Use at least "
            f"{min_length + 1}."
        )
