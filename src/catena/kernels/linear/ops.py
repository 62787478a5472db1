"""Linear maps of few vectors on a CPU, with a copy of the weights that is laid out for them.

The plain form, ``torch.nn.functional.linear``, defines what is right; see :mod:`catena.kernels.linear.cpu` for the
copy.
Nothing is compiled before the first product.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.accelerators import can_skip_kernels
from catena.kernels.common.ops import is_plain
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.top_k.ops import MAX_K, MIN_WIDTH

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
        self.made_of = weight_mark(weight)
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
        return self.weight is weight and self.made_of == weight_mark(weight)

    def __call__(
        self, x: Float[Tensor, "n d_in"], bias: Float[Tensor, " d_out"] | None = None
    ) -> Float[Tensor, "n d_out"]:
        rows = np.ascontiguousarray(x.numpy())
        panels = self.panels
        n_panels, _, wide = panels.shape
        first = np.zeros(n_panels * wide, np.float32)
        if bias is not None:
            first[: self.v] = bias.detach().numpy()
        y = np.empty((len(rows), n_panels * wide), np.float32)
        work = len(rows) * panels.size
        in_row_blocks(lambda low, high: self._multiply(rows, panels, first, y, low, high), n_panels, work)
        return torch.from_numpy(y)[:, : self.v]

    def can_find_top(self, n: int, k: int) -> bool:
        """Whether :meth:`top_log_probs` supports ``n`` rows and is faster than a log-softmax of all words."""
        return can_find_top(n, self.v, k)

    def top_log_probs(
        self, x: Float[Tensor, "n d_in"], bias: Float[Tensor, " d_out"] | None, k: int
    ) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        """The ``k`` largest values of the log-softmax of x wᵀ + bias in descending order, and their indices.

        Ties are ordered by index.
        """
        n_panels, _, wide = self.panels.shape
        return find_top_log_probs(x, self.panels, widen_bias(bias, self.v, n_panels * wide), k)


class CachedLinear:
    """x wᵀ + bias with a packed copy of the weights where that is faster, else by torch.

    The copy is made at the first such product, and again after the weights have changed.
    """

    def __init__(self) -> None:
        self._packed: PackedLinear | None = None

    @staticmethod
    def suits(x: Float[Tensor, "*n d_in"], weight: Tensor) -> bool:
        """Whether a packed copy is faster."""
        plain = type(weight) in (Tensor, torch.nn.Parameter)
        return plain and x.numel() > 0 and is_plain() and PackedLinear.suits(x.flatten(0, -2)[:MAX_ROWS], weight)

    def __call__(
        self,
        x: Float[Tensor, "*n d_in"],
        weight: Float[Tensor, "d_out d_in"],
        bias: Float[Tensor, " d_out"] | None = None,
    ) -> Float[Tensor, "*n d_out"]:
        if not self.suits(x, weight):
            return torch.nn.functional.linear(x, weight, bias)
        kept = self._packed
        if kept is None or kept.made_of != weight_mark(weight) or kept.weight.shape != weight.shape:
            kept = self._packed = PackedLinear(weight)  # it keeps the weight, so that no other begins at its address
        parts = [kept(part, bias) for part in x.flatten(0, -2).split(MAX_ROWS)]
        y = parts[0] if len(parts) == 1 else torch.cat(parts)
        return y.view(*x.shape[:-1], y.shape[-1])


def can_find_top(n: int, v: int, k: int) -> bool:
    """Whether :func:`find_top_log_probs` supports ``n`` rows of ``v`` words and is faster than a log-softmax."""
    threads = torch.get_num_threads()
    return v >= MIN_WIDTH and 0 < k <= min(MAX_K, v) and (threads == 1 or n >= 8 * threads)


def find_top_log_probs(
    x: Float[Tensor, "n d_in"], panels: np.ndarray, first: np.ndarray, k: int
) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
    """The ``k`` largest values of a log-softmax in descending order, and their indices.

    Args:
        x: the vectors.
        panels: the weights of all words, in panels of floats or of bytes.
        first: the biases, as wide as all panels, -inf where there is no word.
        k: the number of values of each row.
    """
    from catena.kernels.linear.cpu_top import top_log_probs, top_log_probs8

    rows = np.ascontiguousarray(x.detach().numpy())
    values = np.empty((len(rows), k), np.float32)
    places = np.empty((len(rows), k), np.int64)
    eight = panels.dtype == np.int8
    find = top_log_probs8 if eight else top_log_probs
    work = len(rows) * panels.size // (4 if eight else 1)  # four multiplications of bytes take the time of one
    in_row_blocks(lambda low, high: find(rows, panels, first, values, places, low, high), len(rows), work)
    return torch.from_numpy(values), torch.from_numpy(places)


def widen_bias(bias: Float[Tensor, " v"] | None, v: int, wide: int) -> Float[np.ndarray, " wide"]:
    """A bias of ``v`` numbers as wide as all panels, -inf where they are wider than the matrix."""
    first = np.full(wide, -np.inf, np.float32)
    first[:v] = 0.0 if bias is None else bias.detach().numpy()
    return first


def weight_mark(weight: Tensor) -> tuple[int, int]:
    """What differs after a weight was replaced or changed in place, as long as you keep the weight."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version
