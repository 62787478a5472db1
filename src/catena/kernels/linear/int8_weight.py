"""Weights that are held in 8 bits, in the place of float ones.

An :class:`Int8Weight` behaves like a matrix of its shape and takes a quarter of the memory. A linear map with it is
an integer product (:mod:`catena.kernels.linear.cpu_int8`); a row of a table is converted to floats on access;
columns that are taken, and matrices that are joined, stay in 8 bits. Whatever else is done with it is done with a float
copy that is dropped afterwards: right, and not fast. On a CPU, in single precision, without gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from catena.kernels.common.threads import in_row_blocks
from catena.kernels.linear.ops import can_find_top, find_top_log_probs, widen_bias

LONGEST = 2**31 // 127**2
"""Numbers of a row at most: the sums of more might not fit into 32 bits."""


class Int8Matrix:
    """A matrix ``d_out d_in`` in panels of bytes; see :func:`catena.kernels.linear.cpu_int8.packed8`."""

    def __init__(self, numbers: np.ndarray, scales: np.ndarray) -> None:
        from catena.kernels.linear.cpu_int8 import packed8

        self.d_out, self.d_in = numbers.shape
        self.panels = packed8(numbers, scales)
        self.wide = len(self.panels) * (self.panels.shape[2] // 4)
        self.parts: dict[tuple[int, int], Int8Matrix] = {}

    @staticmethod
    def of(weight: Tensor) -> Int8Matrix:
        """The nearest numbers to a matrix of floats."""
        from catena.kernels.linear.cpu_int8 import quantize_rows

        return Int8Matrix(*quantize_rows(weight.detach().cpu().float().numpy()))

    @staticmethod
    def joined(matrices: Sequence[Int8Matrix]) -> Int8Matrix:
        """The rows of several, one after another."""
        parts = [matrix.numbers() for matrix in matrices]
        return Int8Matrix(np.concatenate([one for one, _ in parts]), np.concatenate([scales for _, scales in parts]))

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers, ``d_out d_in``, and the scales of the rows."""
        from catena.kernels.linear.cpu_int8 import unpacked8

        numbers, scales = unpacked8(self.panels, np.arange(self.d_out))
        return numbers[:, : self.d_in], scales

    def columns(self, low: int, high: int) -> Int8Matrix:
        """Neighboring columns, cached, because a decoder uses the same ones at every step."""
        if (low, high) not in self.parts:
            numbers, scales = self.numbers()
            self.parts[low, high] = Int8Matrix(numbers[:, low:high], scales)
        return self.parts[low, high]

    def rows(self, ids: Tensor) -> Tensor:
        """Rows as floats, ``*ids d_in``."""
        from catena.kernels.linear.cpu_int8 import unpacked8

        wanted = ids.flatten().numpy()
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.d_out:  # zeros fill the last panel
            raise IndexError(
                f"ids must be 0 to {self.d_out - 1}, got {wanted.min()} to {wanted.max()}. Check the vocabulary size."
            )
        numbers, scales = unpacked8(self.panels, wanted)
        found = torch.from_numpy(numbers[:, : self.d_in] * scales[:, None])
        return found.view(*ids.shape, self.d_in)

    def floats(self) -> Tensor:
        """The whole matrix in single precision."""
        numbers, scales = self.numbers()
        return torch.from_numpy(numbers.astype(np.float32) * scales[:, None])

    def linear(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x wᵀ + bias, for ``x`` of ``... d_in``."""
        y = self._product(x.reshape(-1, self.d_in), bias)[:, : self.d_out]
        return torch.from_numpy(y).reshape(*x.shape[:-1], self.d_out)

    def is_current(self, weight: Tensor) -> bool:
        """Whether this is the matrix."""
        return isinstance(weight, Int8Weight) and weight.matrix is self

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def can_find_top(self, n: int, k: int) -> bool:
        """Whether :meth:`top_log_probs` supports ``n`` rows and is faster than a log-softmax of all words."""
        return can_find_top(n, self.d_out, k)

    def top_log_probs(self, x: Tensor, bias: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` largest values of the log-softmax of x wᵀ + bias in descending order, and their indices.

        Ties are ordered by index.
        """
        return find_top_log_probs(x, self.panels, widen_bias(bias, self.d_out, self.wide), k)

    def _product(self, x: Tensor, bias: Tensor | None) -> np.ndarray:
        """x wᵀ + bias, as wide as the panels."""
        from catena.kernels.linear.cpu_int8 import HEAD, multiply8, quantize

        rows = np.ascontiguousarray(x.detach().numpy())
        panels = self.panels
        n = len(rows)
        first = widen_bias(bias, self.d_out, self.wide)
        q = np.empty((n, 4 * (panels.shape[1] - HEAD)), np.uint8)
        scales = np.empty(n, np.float32)
        quantize(rows, q, scales)
        y = np.empty((n, self.wide), np.float32)
        work = n * panels.size // 4  # four multiplications take the time of one
        in_row_blocks(lambda low, high: multiply8(y, q, panels, scales, first, low, high), len(panels), work)
        return y


class Int8Weight(Tensor):
    """A matrix of 8 bits that stands where a float one stood.

    Args:
        matrix: the numbers.
        turned: whether this is its transpose, ``d_in d_out``.
    """

    matrix: Int8Matrix
    turned: bool

    @staticmethod
    def __new__(cls: type[Int8Weight], matrix: Int8Matrix, turned: bool = False) -> Int8Weight:
        shape = (matrix.d_in, matrix.d_out) if turned else (matrix.d_out, matrix.d_in)
        made: Int8Weight = Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)
        made.matrix = matrix
        made.turned = turned
        return made

    def floats(self) -> Tensor:
        """The matrix as a plain tensor."""
        made = self.matrix.floats()
        return made.t() if self.turned else made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Int8Weight({tuple(self.shape)})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Int8Weight, (self.matrix, self.turned)

    def __deepcopy__(self, memo: Any) -> Int8Weight:
        return self  # nothing ever changes it

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        named = named or {}
        known = _KNOWN.get(function)
        if known is not None:
            found = known(*given, **named)
            if found is not NotImplemented:
                return found
        with torch._C.DisableTorchFunctionSubclass():
            if function in _WHOLE:
                given, named = tree_map(_plain, (given, named))
            return function(*given, **named)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, types: Any, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        if operation is torch.ops.aten.detach.default:
            return Int8Weight(given[0].matrix, given[0].turned)
        named = named or {}
        for i, taken in enumerate(operation._schema.arguments):
            written = taken.alias_info is not None and taken.alias_info.is_write
            if written and isinstance(given[i] if i < len(given) else named.get(taken.name), Int8Weight):
                raise TypeError("weights of 8 bits cannot be changed: load the model without quantization for that")
        given, named = tree_map(_plain, (given, named))
        return operation(*given, **named)


