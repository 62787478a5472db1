"""The one switch between the plain programs, which define right, and their fast twins.

    with use_backend("reference"):
        chain.log_partition()

``"auto"`` (the default) takes a kernel where one serves the question, the device and the dtype; ``"kernels"``
takes it or says why it cannot; ``"reference"`` never does.
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

_chosen: ContextVar[_Backend] = ContextVar("catena_backend", default="auto")


@contextmanager
def use_backend(backend: str) -> Iterator[None]:
    """Answer the questions inside the ``with`` block by this backend. Blocks may be nested;

    Threads do not share it.
    """
    if backend not in get_args(_Backend):
        raise ValueError(f"no backend is called {backend!r}: {did_you_mean(backend, get_args(_Backend))}")
    token = _chosen.set(cast(_Backend, backend))
    try:
        yield
    finally:
        _chosen.reset(token)


def _choice() -> _Backend:
    """The chosen backend. torch.compile cannot follow a context variable, and takes what it holds while tracing."""
    return _chosen.get()


# torch.compiler.assume_constant_result sets this mark, and imports the whole compiler to do so, which takes seconds.
_choice._dynamo_marked_constant = True  # type: ignore[attr-defined]


def can_use_kernels(*tensors: Tensor | None) -> bool:
    """Whether a CPU kernel may answer for these tensors."""
    chosen = _choice()
    if chosen == "reference":
        return False
    if torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return False  # torch.compile cannot trace torch.func through an autograd function; the plain program it can
    given = [x for x in tensors if x is not None]
    if any(x.numel() == 0 for x in given):  # an empty batch: nothing to be fast at
        return False
    fit = all(x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) for x in given)
    if chosen == "kernels" and not fit:
        kinds = sorted({f"{x.dtype} on {x.device.type}" for x in given})
        raise ValueError(
            f"the backend 'kernels' serves float32 and float64 on the CPU, but the scores are "
            f"{', '.join(kinds)}: use the backend 'auto' or 'reference'"
        )
    return fit
