"""Dropout of the vectors of a sequence: anew at each position, or the same features at all of them."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Zeroes features in training; what stays is scaled up so that means are kept.

    Args:
        p: the probability.
        time: the axis of the positions, for locked dropout, which draws once for all of them (Gal & Ghahramani
            2016); None draws for each position.
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