def pack_panels(matrix: Tensor) -> np.ndarray:
    """A matrix ``d_in d_out`` laid out for compiled products: panels of bytes where it is of 8 bits, else of floats."""
    from catena.kernels.linear.cpu import pack_panels

    if isinstance(matrix, Int8Weight):
        return matrix.matrix.panels if matrix.turned else Int8Matrix.of(matrix.floats().t()).panels
    return pack_panels(matrix.numpy())


def _plain(x: Any) -> Any:
    return x.floats() if isinstance(x, Int8Weight) else x


# --- what is done without a float copy --------------------------------------------------------------------------------
def _taken(x: Any, w: Any, turned: bool) -> bool:
    """Whether these are vectors and a matrix of 8 bits that maps them."""
    plain = isinstance(x, Tensor) and not isinstance(x, Int8Weight)
    return plain and x.dtype == torch.float32 and isinstance(w, Int8Weight) and w.turned is turned


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    return weight.matrix.linear(x, bias) if _taken(x, weight, turned=False) else NotImplemented  # type: ignore[attr-defined]


def _times(x: Tensor, w: Tensor) -> Any:
    return w.matrix.linear(x) if _taken(x, w, turned=True) else NotImplemented  # type: ignore[attr-defined]


def _added_times(first: Tensor, x: Tensor, w: Tensor, *, out: Tensor | None = None, **more: Any) -> Any:
    if more or not _taken(x, w, turned=True):
        return NotImplemented
    if first.dim() == 1:
        found = w.matrix.linear(x, first)  # type: ignore[attr-defined]
    else:
        found = w.matrix.linear(x).add_(first)  # type: ignore[attr-defined]
    return found if out is None else out.copy_(found)


def _embedding(ids: Tensor, weight: Tensor, *more: Any, **others: Any) -> Any:
    return weight.matrix.rows(ids) if isinstance(weight, Int8Weight) and not weight.turned else NotImplemented


def _item(weight: Tensor, index: Any) -> Any:
    """Rows by their numbers, or neighboring columns."""
    if not isinstance(weight, Int8Weight) or weight.turned:
        return NotImplemented
    if isinstance(index, Tensor) and index.dtype == torch.int64:
        return weight.matrix.rows(index.where(index >= 0, index + weight.matrix.d_out))  # below 0: from the end
    if isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None) and isinstance(index[1], slice):
        low, high, step = index[1].indices(weight.matrix.d_in)
        if step == 1 and high > low:
            return Int8Weight(weight.matrix.columns(low, high))
    return NotImplemented


def _turned(weight: Tensor, *more: Any) -> Any:
    return Int8Weight(weight.matrix, not weight.turned) if isinstance(weight, Int8Weight) else NotImplemented


def _itself(weight: Tensor, *more: Any, **named: Any) -> Any:
    same = not named and all(one == torch.float32 for one in more)
    return weight if same and isinstance(weight, Int8Weight) else NotImplemented


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    if dim != 0 or not all(isinstance(one, Int8Weight) and not one.turned for one in tensors):
        return NotImplemented
    return Int8Weight(Int8Matrix.joined([one.matrix for one in tensors]))  # type: ignore[attr-defined]


def _place(weight: Tensor) -> Any:
    return weight.matrix.panels.ctypes.data if isinstance(weight, Int8Weight) else NotImplemented


_KNOWN: dict[Any, Callable[..., Any]] = {
    F.linear: _linear,
    F.embedding: _embedding,
    torch.addmm: _added_times,
    torch.mm: _times,
    torch.matmul: _times,
    Tensor.matmul: _times,
    Tensor.__matmul__: _times,
    torch.cat: _joined,
    Tensor.t: _turned,
    Tensor.T.__get__: _turned,  # type: ignore[attr-defined]
    Tensor.detach: _itself,
    Tensor.contiguous: _itself,
    Tensor.to: _itself,
    Tensor.__getitem__: _item,
    Tensor.data_ptr: _place,
}
_WHOLE = {torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh, torch._VF.rnn_relu, Tensor.numpy}
"""Operations that need the floats of one matrix many times: they are converted once."""
