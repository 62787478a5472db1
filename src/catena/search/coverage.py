r"""Coverage: hypotheses that have attended to the whole source are preferred.

.. math::  c(x, y) = \beta \sum_{i=1}^{|x|} \log \min\Bigl(1, \sum_{t=1}^{|y|} a_{ti}\Bigr)

Wu et al. (2016), eq. 14.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.search.stepper import HasAttention, Stepper, WrapperStepper

LEAST = 1e-6
"""The minimum coverage of a position: -inf would make all hypotheses that miss one word equal."""


class CoveragePenalty:
    """How much each hypothesis of a beam has attended to each position of its source."""

    def __init__(self, stepper: Stepper[Any], beta: float) -> None:
        self._around: list[WrapperStepper[Any]] = []
        looking = stepper
        while isinstance(looking, WrapperStepper) and not isinstance(looking, HasAttention):
            self._around.append(looking)
            looking = looking.stepper
        if not isinstance(looking, HasAttention):
            raise ConfigError(
                f"coverage must be 0 for {type(looking).__name__}, which has no attention over a source, got {beta}. "
                "Set coverage = 0."
            )
        self.looking, self.beta = looking, beta
        self.looked: Tensor | float = 0.0

    def step(self, state: Any) -> Float[Tensor, " n"]:
        """Adds the attention of one step; returns the penalty of each row if it ended with this step."""
        for stepper in self._around:
            state = stepper.inner(state)
        self.looked = self.looked + self.looking.attention(state)
        missed = self.looked.clamp(LEAST, 1.0).log()
        return self.beta * missed.masked_fill(~self.looking.source_mask(state), 0.0).sum(dim=1)

    def select(self, rows: Int[Tensor, " m"]) -> None:
        assert isinstance(self.looked, Tensor)
        self.looked = self.looked[rows]
