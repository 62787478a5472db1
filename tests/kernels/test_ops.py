"""Torch operators from kernels: registration, missing derivatives, and no tracing of kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.kernels.common.ops import TorchOperator, fold_vmap, torch_operator


@torch_operator("test_double_rows")
def double_rows(x: Tensor, n: int) -> Tensor:
    """Twice each row, plus n."""
    return torch.from_numpy(2 * x.detach().numpy() + n)


double_rows.register_fake(lambda x, n: torch.empty_like(x))
fold_vmap(double_rows)


def test_operator_keeps_kernel_and_docstring() -> None:
    assert isinstance(double_rows, TorchOperator)
    assert double_rows.__doc__ == "Twice each row, plus n."
    assert double_rows(torch.ones(2), 1).tolist() == double_rows.kernel(torch.ones(2), 1).tolist() == [3.0, 3.0]
    torch.library.opcheck(double_rows.overload, (torch.ones(3), 2), test_utils=("test_schema", "test_faketensor"))


def test_vmap_folds_mapped_axis_into_rows() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(torch.vmap(lambda row: double_rows(row, 1), in_dims=1)(x), 2 * x.T + 1)


def test_backward_without_derivative_raises() -> None:
    result = double_rows(torch.ones(2, requires_grad=True), 1)
    with pytest.raises(RuntimeError, match="catena::test_double_rows has no derivative"):
        result.sum().backward()


def test_compiled_code_does_not_trace_kernels_of_untraced_functions() -> None:
    import torch._dynamo.testing  # two seconds

    @torch._dynamo.disable(recursive=False)
    def untraced(x: Tensor) -> Tensor:
        return double_rows.overload(x, 1)

    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda x: untraced(x + 1) * 2, backend=counter)
    assert compiled(torch.ones(2)).tolist() == [10.0, 10.0]
    assert counter.frame_count == 2  # before and after the call of untraced
