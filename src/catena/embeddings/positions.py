r"""Position embeddings for models without recurrence.

* sinusoidal, added to the vectors (Vaswani et al. 2017, section 3.5):

  .. math::  p_{i, 2j} = \sin(i / 10000^{2j/d}), \qquad p_{i, 2j+1} = \cos(i / 10000^{2j/d})

* learned, added to the vectors: one row of a table for each position (Gehring et al. 2017, section 3.1);
* rotary, which rotates queries and keys so that their product depends only on the difference of their positions
  (Su et al. 2021, equation 34): the pair :math:`(x_{2j}, x_{2j+1})` at position i is rotated by the angle
  :math:`i / 10000^{2j/d}`.

Time O(t d). Positions count from 0; ``start`` is the position of the first vector, for a decoder that continues: one
for all sequences, or one for each on the first axis.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.errors import ShapeError, TooLongError

_Start = int | Int[Tensor, " b"]
"""The position of the first vector."""


class SinusoidalPositions(nn.Module):
    """Adds a fixed sine wave to every feature. Any length; no parameters.

    Args:
        d: size of a vector.
        base: the slowest wave has a length of about ``2π base`` positions.
    """

    def __init__(self, d: int, base: float = 10000.0) -> None:
        super().__init__()
        self.d, self.base = d, base
        self._table = _Table(self._waves)

    def forward(self, x: Float[Tensor, "*batch t d"], start: _Start = 0) -> Float[Tensor, "*batch t d"]:
        return x + self._table.rows(start, x)

    def _waves(self, n: int, device: torch.device) -> Float[Tensor, "n d"]:
        angles = _angles(n, self.d, self.base, device)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, : self.d]


class LearnedPositions(nn.Module):
    """Adds a learned vector to each of the first ``max_length`` positions; raises TooLongError for longer sequences.

    Args:
        max_length: number of positions.
        d: size of a vector.
    """

    def __init__(self, max_length: int, d: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.weight = nn.Parameter(torch.empty(max_length, d))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Float[Tensor, "*batch t d"], start: _Start = 0) -> Float[Tensor, "*batch t d"]:
        end = _last(start) + x.shape[-2]
        if end > self.max_length:
            raise TooLongError(
                f"the length of a sequence must be at most max_length = {self.max_length}, got {end}. Truncate the "
                "text, use sinusoidal or rotary positions, or train again with a larger max_length."
            )
        return x + _rows(self.weight, start, x).to(x.dtype)


class RotaryPositions(nn.Module):
    """Rotates each pair of neighboring features of a head by an angle proportional to the position. No parameters.

    Args:
        d: size of a head, an even number.
        base: the slowest feature turns by about ``1 / base`` radians per position.
    """

    def __init__(self, d: int, base: float = 10000.0) -> None:
        super().__init__()
        if d % 2:
            raise ShapeError(f"d must be even for rotary positions, got {d}. Use {d + 1}.")
        self.d, self.base = d, base
        self._table = _Table(self._sines_and_cosines)

    def forward(self, x: Float[Tensor, "*batch t d"], start: _Start = 0) -> Float[Tensor, "*batch t d"]:
        if x.dtype in (torch.bfloat16, torch.float16):  # eight bits would round the angles of large positions
            return self(x.float(), start).to(x.dtype)
        sin, cos = self._table.rows(start, x).chunk(2, dim=-1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def turns(self, places: np.ndarray) -> np.ndarray:
        """The sines and cosines of the angles at positions, ``n d``, in single precision, for compiled steps."""
        needed = torch.empty(0, 1, self.d)
        self._table.rows(int(places.max(initial=0)), needed)  # extends the cached table to this position
        assert self._table.kept is not None
        return self._table.kept.numpy()[places]

    def _sines_and_cosines(self, n: int, device: torch.device) -> Float[Tensor, "n d"]:
        angles = _angles(n, self.d, self.base, device)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class _Table:
    """A cache of rows for positions, since a decoder step needs one row at a time."""

    def __init__(self, make: Callable[[int, torch.device], Tensor]) -> None:
        self.make = make
        self.kept: Tensor | None = None

    def rows(self, start: _Start, x: Float[Tensor, "*batch t d"]) -> Tensor:
        """The rows of the positions of ``x``, to be added to it or multiplied with it."""
        end = _last(start) + x.shape[-2]
        kept = self.kept
        if kept is None or len(kept) < end or kept.device != x.device or kept.dtype != x.dtype:
            # Cached rows may be used in training after a prediction, so they must not be inference tensors.
            with torch.inference_mode(False), torch.no_grad():
                kept = self.make(max(2 * end, 64), x.device).to(x.dtype)
            self.kept = kept
        return _rows(kept, start, x)


def _rows(table: Float[Tensor, "n d"], start: _Start, x: Float[Tensor, "*batch t d"]) -> Tensor:
    t = x.shape[-2]
    if isinstance(start, int):
        return table[start : start + t]
    found = table[start[:, None] + torch.arange(t, device=start.device)]  # b t d
    return found.view(found.shape[0], *(1,) * (x.ndim - 3), t, table.shape[1])


def _last(start: _Start) -> int:
    return start if isinstance(start, int) else int(start.max()) if len(start) else 0


def _angles(n: int, d: int, base: float, device: torch.device) -> Float[Tensor, "n half"]:
    """``angles[i, j]`` = i / base^(2j/d), in double precision if the device has it."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    rates = base ** -(torch.arange(0, d, 2, device=device, dtype=dtype) / d)
    return torch.arange(n, device=device, dtype=dtype)[:, None] * rates
