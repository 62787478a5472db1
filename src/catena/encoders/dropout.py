"""Dropout of the vectors of a sequence, independent at each position or with one mask for all positions."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Sets features to zero in training and scales up the rest to keep the mean.

    Args:
        p: the probability.
        time: the axis of the positions, for locked dropout with one mask for all of them (Gal & Ghahramani
            2016); None for a mask at each position.
    """

    def __init__(self, p: float, time: int | None = None) -> None:
        super().__init__()
        self.p, self.time = p, time

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        if not self.training or not self.p:
            return x
        if self.time is None:
            return F.dropout(x, self.p)
        one = [1 if axis == self.time else size for axis, size in enumerate(x.shape)]
        return x * F.dropout(x.new_ones(one), self.p)

    def extra_repr(self) -> str:
        return f"{self.p}, time={self.time}"
