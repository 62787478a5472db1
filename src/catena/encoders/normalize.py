r"""Normalization of the vectors of a sequence.

* batch: each feature over all real positions of the batch (Ioffe & Szegedy 2015, algorithm 1),

  .. math::  y = \gamma \frac{x - \mu_B}{\sqrt{\sigma_B^2 + \epsilon}} + \beta

  and by the running mean and variance in evaluation. Padding is never counted;
* layer: each vector over its own features (Ba et al. 2016, equation 3), without an effect of padding.

Time O(b t d).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from catena.registry import Registry


class Norm(nn.Module, ABC):
    """Abstract normalization of ``b t d`` with a mask of real positions; outputs at padding are undefined."""

    @abstractmethod
    def __init__(self, d: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, x: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """The normalized vectors."""


_NORMS: Registry[type[Norm]] = Registry("normalization")


def build_norm(name: str, d: int) -> Norm:
    """The normalization of this name for vectors of size ``d``."""
    return _NORMS[name](d)


@_NORMS.register("none")
class NoNorm(Norm):
    """No normalization."""

    def __init__(self, d: int) -> None:
        super().__init__(d)

    def forward(self, x: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return x


@_NORMS.register("batch")
class BatchNorm(Norm):
    """Batch normalization over the real positions only."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.norm = nn.BatchNorm1d(d)

    def forward(self, x: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        real = x[mask]
        if self.training and real.shape[0] < 2:  # one position has no variance
            real = nn.functional.batch_norm(
                real, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias
            )
        else:
            real = self.norm(real)
        return torch.zeros_like(x, dtype=real.dtype).masked_scatter(mask[..., None], real)


@_NORMS.register("layer")
class LayerNorm(Norm):
    """Layer normalization."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.norm = nn.LayerNorm(d)

    def forward(self, x: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        return self.norm(x)
