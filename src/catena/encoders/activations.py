r"""Activations by name.

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
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

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
