r"""Positions: what tells a model without recurrence where in the sequence a vector stands.

* sinusoidal, added to the vectors (Vaswani et al. 2017, section 3.5):

  .. math::  p_{i, 2j} = \sin(i / 10000^{2j/d}), \qquad p_{i, 2j+1} = \cos(i / 10000^{2j/d})

* learned, added to the vectors: one row of a table for each position (Gehring et al. 2017, section 3.1);
* rotary, which turns queries and keys so that their product depends on the difference of their positions
  alone (Su et al. 2021, equation 34): the pair :math:`(x_{2j}, x_{2j+1})` at position i is turned by the
  angle :math:`i / 10000^{2j/d}`.

Time O(t d). Positions count from 0; ``start`` is the position of the first vector, for a decoder that goes
on.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.errors import ShapeError


class SinusoidalPositions(nn.Module):
    """Adds a fixed wave of its own to every feature. Any length; no parameters."""

    def __init__(self, d: int, base: float = 10000.0) -> None:
        super().__init__()
        self.d, self.base = d, base

    def forward(self, x: Float[Tensor, "*batch t d"], start: int = 0) -> Float[Tensor, "*batch t d"]:
        angles = _angles(start, x.shape[-2], self.d, self.base, x.device)
        waves = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # t d, or one more where d is odd
        return x + waves[:, : self.d].to(x.dtype)


class LearnedPositions(nn.Module):
    """Adds a learned vector to each of the first ``max_length`` positions; a longer sequence is refused."""

    def __init__(self, max_length: int, d: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.weight = nn.Parameter(torch.empty(max_length, d))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Float[Tensor, "*batch t d"], start: int = 0) -> Float[Tensor, "*batch t d"]:
        end = start + x.shape[-2]
        if end > self.max_length:
            raise ShapeError(
                f"a sequence reaches position {end}, but the model learned only max_length = "
                f"{self.max_length} positions: raise max_length and train again, "
                "cut the text, or use sinusoidal or rotary positions"
            )
        return x + self.weight[start:end].to(x.dtype)


class RotaryPositions(nn.Module):
    """Turns each pair of neighbouring features of a head by an angle that grows with the position. No
    parameters."""

    def __init__(self, d: int, base: float = 10000.0) -> None:
        super().__init__()
        if d % 2:
            raise ShapeError(f"rotary positions turn pairs of features, so d must be even, but it is {d}")
        self.d, self.base = d, base

    def forward(self, x: Float[Tensor, "*batch t d"], start: int = 0) -> Float[Tensor, "*batch t d"]:
        angles = _angles(start, x.shape[-2], self.d, self.base, x.device)
        sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _angles(start: int, t: int, d: int, base: float, device: torch.device) -> Float[Tensor, "t half"]:
    """``angles[i, j]`` = (start + i) / base^(2j/d), in double precision where the device has it."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    rates = base ** -(torch.arange(0, d, 2, device=device, dtype=dtype) / d)
    return torch.arange(start, start + t, device=device, dtype=dtype)[:, None] * rates
