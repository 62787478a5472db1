r"""Beam search: the ``width`` most probable prefixes of each length, continued in parallel.

Finished hypotheses leave the beam and are ranked by

.. math::  s(y) = \frac{\log p(y)}{n(|y|)} + c(x, y)

where n is the length penalty and c is the coverage of a source. A beam as wide as there are prefixes is an
exhaustive search; width 1 is greedy. Time O(steps × width × v), memory O(steps × width).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.constraint_banks import score_branches, select_by_bank
from catena.search.coverage import CoveragePenalty
from catena.search.hypothesis import Hypotheses, Hypothesis
from catena.search.next_scores import ScoreFn, top_ids
from catena.search.prefix_tree import PrefixTree, flat_rows
from catena.search.prompts import Prompt, start_state
from catena.search.ranking import LengthPenalty, SearchProgress, Stop, no_length_penalty, stop_when_optimal
from catena.search.selection import SelectFn, select_top_of_sets
from catena.search.single_path import check_lengths
from catena.search.stepper import Stepper, check_no_nan


class Ranking(NamedTuple):
    """How hypotheses are ranked, and how many are returned."""

    n_best: int = 1
    normalize: LengthPenalty = no_length_penalty
    coverage: float = 0.0
    stop: Stop = stop_when_optimal
    groups: int = 1
    """Equal parts of the slots whose hypotheses are returned in turn: the best one of every part comes first."""


@torch.no_grad()
def beam(
    stepper: Stepper[Any],
    state: Any = None,
    beam_size: int = 4,
    max_length: int = 100,
    min_length: int = 0,
    n_best: int = 1,
    length_penalty: LengthPenalty = no_length_penalty,
    coverage: float = 0.0,
    stop: Stop = stop_when_optimal,
    *,
    prompt: Prompt | None = None,
) -> Hypotheses:
    """The ``n_best`` hypotheses for each prefix of ``state``, finished ones first, then unfinished ones.

    A row has fewer if fewer are possible, or if the stopping rule ended the search earlier.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix; that of ``prompt`` if None.
        beam_size: the number of prefixes of a length that are kept in each row.
        max_length: the maximum number of steps, including the end.
        min_length: the minimum number of ids before the end.
        n_best: the number of hypotheses to return for each row, at most ``beam_size``.
        length_penalty: divides the log-probability of a finished hypothesis; see ``ranking``.
        coverage: the factor β of the coverage penalty; needs a stepper with :class:`HasAttention`.
        stop: the rule that ends the search of a row; see ``ranking``.
        prompt: ids that the model reads first, of one prefix or of several; nothing if None.
    """
    state = start_state(stepper, state, prompt)
    if not 1 <= n_best <= beam_size:
        raise ConfigError(
            f"n_best must be from 1 to beam_size = {beam_size}, got {n_best}. Raise beam_size or change n_best."
        )
    look: ScoreFn = score_branches if stepper.constrained else partial(top_ids, k=beam_size + 1)
    pick = partial(select_by_bank if stepper.constrained else select_top_of_sets, end=stepper.end, width=beam_size)
    ranking = Ranking(n_best, length_penalty, coverage, stop)
    return beam_loop(stepper, state, look, pick, max_length, min_length, ranking, leaving=True)


def beam_loop(
    stepper: Stepper[Any],
    state: Any,
    look: ScoreFn,
    pick: SelectFn,
    max_length: int,
    min_length: int,
    ranking: Ranking,
    leaving: bool = False,
) -> Hypotheses:
    """The loop of all beam searches, which differ in the function ``pick``; finished rows leave the batch.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix.
        look: scores the next ids of a state.
        pick: selects the continuations of each step.
        max_length: the maximum number of steps, including the end.
        min_length: the minimum number of ids before the end.
        ranking: how hypotheses are ranked, and how many are returned.
        leaving: remove single hypotheses that are given up from their rows, too. This does not change the result of
            a beam of the most probable ones: their replacements are not more probable and would be given up, too.
    """
    check_lengths(min_length, max_length)
    ahead = look(stepper, state, min_length < 1)
    b, device = len(ahead), ahead.device
    here = torch.arange(b, device=device)  # the rows still in the search
    live = torch.zeros(b, 1, dtype=torch.float64, device=device)
    # One hypothesis is the best of all groups; of several, a group may have to supply all that the others do not.
    groups = ranking.groups if ranking.n_best > 1 else 1
    best = torch.full((b, groups, ranking.n_best), NEG_INF, dtype=torch.float64, device=device)
    n_finished = torch.zeros(b, dtype=torch.int64, device=device)
    covered = CoveragePenalty(stepper, ranking.coverage) if ranking.coverage else None
    singly, places = leaving and stepper.single_rows and not covered, here
    tree, endings = PrefixTree(), []
    norms = [ranking.normalize(length) for length in range(1, max_length + 1)]
    largest = list(accumulate(reversed(norms), max))[::-1]
    for t in range(max_length):
        k = live.shape[1]
        picked = pick(ahead, live)
        scores = picked.ended / norms[t]
        if covered:
            scores = scores + covered.step(state).view(len(here), k).gather(1, picked.ended_parents)
        ended = (scores, NEG_INF), (picked.ended, NEG_INF), (picked.ended_parents, 0)
        endings.append(FinishedHypotheses(*(_at(here, x, b, nothing) for x, nothing in ended)))
        tree.grow(_at(here, picked.parents, b, 0), _at(here, picked.ids, b, 0))
        best = torch.cat((best, scores.unflatten(1, (groups, -1))), dim=2).topk(ranking.n_best, dim=2).values
        n_finished = n_finished + (scores > NEG_INF).sum(dim=1)
        kept = best[:, :, -1].repeat_interleave(picked.live.shape[1] // groups, dim=1)
        given_up = ranking.stop(SearchProgress(n_finished[:, None], kept, picked.live / largest[t]))
        live = picked.live.masked_fill(given_up if leaving else given_up.all(dim=1, keepdim=True), NEG_INF)
        going = (live > NEG_INF).any(dim=1)
        n_going = int(going.sum())
        if t + 1 == max_length or n_going < len(here):
            check_no_nan(live, t, here)
        if t + 1 == max_length or not n_going:
            break
        rows, ids = flat_rows(picked.parents, k), picked.ids
        if n_going < len(here):
            rows, ids = rows.view(ids.shape)[going].flatten(), ids[going]
            here, live, best, n_finished = here[going], live[going], best[going], n_finished[going]
        if singly:  # ``places`` is the row of the state for each slot
            alive = (live > NEG_INF).flatten()
            rows, ids, places = places[rows][alive], ids.flatten()[alive], alive.cumsum(0) - 1
        state = stepper.advance(stepper.select(state, rows), ids.flatten())
        ahead = look(stepper, state, min_length <= t + 1)
        if singly:
            ahead = ahead.spread(alive)
        if covered:
            covered.select(rows)
    return _ranked(tree, endings, _at(here, live, b, NEG_INF), ranking)


def _at(here: Int[Tensor, " c"], x: Shaped[Tensor, "c k"], b: int, nothing: int | float) -> Shaped[Tensor, "b k"]:
    """Scatters the values of some rows to all rows; the other rows get ``nothing``."""
    return x if len(here) == b else x.new_full((b, x.shape[1]), nothing).index_copy(0, here, x)


class FinishedHypotheses(NamedTuple):
    """The hypotheses that ended in one step; impossible where the score is -inf."""

    scores: Float[Tensor, "b m"]
    log_probs: Float[Tensor, "b m"]
    slots: Int[Tensor, "b m"]


def _ranked(
    tree: PrefixTree, endings: list[FinishedHypotheses], live: Float[Tensor, "b k"], ranking: Ranking
) -> Hypotheses:
    """The best of each row, finished ones first, without duplicates from different groups."""
    prefixes, length = tree.read(), len(tree)
    own = torch.arange(live.shape[1], device=live.device).expand(live.shape)
    parts = [*endings, FinishedHypotheses(live / (ranking.normalize(length) if length else 1.0), live, own)]
    steps = [t for t, part in enumerate(parts) for _ in range(part.scores.shape[1])]
    columns = [torch.cat(column, dim=1).cpu() for column in zip(*parts, strict=True)]
    n = len(steps) - live.shape[1]
    finished, cut = (
        x.argsort(dim=1, descending=True, stable=True) for x in columns[0].split((n, live.shape[1]), dim=1)
    )
    group = [i * ranking.groups // part.scores.shape[1] for part in parts for i in range(part.scores.shape[1])]

    def ranked(row: int, places: list[int]) -> list[Hypothesis]:
        scores, log_probs, slots = (column[row].tolist() for column in columns)
        queues: dict[tuple[bool, int], deque[int]] = {}
        for i in places:
            if scores[i] > NEG_INF:
                queues.setdefault((i >= n, group[i]), deque()).append(i)
        return _taking_turns(
            queues,
            lambda i: Hypothesis(prefixes.of(row, steps[i], slots[i]), log_probs[i], scores[i], i < n),
            ranking.n_best,
        )

    return [ranked(row, places) for row, places in enumerate(torch.cat((finished, n + cut), dim=1).tolist())]


def _taking_turns(
    queues: dict[tuple[bool, int], deque[int]], read: Callable[[int], Hypothesis], n_best: int
) -> list[Hypothesis]:
    """The best of each group without duplicates, then the next best; finished ones before unfinished ones.

    ``queues[is_cut, group]`` has the hypotheses of a group as indices for ``read``, sorted by score.
    """
    found: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
    for cut in (False, True):
        own = [queue for (is_cut, _), queue in sorted(queues.items()) if is_cut == cut]
        while any(own) and len(found) < n_best:
            turn: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
            for queue in own:
                while queue:
                    one = read(queue.popleft())
                    if (one.ids, cut) in found:
                        continue
                    new = (one.ids, cut) not in turn
                    if new or one.score > turn[one.ids, cut].score:  # groups may round the same hypothesis differently
                        turn[one.ids, cut] = one
                    if new:
                        break
            found |= sorted(turn.items(), key=lambda pair: -pair[1].score)[: n_best - len(found)]
    return list(found.values())
