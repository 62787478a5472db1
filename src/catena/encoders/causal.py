"""The interface of causal encoders: they read from the left, and can stop anywhere and go on.

Laws that ``tests/laws/causal_laws.py`` holds for each: one pass over the whole equals passes over pieces and equals one
step after another; the future never reaches the past; the rows of a state are taken, repeated and joined at will.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.encoders.base import Encoder
from catena.errors import ConfigError

State = Any
"""What an encoder remembers of what it has read, one row for each sequence: a value that only the encoder opens."""


class CausalEncoder(Encoder):
    """An encoder whose vector at a position depends on that position and those before it alone.

    An encoder that is built to look ahead has these methods too, and refuses them: see :attr:`looks_ahead`.
    """

    looks_ahead: bool = False
    """Whether it was built to see the future (bidirectional, centered windows): then it cannot go step by step."""

    @abstractmethod
    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> State:
        """The state of ``b`` sequences of which nothing has been read."""

    @abstractmethod
    def continue_(self, x: Float[Tensor, "b t d_in"], state: State) -> tuple[Float[Tensor, "b t d_out"], State]:
        """Read on: any number of positions, one or more. The given state stays as it was."""

    @abstractmethod
    def select(self, state: State, rows: Int[Tensor, " m"]) -> State:
        """The state of the given rows, in their order; rows may be repeated and left out."""

    @abstractmethod
    def join(self, states: Sequence[State]) -> State:
        """The rows of several states, one state after another."""

    @abstractmethod
    def detach(self, state: State) -> State:
        """The same state with no way back for gradients: where truncated backpropagation ends."""

    def whole(self, x: Float[Tensor, "b t d_in"]) -> Float[Tensor, "b t d_out"]:
        """Encode sequences without padding from their beginning, with no thought of going on."""
        self.check_causal()
        return self.continue_(x, self.begin(x.shape[0], x.device, x.dtype))[0]

    def check_causal(self) -> None:
        """Refuse to go step by step where the future is seen."""
        if self.looks_ahead:
            raise ConfigError(
                f"this {type(self).__name__.lower()} encoder looks ahead, so it cannot read step by step: build it "
                f"with bidirectional = false, causal = true or padding = 'causal'"
            )


def causal(encoder: Encoder) -> CausalEncoder:
    """The same encoder, if it is one that sees nothing of the future."""
    if not isinstance(encoder, CausalEncoder):
        raise ConfigError(
            f"a language model needs an encoder that reads step by step, and {type(encoder).__name__.lower()} does "
            f"not: choose recurrent, convolution, dilated or transformer"
        )
    encoder.check_causal()
    return encoder
