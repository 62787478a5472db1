"""The interface of causal encoders, which read from the left and can continue from a saved state.

Laws that ``tests/laws/causal_laws.py`` checks for each: one pass over a sequence equals passes over its pieces and
equals single steps; a position never depends on later ones; the rows of a state can be selected, repeated and joined.
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

CausalState = Any
"""The memory of an encoder for what it has read, one row for each sequence; opaque to callers."""


class CausalEncoder(Encoder):
    """An encoder whose vector at a position depends only on that position and those before it.

    A non-causal configuration of such an encoder raises ConfigError in these methods: see :attr:`looks_ahead`.
    """

    looks_ahead: bool = False
    """Whether it depends on later positions (bidirectional, centered windows), so that it cannot run step by step."""

    @abstractmethod
    def begin(self, b: int, device: torch.device, dtype: torch.dtype) -> CausalState:
        """The state of ``b`` empty sequences."""

    @abstractmethod
    def continue_(
        self, x: Float[Tensor, "b t d_in"], state: CausalState
    ) -> tuple[Float[Tensor, "b t d_out"], CausalState]:
        """Read one or more positions. Returns their outputs and the new state; the given state is not changed."""

    @abstractmethod
    def select(self, state: CausalState, rows: Int[Tensor, " m"]) -> CausalState:
        """The state of the given rows in the given order; rows may be repeated or left out."""

    @abstractmethod
    def join(self, states: Sequence[CausalState]) -> CausalState:
        """The rows of several states, concatenated."""

    @abstractmethod
    def detach(self, state: CausalState) -> CausalState:
        """The same state without gradients, for truncated backpropagation."""

    def whole(self, x: Float[Tensor, "b t d_in"]) -> Float[Tensor, "b t d_out"]:
        """Encode sequences without padding from their beginning, without returning a state."""
        self.check_causal()
        return self.continue_(x, self.begin(x.shape[0], x.device, x.dtype))[0]

    def check_causal(self) -> None:
        """Raise ConfigError if the encoder depends on later positions."""
        if self.looks_ahead:
            raise ConfigError(
                f"The {type(self).__name__.lower()} encoder depends on later positions, so it cannot run step by step. "
                f"Build it with bidirectional = false, causal = true or padding = 'causal'."
            )


def causal(encoder: Encoder) -> CausalEncoder:
    """The same encoder; raises ConfigError if it is not a causal one."""
    if not isinstance(encoder, CausalEncoder):
        raise ConfigError(
            f"encoder must be causal in a language model, got {type(encoder).__name__.lower()}. Choose recurrent, "
            f"convolution, dilated or transformer."
        )
    encoder.check_causal()
    return encoder
