r"""Greedy search: the most probable id at every step.

.. math::  y_t = \arg\max_w p(w \mid y_{<t})

It finds the most probable sequence only if no good prefix leads to a bad end; see ``beam``.

Tested in tests/search/test_beam.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.search.hypothesis import Hypotheses
from catena.search.next_scores import ScoreFn, TopIds, top_ids
from catena.search.prompts import Prompt, start_state
from catena.search.single_path import single_path, to_hypotheses
from catena.search.stepper import Stepper

SCORE_TOP_ID: ScoreFn = partial(top_ids, k=1)


def argmax_ids(near: TopIds) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """The most probable id of each row, the first one of ties."""
    return near.ids[:, 0], near.log_probs[:, 0]


@torch.no_grad()
def greedy(
    stepper: Stepper[Any],
    state: Any = None,
    max_length: int = 100,
    min_length: int = 0,
    *,
    prompt: Prompt | None = None,
) -> Hypotheses:
    """One hypothesis for each prefix of ``state``, scored by its log-probability.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix; that of ``prompt`` if None.
        max_length: the maximum number of steps, including the end.
        min_length: the minimum number of ids before the end.
        prompt: ids that the model reads first, of one prefix or of several; nothing if None.
    """
    state = start_state(stepper, state, prompt)
    n = len(stepper.log_probs(state)) if max_length == 0 else 0
    return to_hypotheses(
        single_path(stepper, state, argmax_ids, max_length, min_length, leaving=True, look=SCORE_TOP_ID), n
    )
