"""Choice between the reference programs in plain PyTorch and the CPU kernels.

    with use_backend("reference"):
        chain.log_partition()

``"auto"`` (the default) uses a kernel where one exists for the method, device and dtype. ``"kernels"`` raises if there
is none. ``"reference"`` never uses one. Tested in tests/structure/test_base.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from catena.registry import did_you_mean

_Backend = Literal["auto", "kernels", "reference"]

_DTYPES = (torch.float32, torch.float64)
_chosen: ContextVar[_Backend] = ContextVar("catena_backend", default="auto")


@contextmanager
def use_backend(backend: str) -> Iterator[None]:
    """Context manager that selects the implementation of all structured distributions.

    Blocks may be nested. The setting applies to the current thread only.

    Args:
        backend: ``"auto"`` uses kernels where they support the device and dtype, ``"kernels"`` requires them
            (ValueError otherwise), ``"reference"`` uses the plain PyTorch programs, which define the correct results.
    """
    if backend not in get_args(_Backend):
        raise ValueError(f"unknown backend {backend!r}: {did_you_mean(backend, get_args(_Backend))}")
    token = _chosen.set(cast(_Backend, backend))
    try:
        yield
    finally:
        _chosen.reset(token)


def _choice() -> _Backend:
    """The selected backend. torch.compile cannot trace a context variable and uses its value at trace time."""
    return _chosen.get()


# torch.compiler.assume_constant_result sets this attribute, but it imports the whole compiler, which takes seconds.
_choice._dynamo_marked_constant = True  # type: ignore[attr-defined]


def can_use_kernels(*tensors: Tensor | None) -> bool:
    """Whether the CPU kernels can be used for these tensors."""
    chosen = _choice()
    if chosen == "reference":
        return False
    if torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return False  # torch.compile cannot trace torch.func through an autograd function, only the reference program
    fit = True
    for x in tensors:
        if x is not None:
            if x.numel() == 0:  # an empty batch
                return False
            fit = fit and x.is_cpu and x.dtype in _DTYPES
    if chosen == "kernels" and not fit:
        kinds = sorted({f"{x.dtype} on {x.device.type}" for x in tensors if x is not None})
        raise ValueError(
            f"Scores must be float32 or float64 on the CPU for the backend 'kernels', got {', '.join(kinds)}. "
            "Use the backend 'auto' or 'reference'."
        )
    return fit
