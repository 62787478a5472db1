"""A stepper given by a table of p(next | the last few ids), for examples, tests and small models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.numerics import NEG_INF, safe_log
from catena.search.stepper import Stepper


class TableStepper(Stepper[Tensor]):
    """An n-gram model whose table is given.

    Args:
        table: ``table[h₁, …, hₙ₋₁, w]`` is log p(w | h₁ … hₙ₋₁), the latest id last. A history axis has v + 1 entries:
            the last one is for all positions before the beginning. A table with one axis has no history.
        end: the id that ends a sequence.
    """

    def __init__(self, table: Float[Tensor, "..."], end: int) -> None:
        self.table = table
        self.v = table.shape[-1] if table.dim() else 0
        self.end = end
        if table.dim() == 0 or any(size != self.v + 1 for size in table.shape[:-1]) or not 0 <= end < self.v:
            raise ShapeError(
                "table must have the shape [v + 1, …, v + 1, v] and end must be below v, got the shape "
                f"{list(table.shape)} and end = {end}. Fix the table or the end."
            )

    @classmethod
    def of(
        cls, rows: Mapping[tuple[int, ...], Sequence[float | int]], end: int, dtype: torch.dtype = torch.float64
    ) -> TableStepper:
        """A stepper from probabilities by history; a history shorter than the longest is at the beginning.

        Histories and ids that are not given are impossible.

        >>> coin = TableStepper.of({(): [0.5, 0.5, 0], (0,): [0, 0, 1], (1,): [0, 0, 1]}, end=2)
        >>> coin.log_probs(coin.start(1)).exp().tolist()
        [[0.5, 0.5, 0.0]]
        """
        order = max((len(history) for history in rows), default=0)
        v = max((len(row) for row in rows.values()), default=0)
        table = torch.full((v + 1,) * order + (v,), NEG_INF, dtype=dtype)
        for history, row in rows.items():
            if len(row) != v or abs(sum(row) - 1) > 1e-6 or min(row) < 0:
                raise DataError(
                    f"the row after {list(history)} must be {v} probabilities that sum to 1, got {list(row)}. Fix them."
                )
            if not all(0 <= w < v for w in history):
                raise DataError(f"histories must contain ids below {v}, got {list(history)}. Remove the others.")
            table[(v,) * (order - len(history)) + tuple(history)] = safe_log(torch.tensor(row, dtype=dtype))
        return cls(table, end)

    @property
    def device(self) -> torch.device:
        return self.table.device

    def start(self, n: int) -> Int[Tensor, "n h"]:
        return torch.full((n, self.table.dim() - 1), self.v, device=self.table.device)

    def log_probs(self, state: Int[Tensor, "n h"]) -> Float[Tensor, "n v"]:
        if self.table.dim() == 1:
            return self.table.expand(len(state), self.v)
        return self.table[state.unbind(1)]

    def advance(self, state: Int[Tensor, "n h"], ids: Int[Tensor, " n"]) -> Int[Tensor, "n h"]:
        return torch.cat((state, ids[:, None]), dim=1)[:, 1:]

    def select(self, state: Int[Tensor, "n h"], rows: Int[Tensor, " m"]) -> Int[Tensor, "m h"]:
        return state[rows]

    def join(self, states: Sequence[Int[Tensor, "_ h"]]) -> Int[Tensor, "n h"]:
        return torch.cat(list(states))
