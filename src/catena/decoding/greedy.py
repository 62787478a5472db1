r"""Greedy search: the likeliest id at every step.

.. math::  y_t = \arg\max_w p(w \mid y_{<t})

It finds the likeliest sequence only where no good beginning leads to a bad end; see ``beam``.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.decoding.hypothesis import Found
from catena.decoding.stepper import Stepper
from catena.decoding.walk import collected, walk
from catena.kernels.top import largest


def likeliest(log_probs: Float[Tensor, "n v"]) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
    """The likeliest id of each row, the first of equals."""
    log_prob, ids = largest(log_probs, 1)
    return ids[:, 0], log_prob[:, 0]


@torch.no_grad()
def greedy(stepper: Stepper[Any], state: Any, max_length: int, min_length: int = 0) -> Found:
    """One hypothesis for each prefix of ``state``, its score the log-probability.

    Args:
        max_length: the most steps: so many ids, the end among them.
        min_length: the end is not chosen before so many ids are written.
    """
    n = len(stepper.log_probs(state)) if max_length == 0 else 0
    return collected(walk(stepper, state, likeliest, max_length, min_length, leaving=True, plain=True), n)
