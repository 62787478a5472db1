"""Small models, and an adapter from a stepper to the oracle's model."""

from __future__ import annotations

from typing import Any

import torch

from catena.numerics import NEG_INF
from catena.search.stepper import Stepper
from catena.search.table_stepper import TableStepper
from tests.oracle.search import Model


def random_table(v: int, order: int = 2, end: int = 0, seed: int = 3, impossible: float = 0.0) -> TableStepper:
    """A random table, in which a fraction of all entries is impossible, but every row has a possible one."""
    generator = torch.Generator().manual_seed(seed)
    shape = (v + 1,) * (order - 1) + (v,)
    scores = 1.5 * torch.randn(shape, generator=generator, dtype=torch.float64)
    gone = torch.rand(shape, generator=generator) < impossible
    gone &= ~torch.nn.functional.one_hot(scores.argmax(dim=-1), v).bool()
    return TableStepper(scores.masked_fill(gone, NEG_INF).log_softmax(dim=-1), end)


def as_model(stepper: Stepper[Any], row: int = 0, rows: int = 1) -> Model:
    """The model of one row, read from the beginning each time, without caches."""

    def next_probs(prefix: tuple[int, ...]) -> list[float]:
        state = stepper.select(stepper.start(rows), torch.tensor([row]))
        for id in prefix:
            state = stepper.advance(state, torch.tensor([id]))
        return stepper.log_probs(state)[0].exp().tolist()

    return next_probs
