r"""Ancestral sampling: each id is drawn given those before it, so whole sequences are drawn from p(y).

.. math::  y_t \sim q(\cdot \mid y_{<t}), \qquad q = f_m(\dots f_1(p))

Filters f make q of p. Each row takes one uniform number a step, through the inverse of the distribution function:
an id of probability zero is never drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.search.filters import Filter, apply
from catena.search.hypothesis import Hypotheses
from catena.search.single_path import single_path, stream_ids, to_hypotheses
from catena.search.stepper import Stepper

Generators = torch.Generator | Sequence[torch.Generator]
"""One for all rows; or one for each, so that what a row draws does not depend on the batch it is in."""


@dataclass(frozen=True)
class SampleId:
    """A choice for walks: an id drawn from the filtered distribution of each row."""

    generators: Generators
    filters: Sequence[Filter] = ()

    def __post_init__(self) -> None:
        several = self.generators if isinstance(self.generators, Sequence) else [self.generators]
        if wrong := [type(one).__name__ for one in several if not isinstance(one, torch.Generator)]:
            raise ConfigError(
                f"generators must be a torch.Generator, or one for each row, but there is one of type {wrong[0]}: make "
                f"one by torch.Generator().manual_seed(0)"
            )

    def __call__(self, log_probs: Float[Tensor, "n v"]) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        q = apply(self.filters, log_probs)
        edges = q.double().exp().cumsum(dim=1)
        mass = edges[:, -1]
        reached = self._uniform(len(q)).to(q.device) * mass
        ids = torch.searchsorted(edges, reached[:, None], right=True)[:, 0].clamp(max=q.shape[1] - 1)
        # What is forbidden, an early end for one, has left its probability to the others.
        return ids, q.gather(1, ids[:, None])[:, 0] - torch.where(mass > 0, mass, 1.0).log().to(q.dtype)

    def _uniform(self, n: int) -> Float[Tensor, " n"]:
        if isinstance(self.generators, torch.Generator):
            return torch.rand(n, generator=self.generators, dtype=torch.float64, device=self.generators.device)
        if len(self.generators) != n:
            raise ConfigError(f"there must be one generator for each of {n} rows, but there are {len(self.generators)}")
        return torch.cat([torch.rand(1, generator=g, dtype=torch.float64, device=g.device) for g in self.generators])


@torch.no_grad()
def sample(
    stepper: Stepper[Any],
    state: Any,
    generators: Generators,
    max_length: int,
    filters: Sequence[Filter] = (),
    min_length: int = 0,
    n: int = 1,
) -> Hypotheses:
    """``n`` sequences for each prefix of ``state``, in the order they were drawn.

    ``log_prob`` is that of the stepper, ``score`` that of the filtered distribution it was drawn from: their
    difference is an importance weight.

    Args:
        generators: one, or one for each of the ``n`` draws of each row.
        max_length: the most steps: so many ids, the end among them.
        filters: applied in their order; see ``filters``.
        min_length: the end is not drawn before so many ids are written.
    """
    rows = len(stepper.log_probs(state)) if max_length == 0 else 0
    return to_hypotheses(single_path(stepper, state, SampleId(generators, filters), max_length, min_length, n), rows, n)


def stream(
    stepper: Stepper[Any],
    state: Any,
    generators: Generators,
    max_length: int,
    filters: Sequence[Filter] = (),
    min_length: int = 0,
) -> Iterator[list[int | None]]:
    """The ids of each row as soon as they are drawn; None for a row that has stopped.

    The same ids as :func:`sample` with the same generators.
    """
    return stream_ids(single_path(stepper, state, SampleId(generators, filters), max_length, min_length))
