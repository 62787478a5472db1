"""Torch operators that find the best structures of each row, the k best, and samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.ops import TorchOperator, fold_vmap, register_sampler
from catena.kernels.common.threads import in_row_blocks


class RowSearches:
    """Operators that search the structures of each row.

    All take the parameters of ``reference``, and call loops ``loop(*arrays, low, high, *results)`` for blocks of rows.

    Args:
        name: prefix of the names of the operators.
        reference: a function whose annotated parameters are the parameters of the operators. Rows, or groups of rows,
            are on the first axis of every tensor, and on the first axis of the first one there is one entry for each
            row.
        arrays: ``arrays(*arguments)`` returns what the loops read.
        shape: ``shape(*arguments)`` returns the sizes of the axes of one structure.
        work: ``work(*arguments)`` returns the number of multiplications of a search for the best of all rows.
    """

    def __init__(
        self,
        name: str,
        reference: Callable[..., Tensor],
        *,
        arrays: Callable[..., tuple[Any, ...]],
        shape: Callable[..., tuple[int, ...]],
        work: Callable[..., int],
    ) -> None:
        schema = torch.library.infer_schema(reference, mutates_args=())
        self.name = name
        self.parameters = schema[1 : schema.rindex(")")]
        self.arrays = arrays
        self.shape = shape
        self.work = work

    def best(self, best_rows: Callable[..., None]) -> TorchOperator:
        """The operator that returns the best structure of each row, from a loop with the result ``[b, *shape]``."""

        def best(*arguments: Any) -> Tensor:
            b = len(arguments[0])
            arrays = self.arrays(*arguments)
            found = torch.empty((b, *self.shape(*arguments)), dtype=torch.int64)
            result = found.numpy()
            in_row_blocks(lambda low, high: best_rows(*arrays, low, high, result), b, self.work(*arguments))
            return found

        op = TorchOperator(f"{self.name}_best", best, f"({self.parameters}) -> Tensor")
        op.register_fake(
            lambda first, *others: first.new_empty((first.shape[0], *self.shape(first, *others)), dtype=torch.int64)
        )
        fold_vmap(op)
        return op

    def top(self, top_rows: Callable[..., None]) -> TorchOperator:
        """The operator that returns the k best structures of each row, best first, and their number.

        Its last argument is k. The loop has the results ``[b, k, *shape]`` and ``[b]``.
        """

        def top(*arguments: Any) -> tuple[Tensor, Tensor]:
            *given, k = arguments
            b = len(given[0])
            arrays = self.arrays(*given)
            found = torch.empty((b, k, *self.shape(*given)), dtype=torch.int64)
            counts = torch.empty(b, dtype=torch.int64)
            results = found.numpy(), counts.numpy()
            in_row_blocks(lambda low, high: top_rows(*arrays, low, high, *results), b, 4 * k * self.work(*given))
            return found, counts

        def fake(*arguments: Any) -> tuple[Tensor, Tensor]:
            *given, k = arguments
            first = given[0]
            found = first.new_empty((first.shape[0], k, *self.shape(*given)), dtype=torch.int64)
            return found, first.new_empty(first.shape[0], dtype=torch.int64)

        op = TorchOperator(f"{self.name}_top", top, f"({self.parameters}, SymInt k) -> (Tensor, Tensor)")
        op.register_fake(fake)
        fold_vmap(op)
        return op

    def sample(self, sample_rows: Callable[..., None]) -> TorchOperator:
        """The operator that returns samples of each row, ``[n, b, *shape]``.

        Its last argument are uniform numbers in [0, 1), with samples and rows on the first two axes. The loop gets them
        before its result.
        """

        def sample(*arguments: Any) -> Tensor:
            *given, uniforms = arguments
            b = len(given[0])
            arrays = self.arrays(*given)
            found = torch.empty((*uniforms.shape[:2], *self.shape(*given)), dtype=torch.int64)
            results = uniforms.double().contiguous().numpy(), found.numpy()
            in_row_blocks(lambda low, high: sample_rows(*arrays, low, high, *results), b, 4 * self.work(*given))
            return found

        op = TorchOperator(f"{self.name}_sample", sample, f"({self.parameters}, Tensor uniforms) -> Tensor")
        register_sampler(op, self.shape)
        return op
