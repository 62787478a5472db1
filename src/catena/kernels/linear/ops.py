"""Linear maps of few vectors on a CPU, with a copy of the weights that is laid out for them.

The plain form, ``torch.nn.functional.linear``, defines what is right; see :mod:`catena.kernels.linear.cpu` for the
copy.
Nothing is compiled before the first product.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.kernels.common.threads import in_row_blocks

MAX_ROWS = 2048
"""Rows up to which products are known to be faster so than in torch: 1.3 to 1.7 times, on one thread of an AMD EPYC."""

MAX_WEIGHTS = 2**25
"""Numbers of a matrix up to which a copy is kept."""


class PackedLinear:
    """x wᵀ for a matrix ``d_out d_in``."""

    def __init__(self, weight: Float[Tensor, "d_out d_in"]) -> None:
        from catena.kernels.linear.cpu import multiply, pack_panels

        self._multiply = multiply
        self.weight = weight
        self.made_of = _mark(weight)
        self.panels = pack_panels(weight.detach().numpy().T)
        self.v = weight.shape[0]

    @staticmethod
    def suits(x: Float[Tensor, "n d_in"], weight: Float[Tensor, "d_out d_in"]) -> bool:
        """Whether such a product is faster so: on a CPU, in single precision, without gradients."""
        return (
            x.dtype == weight.dtype == torch.float32
            and x.device.type == weight.device.type == "cpu"
            and not torch.is_grad_enabled()
            and not torch.jit.is_tracing()
            and x.shape[0] <= MAX_ROWS
            and weight.numel() <= MAX_WEIGHTS
            and not can_skip_kernels(100 + weight.numel() // 1000)
        )

    def is_current(self, weight: Float[Tensor, "d_out d_in"]) -> bool:
        """Whether this is the matrix, and it has not changed since."""
        return self.weight is weight and self.made_of == _mark(weight)

    def __call__(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        rows = np.ascontiguousarray(x.numpy())
        panels = self.panels
        n_panels, _, wide = panels.shape
        y = np.empty((len(rows), n_panels * wide), np.float32)
        in_row_blocks(lambda low, high: self._multiply(rows, panels, y, low, high), n_panels, len(rows) * panels.size)
        return torch.from_numpy(y)[:, : self.v]


def _mark(weight: Tensor) -> tuple[int, int]:
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version
