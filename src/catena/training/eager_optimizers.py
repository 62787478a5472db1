"""The optimizers of torch without the import of torch's compiler.

The methods of ``torch.optim`` are wrapped so that torch.compile does not trace them, and the first call of a wrapper
imports the compiler: 1,055 modules, 1.2 s of CPU time. The classes here call the wrapped functions directly; torch
itself is not changed. Tested in tests/training/test_eager_optimizers.py.
"""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch
from torch.optim import Optimizer

_Kind = TypeVar("_Kind", bound=Optimizer)
_WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def without_compiler(kind: type[_Kind]) -> type[_Kind]:
    """A subclass of an optimizer class that computes the same and does not import torch's compiler.

    Its ``step`` is not differentiable, and torch.compile must not trace its methods.
    """
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    step = inspect.unwrap(kind.step)
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(step)})
