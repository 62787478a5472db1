r"""Highway layers: gates that choose between a new value and the old one at each position.

.. math::  y = H(x) \circ T(x) + x \circ C(x), \qquad T(x) = \sigma(W_T x + b_T)

with :math:`H(x) = f(W_H x + b_H)` and either :math:`C = 1 - T` or a separate gate C (Srivastava et al. 2015,
equations 2 and 3). The bias of T starts negative and the bias of a separate C positive, so that a new layer carries its
input (section 2.2 there). Time O(t d²) for each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.encoders.base import Encoder
from catena.numerics import lerp


class HighwayLayer(nn.Module):
    """One highway layer over vectors of size ``d``. Works on any number of axes before the last."""

    def __init__(
        self,
        d: int,
        activation: nn.Module,
        *,
        carry: Literal["coupled", "own"] = "coupled",
        bias: float = -2.0,
    ) -> None:
        super().__init__()
        self.d, self.own_carry, self.activation = d, carry == "own", activation
        gates = 2 if self.own_carry else 1
        self.maps = nn.Linear(d, (1 + gates) * d)  # blocks: H, T, and C if it is a separate gate
        with torch.no_grad():
            self.maps.bias[d : 2 * d] = bias
            self.maps.bias[2 * d :] = -bias

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        mapped = self.maps(x)
        new, transform = (
            self.activation(mapped[..., : self.d]),
            torch.sigmoid(mapped[..., self.d : 2 * self.d]),
        )
        if not self.own_carry:
            return lerp(x, new, transform)
        return new * transform + x * torch.sigmoid(mapped[..., 2 * self.d :])


class Highway(Encoder):
    """Stacked highway layers, applied to each position independently.

    Args:
        d_in: size of the vectors, which layers do not change.
        layers: the layers, from bottom to top.
    """

    def __init__(self, d_in: int, layers: Sequence[HighwayLayer]) -> None:
        super().__init__()
        self.d_in = self.d_out = d_in
        self.layers = nn.Sequential(*layers)

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        return self.layers(x)
