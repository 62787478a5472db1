r"""Activations, normalizations and dropout of the vectors of a sequence.

Activations by name:

==============  =============================================  =====================================
``identity``    x
``relu``        max(0, x)                                      Nair & Hinton 2010
``leaky_relu``  max(0, x) + 0.01 min(0, x)                     Goodfellow et al. 2016, section 6.3.1
``prelu``       max(0, x) + a min(0, x), a learned             He et al. 2015, equation 1
``abs``         \|x\|                                          Goodfellow et al. 2016, section 6.3.1
``hard_tanh``   max(-1, min(1, x))                             Collobert 2004
``tanh``        (e^x - e^-x) / (e^x + e^-x)
``sigmoid``     1 / (1 + e^-x)
``gelu``        x Φ(x)                                         Hendrycks & Gimpel 2016
``elu``         x above 0, e^x - 1 below                       Clevert et al. 2016
``selu``        1.0507 (x above 0, 1.6733 (e^x - 1) below)     Klambauer et al. 2017
``softplus``    log(1 + e^x)                                   Goodfellow et al. 2016, equation 3.33
``softsign``    x / (1 + \|x\|)
``swish``       x σ(x)                                         Ramachandran et al. 2017
==============  =============================================  =====================================

Normalizations by name, in time O(b t d):

* batch: each feature over all real positions of the batch (Ioffe & Szegedy 2015, algorithm 1),

  .. math::  y = \gamma \frac{x - \mu_B}{\sqrt{\sigma_B^2 + \epsilon}} + \beta

  and by the running mean and variance in evaluation. Padding is never counted;
* layer: each vector over its own features (Ba et al. 2016, equation 3), without an effect of padding.

Tested in tests/encoders/test_activations.py and test_normalize.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from catena.registry import Registry

ACTIVATIONS: Registry[Callable[[], nn.Module]] = Registry("activation")
for _name, _class in {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "prelu": nn.PReLU,
    "hard_tanh": nn.Hardtanh,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "swish": nn.SiLU,
}.items():
    ACTIVATIONS.register(_name)(_class)

NONDECREASING = frozenset(
    {"identity", "relu", "leaky_relu", "hard_tanh", "tanh", "sigmoid", "elu", "selu", "softplus", "softsign"}
)
"""Monotonic activations: the maximum of the activated values is the activation of the maximum."""


@ACTIVATIONS.register("abs")
class Absolute(nn.Module):
    r"""The absolute value \|x\|."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return x.abs()


def build_activation(name: str) -> nn.Module:
    """A new activation of this name; ``prelu`` has its own parameter."""
    return ACTIVATIONS[name]()


# --- normalizations ---------------------------------------------------------------------------------------------------


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


# --- dropout ----------------------------------------------------------------------------------------------------------


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
            return functional.dropout(x, self.p)
        one = [1 if axis == self.time else size for axis, size in enumerate(x.shape)]
        return x * functional.dropout(x.new_ones(one), self.p)

    def extra_repr(self) -> str:
        return f"{self.p}, time={self.time}"
