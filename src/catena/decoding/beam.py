r"""Beam search: the ``width`` likeliest prefixes of each length, all continued at once.

Hypotheses that end leave the beam and are ranked by

.. math::  s(y) = \frac{\log p(y)}{n(|y|)} + c(x, y)

where n normalises for length and c is the coverage of a source. A beam as wide as there are prefixes is an
exhaustive search; width 1 is greedy. Time O(steps × width × v), memory O(steps × width).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from catena.decoding.ahead import Look, Nearest, nearest
from catena.decoding.coverage import Coverage
from catena.decoding.hypothesis import Found, Hypothesis
from catena.decoding.ranking import Normaliser, Progress, Stop, by_nothing, when_sure
from catena.decoding.stepper import Stepper, refuse_nan
from catena.decoding.tree import Tree, flat_rows
from catena.decoding.walk import check_lengths
from catena.errors import ConfigError
from catena.kernels.top import largest
from catena.numerics import NEVER


class Ranking(NamedTuple):
    """What hypotheses are ranked by, and how many are returned."""

    n_best: int = 1
    normalise: Normaliser = by_nothing
    coverage: float = 0.0
    stop: Stop = when_sure


@torch.no_grad()
def beam(
    stepper: Stepper[Any],
    state: Any,
    width: int,
    max_length: int,
    min_length: int = 0,
    n_best: int = 1,
    normalise: Normaliser = by_nothing,
    coverage: float = 0.0,
    stop: Stop = when_sure,
) -> Found:
    """The ``n_best`` hypotheses for each prefix of ``state``: finished ones first, then those cut off.

    A row has fewer where fewer are possible, or the rule of stopping was content with fewer.

    Args:
        width: how many prefixes of a length are kept in each row.
        max_length: the most steps: so many ids, the end among them.
        min_length: the end is not chosen before so many ids are written.
        normalise: what the log-probability of a finished hypothesis is divided by; see ``ranking``.
        coverage: the factor β of the coverage of a source; the stepper must be :class:`Attentive`.
        stop: when a row is done; see ``ranking``.
    """
    if not 1 <= n_best <= width:
        raise ConfigError(f"a beam needs 1 <= n_best <= width, but n_best = {n_best} and width = {width}")
    look, pick = partial(nearest, k=width + 1), partial(likeliest_of, end=stepper.end, width=width)
    ranking = Ranking(n_best, normalise, coverage, stop)
    return search(stepper, state, look, pick, max_length, min_length, ranking, leaving=True)


class Picked(NamedTuple):
    """What goes on, and what ends with this step: cumulative log-probabilities and the slots they come from."""

    live: Float[Tensor, "b k"]
    parents: Int[Tensor, "b k"]
    ids: Int[Tensor, "b k"]
    ended: Float[Tensor, "b m"]
    ended_parents: Int[Tensor, "b m"]


Pick = Callable[[Any, Float[Tensor, "b k"]], Picked]
"""From what was asked and the cumulative log-probabilities to what goes on and what ends."""


def likeliest(
    log_probs: Float[Tensor, "b k v"],
    live: Float[Tensor, "b k"],
    end: int,
    width: int,
    penalty: Float[Tensor, "b v"] | None = None,
) -> Picked:
    """The ``width`` best that go on, and of the ``width`` best of all those that end.

    Twice as many candidates as slots are enough: each slot has one that ends. A ``penalty`` of ids counts in the
    ranking alone.
    """
    ranked = log_probs if penalty is None else log_probs - penalty[:, None]
    near = Nearest(*largest(ranked.flatten(0, 1), min(width + 1, log_probs.shape[2])))
    return likeliest_of(near, live, end, width, penalty)


def likeliest_of(
    near: Nearest, live: Float[Tensor, "b k"], end: int, width: int, penalty: Float[Tensor, "b v"] | None = None
) -> Picked:
    """The same among the likeliest ids of each slot, of which log-probabilities have the penalty taken off."""
    each = near.ids.shape[1]
    ids = near.ids.view(len(live), live.shape[1] * each)
    total = (live[:, :, None] + near.log_probs.view(*live.shape, each)).flatten(1)
    total, places = total.topk(min(2 * width, total.shape[1]), dim=1)
    ids, parents = ids.gather(1, places), places // each
    if penalty is not None:
        total = total + penalty.gather(1, ids)
    is_end = ids == end
    m = min(width, total.shape[1])
    ended = total.masked_fill(~is_end, NEVER)[:, :m]
    # Stable, so that what goes on stays in the order of its rank.
    order = is_end.long().argsort(dim=1, stable=True)[:, :m]
    going = total.masked_fill(is_end, NEVER).gather(1, order)
    return Picked(going, parents.gather(1, order), ids.gather(1, order), ended, parents[:, :m])


def search(
    stepper: Stepper[Any],
    state: Any,
    look: Look,
    pick: Pick,
    max_length: int,
    min_length: int,
    ranking: Ranking,
    leaving: bool = False,
) -> Found:
    """The loop of all beams, which differ in what they ``pick`` from what. Rows that are done leave the batch.

    Args:
        leaving: single hypotheses that are given up leave their rows, too. That changes nothing where the likeliest are
            picked: what comes in their place is no likelier, and would be given up with them.
    """
    check_lengths(min_length, max_length)
    ahead = look(stepper, state, min_length < 1)
    b, device = len(ahead), ahead.device
    here = torch.arange(b, device=device)  # the rows that are still searched
    live = torch.zeros(b, 1, dtype=torch.float64, device=device)
    best = torch.full((b, ranking.n_best), NEVER, dtype=torch.float64, device=device)
    n_finished = torch.zeros(b, dtype=torch.int64, device=device)
    covered = Coverage(stepper, ranking.coverage) if ranking.coverage else None
    singly, places = leaving and stepper.single_rows and not covered, here
    tree, endings = Tree(), []
    norms = [ranking.normalise(length) for length in range(1, max_length + 1)]
    largest = list(accumulate(reversed(norms), max))[::-1]
    for t in range(max_length):
        k = live.shape[1]
        picked = pick(ahead, live)
        scores = picked.ended / norms[t]
        if covered:
            scores = scores + covered.step(state).view(len(here), k).gather(1, picked.ended_parents)
        ended = (scores, NEVER), (picked.ended, NEVER), (picked.ended_parents, 0)
        endings.append(Endings(*(_at(here, x, b, nothing) for x, nothing in ended)))
        tree.grow(_at(here, picked.parents, b, 0), _at(here, picked.ids, b, 0))
        best = torch.cat((best, scores), dim=1).topk(ranking.n_best, dim=1).values
        n_finished = n_finished + (scores > NEVER).sum(dim=1)
        given_up = ranking.stop(Progress(n_finished[:, None], best[:, -1:], picked.live / largest[t]))
        live = picked.live.masked_fill(given_up if leaving else given_up.all(dim=1, keepdim=True), NEVER)
        going = (live > NEVER).any(dim=1)
        n_going = int(going.sum())
        if t + 1 == max_length or n_going < len(here):
            refuse_nan(live, t, here)
        if t + 1 == max_length or not n_going:
            break
        rows, ids = flat_rows(picked.parents, k), picked.ids
        if n_going < len(here):
            rows, ids = rows.view(ids.shape)[going].flatten(), ids[going]
            here, live, best, n_finished = here[going], live[going], best[going], n_finished[going]
        if singly:  # ``places`` says which row of the state a slot has
            alive = (live > NEVER).flatten()
            rows, ids, places = places[rows][alive], ids.flatten()[alive], alive.cumsum(0) - 1
        state = stepper.advance(stepper.select(state, rows), ids.flatten())
        ahead = look(stepper, state, min_length <= t + 1)
        if singly:
            ahead = ahead.spread(alive)
        if covered:
            covered.select(rows)
    return _ranked(tree, endings, _at(here, live, b, NEVER), ranking)


def _at(here: Int[Tensor, " c"], x: Shaped[Tensor, "c k"], b: int, nothing: int | float) -> Shaped[Tensor, "b k"]:
    """What some rows have at their places among all, and nothing elsewhere."""
    return x if len(here) == b else x.new_full((b, x.shape[1]), nothing).index_copy(0, here, x)


class Endings(NamedTuple):
    """The hypotheses that ended with one step; impossible where the score is -inf."""

    scores: Float[Tensor, "b m"]
    log_probs: Float[Tensor, "b m"]
    slots: Int[Tensor, "b m"]


def _ranked(tree: Tree, endings: list[Endings], live: Float[Tensor, "b k"], ranking: Ranking) -> Found:
    """The best of each row: finished ones, then those cut off. Each is told once, though several groups may find it."""
    prefixes, length = tree.read(), len(tree)
    own = torch.arange(live.shape[1], device=live.device).expand(live.shape)
    parts = [*endings, Endings(live / (ranking.normalise(length) if length else 1.0), live, own)]
    steps = [t for t, part in enumerate(parts) for _ in range(part.scores.shape[1])]
    columns = [torch.cat(column, dim=1).cpu() for column in zip(*parts, strict=True)]
    n = len(steps) - live.shape[1]
    finished, cut = (
        x.argsort(dim=1, descending=True, stable=True) for x in columns[0].split((n, live.shape[1]), dim=1)
    )
    found: Found = []
    for row, places in enumerate(torch.cat((finished, n + cut), dim=1).tolist()):
        scores, log_probs, slots = (column[row].tolist() for column in columns)
        told: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
        for i in (i for i in places if scores[i] > NEVER):
            ids = prefixes.of(row, steps[i], slots[i])
            told.setdefault((ids, i < n), Hypothesis(ids, log_probs[i], scores[i], i < n))
            if len(told) == ranking.n_best:
                break
        found.append(list(told.values()))
    return found
