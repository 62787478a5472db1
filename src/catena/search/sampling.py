r"""Ancestral sampling: each id is sampled given those before it, so sequences are samples of p(y).

.. math::  y_t \sim q(\cdot \mid y_{<t}), \qquad q = f_m(\dots f_1(p))

Filters f turn p into q. Each row uses one uniform number for each step, by the inverse distribution function:
an id of probability zero is never sampled.
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
from catena.search.prompts import Prompt, start_state
from catena.search.single_path import single_path, stream_ids, to_hypotheses
from catena.search.stepper import Stepper

Generators = torch.Generator | Sequence[torch.Generator]
"""One for all rows; or one for each, so that the samples of a row do not depend on its batch."""


@dataclass(frozen=True)
class SampleId:
    """A choice function for single-path searches: samples an id from the filtered distribution of each row."""

    generators: Generators
    filters: Sequence[Filter] = ()

    def __post_init__(self) -> None:
        several = self.generators if isinstance(self.generators, Sequence) else [self.generators]
        if wrong := [type(one).__name__ for one in several if not isinstance(one, torch.Generator)]:
            raise ConfigError(
                f"generators must be a torch.Generator, or one for each row, got a {wrong[0]}. Pass "
                "torch.Generator().manual_seed(0)."
            )

    def __call__(self, log_probs: Float[Tensor, "n v"]) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        q = apply(self.filters, log_probs)
        edges = q.double().exp().cumsum(dim=1)
        mass = edges[:, -1]
        reached = self._uniform(len(q)).to(q.device) * mass
        ids = torch.searchsorted(edges, reached[:, None], right=True)[:, 0].clamp(max=q.shape[1] - 1)
        # The probability of forbidden ids, such as an early end, is distributed over the others.
        return ids, q.gather(1, ids[:, None])[:, 0] - torch.where(mass > 0, mass, 1.0).log().to(q.dtype)

    def _uniform(self, n: int) -> Float[Tensor, " n"]:
        if isinstance(self.generators, torch.Generator):
            return torch.rand(n, generator=self.generators, dtype=torch.float64, device=self.generators.device)
        if len(self.generators) != n:
            raise ConfigError(
                f"generators must be one generator for each of {n} rows, got {len(self.generators)}. Pass "
                f"{n}, or just one."
            )
        return torch.cat([torch.rand(1, generator=g, dtype=torch.float64, device=g.device) for g in self.generators])


@torch.no_grad()
def sample(
    stepper: Stepper[Any],
    state: Any = None,
    generators: Generators | int = 0,
    max_length: int = 100,
    filters: Sequence[Filter] = (),
    min_length: int = 0,
    n: int = 1,
    *,
    prompt: Prompt | None = None,
) -> Hypotheses:
    """``n`` sampled sequences for each prefix of ``state``, in the order of sampling.

    ``log_prob`` is the log-probability under the stepper, ``score`` the one under the filtered distribution: their
    difference is an importance weight.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix; that of ``prompt`` if None.
        generators: one, or one for each of the ``n`` samples of each row, or a seed.
        max_length: the maximum number of steps, including the end.
        filters: applied in their order; see ``filters``.
        min_length: the minimum number of ids before the end.
        n: the number of samples for each row.
        prompt: ids that the model reads first, of one prefix or of several; nothing if None.
    """
    state = start_state(stepper, state, prompt)
    generators = torch.Generator().manual_seed(generators) if isinstance(generators, int) else generators
    rows = len(stepper.log_probs(state)) if max_length == 0 else 0
    return to_hypotheses(single_path(stepper, state, SampleId(generators, filters), max_length, min_length, n), rows, n)


def stream(
    stepper: Stepper[Any],
    state: Any = None,
    generators: Generators | int = 0,
    max_length: int = 100,
    filters: Sequence[Filter] = (),
    min_length: int = 0,
    *,
    prompt: Prompt | None = None,
) -> Iterator[list[int | None]]:
    """Yields the sampled ids of all rows at each step, None for a finished row.

    The same ids as :func:`sample` with the same generators.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix; that of ``prompt`` if None.
        generators: one, or one for each row, or a seed.
        max_length: the maximum number of steps, including the end.
        filters: applied in their order, such as :func:`top_p`.
        min_length: the minimum number of ids before the end.
        prompt: ids that the model reads first, of one prefix or of several; nothing if None.
    """
    state = start_state(stepper, state, prompt)
    generators = torch.Generator().manual_seed(generators) if isinstance(generators, int) else generators
    return stream_ids(single_path(stepper, state, SampleId(generators, filters), max_length, min_length))
