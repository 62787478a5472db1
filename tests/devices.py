"""Tests that run on a device other than the CPU: their own tensors, and the models they make, are moved to it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from catena.search.stepper import Stepper
from catena.structure.tensors import map_tensors

T = TypeVar("T")


class TensorsOn(TorchFunctionMode):
    """Create the tensors of test code on a device, those of a seeded CPU generator too; not those of the package."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in _device_constructors() or kwargs.get("device") is not None:
            return func(*args, **kwargs)
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] == __name__ and frame.f_back:  # another of these modes, outside of this one
            frame = frame.f_back
        if not frame.f_globals["__name__"].startswith("tests."):
            return func(*args, **kwargs)
        made = func(*args, **kwargs | {"device": "cpu"})
        if made.requires_grad:
            return made.detach().to(self.device).requires_grad_()
        return made.to(self.device)


def moved(value: T, device: str) -> T:
    """A module, a tensor, or a stepper with all that it holds, on a device."""
    if isinstance(value, nn.Module | Tensor):
        return value.to(device)  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        parts = [moved(one, device) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)  # type: ignore[call-arg]
    if not isinstance(value, Stepper):
        return map_tensors(lambda x: x.to(device), value)
    result = copy.copy(value)
    for name, attribute in vars(value).items():
        setattr(result, name, moved(attribute, device))
    return result
