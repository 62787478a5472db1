"""Linear maps of few vectors on a CPU, with a copy of the weights that is laid out for them.

The plain form, ``torch.nn.functional.linear``, defines what is right; see :mod:`catena.kernels.panel_gemm` for the
copy.
Nothing is compiled before the first product.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.kernels.threads import in_row_blocks
from catena.kernels.top import MOST as MOST_FOUND
from catena.kernels.top import WIDE, largest

FEW = 2048
"""Rows up to which products are known to be faster so than in torch: 1.3 to 1.7 times, on one thread of an AMD EPYC."""

MOST = 2**25
"""Numbers of a matrix up to which a copy is kept."""

_TILE = 8
"""Rows that a thread multiplies as fast as more."""


class FewRows:
    """x wᵀ for a matrix ``d_out d_in``."""

    def __init__(self, weight: Float[Tensor, "d_out d_in"]) -> None:
        from catena.kernels.panel_gemm import multiply, pack_panels

        self._multiply, self.weight, self.made_of = multiply, weight, _mark(weight)
        self.panels, self.v = pack_panels(weight.detach().numpy().T), weight.shape[0]
        self._bias: tuple[Tensor | None, object, np.ndarray] | None = None

    @staticmethod
    def suits(x: Float[Tensor, "n d_in"], weight: Float[Tensor, "d_out d_in"]) -> bool:
        """Whether such a product is faster so: on a CPU, in single precision, without gradients."""
        return (
            x.dtype == weight.dtype == torch.float32
            and x.device.type == weight.device.type == "cpu"
            and not torch.is_grad_enabled()
            and not torch.jit.is_tracing()
            and x.shape[0] <= FEW
            and weight.numel() <= MOST
        )

    def is_current(self, weight: Float[Tensor, "d_out d_in"]) -> bool:
        """Whether this is the matrix, and it has not changed since."""
        return self.weight is weight and self.made_of == _mark(weight)

    def __call__(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        rows, panels = np.ascontiguousarray(x.numpy()), self.panels
        n_panels, _, wide = panels.shape
        y = np.empty((len(rows), n_panels * wide), np.float32)
        in_row_blocks(lambda low, high: self._multiply(rows, panels, y, low, high), n_panels, len(rows) * panels.size)
        return torch.from_numpy(y)[:, : self.v]

    def log_softmax(self, x: Float[Tensor, "n d_in"], bias: Float[Tensor, " d_out"] | None) -> Float[Tensor, "n d_out"]:
        """The log of the softmax of x wᵀ + bias, made in one place; -inf in the bias stays."""
        from catena.kernels.panel_gemm import log_softmax_products, log_softmax_rows, multiply_onto

        rows, panels, first, v = np.ascontiguousarray(x.numpy()), self.panels, self._widened(bias), self.v
        n, n_panels, work = len(rows), len(panels), len(rows) * panels.size
        y = np.empty((n, len(first)), np.float32)
        if torch.get_num_threads() == 1 or n >= _TILE * torch.get_num_threads():
            in_row_blocks(lambda low, high: log_softmax_products(rows, panels, y, first, v, low, high), n, work)
        else:  # each thread reads a part of the weights
            in_row_blocks(lambda low, high: multiply_onto(rows, panels, y, first, low, high), n_panels, work)
            in_row_blocks(lambda low, high: log_softmax_rows(y, v, low, high), n, 4 * n * v)
        return torch.from_numpy(y)[:, :v]

    def top_log_probs(
        self, x: Float[Tensor, "n d_in"], bias: Float[Tensor, " d_out"] | None, k: int
    ) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        """The ``k`` largest of these logs in descending order with their indices; ties are ordered by index."""
        if not may_be_found_at_once(len(x), self.v, k):
            return largest(self.log_softmax(x, bias), k)
        from catena.kernels.top_products import top_products

        rows, panels, first = np.ascontiguousarray(x.numpy()), self.panels, self._widened(bias)
        return apply_small_batch(top_products, rows, panels, first, k, len(rows) * panels.size)

    def _widened(self, bias: Float[Tensor, " d_out"] | None) -> np.ndarray:
        """The bias, as wide as the panels, -inf where they are wider than the matrix. The last one is kept: a search
        gives the same at every step."""
        if self._bias is None or self._bias[0] is not bias or self._bias[1] != (bias is not None and _mark(bias)):
            n_panels, _, wide = self.panels.shape
            first = np.full(n_panels * wide, -np.inf, np.float32)  # no word, no probability
            first[: self.v] = 0.0 if bias is None else bias.detach().numpy()
            self._bias = bias, bias is not None and _mark(bias), first
        return self._bias[2]


def may_be_found_at_once(n: int, v: int, k: int) -> bool:
    """Whether the most probable of each row are found faster without the others: not with too few rows for threads."""
    threads = torch.get_num_threads()
    return v >= WIDE and 0 < k <= min(MOST_FOUND, v) and (threads == 1 or n >= _TILE * threads)


def apply_small_batch(
    find: Callable[..., None], rows: np.ndarray, panels: np.ndarray, first: np.ndarray, k: int, work: int
) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
    """What a kernel of :mod:`catena.kernels.top_products` finds, rows shared out to threads."""
    values, places = np.empty((len(rows), k), np.float32), np.empty((len(rows), k), np.int64)
    in_row_blocks(lambda low, high: find(rows, panels, first, values, places, low, high), len(rows), work)
    return torch.from_numpy(values), torch.from_numpy(places)


def _mark(weight: Tensor) -> tuple[int, int]:
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version
