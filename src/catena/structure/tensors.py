"""Tensor helpers of all structured distributions: gradients, inference mode, masks of rows, random numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.numerics import NEG_INF

T = TypeVar("T")
_MethodT = TypeVar("_MethodT", bound=Callable[..., Any])


def outside_inference_mode(method: _MethodT) -> _MethodT:
    """Decorator of a method that differentiates, to make it correct in ``torch.inference_mode``.

    In inference mode torch 2.11 differentiates views incorrectly without an error, and no version of torch can save an
    inference tensor for a backward pass. The method runs outside inference mode on normal copies of ``self`` and its
    arguments. Also works for functions whose first argument is a dataclass of tensors.
    """

    @wraps(method)
    def run(self: Any, *args: Any) -> Any:
        if torch.compiler.is_compiling():  # torch.compile cannot trace the checks below
            return method(self, *args)
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False), torch.no_grad():  # the first of the two enables gradients
                return method(normal_copy(self), *map(normal_copy, args))
        if any(isinstance(x, Tensor) and x.is_inference() for x in vars(self).values()):
            return method(normal_copy(self), *map(normal_copy, args))
        return method(self, *args)

    return cast(_MethodT, run)


def normal_copy(value: T) -> T:
    """A tensor, or a dataclass of tensors, with every inference tensor cloned."""
    return map_tensors(lambda x: x.clone() if x.is_inference() else x, value)


def map_tensors(function: Callable[[Tensor], Tensor], value: T) -> T:
    """Apply a function to a tensor, or to all tensors of a dataclass and of the dataclasses it holds."""
    if isinstance(value, Tensor):
        return cast(T, function(value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    result = copy.copy(value)
    for field in fields(value):
        # Not the constructor: it would check and convert the fields a second time.
        object.__setattr__(result, field.name, map_tensors(function, getattr(value, field.name)))
    return result


def value_and_grad(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The value of a function and the gradients of its sum. It composes with vmap, no_grad and itself."""
    value, pull = vjp(function, *inputs)
    return value, pull(torch.ones_like(value))


def vjp(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
    """The value of a function, and the function that maps its gradient to gradients of the inputs."""
    if not _is_plain():
        return cast(Any, torch.func.vjp(function, *inputs))
    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        value = function(*leaves)

    def pull(gradient: Tensor) -> tuple[Tensor, ...]:
        if not value.requires_grad:  # an empty structure depends on no score
            return tuple(torch.zeros_like(x) for x in leaves)
        with torch.enable_grad():  # a scalar: torch imports sympy to compare the shapes of a value and its gradient
            total = (value * gradient).sum()
        return torch.autograd.grad(total, leaves, retain_graph=True, materialize_grads=True)

    return value.detach(), pull


def _is_plain() -> bool:
    """Whether nothing differentiates or transforms the result, so that torch.func is not needed.

    torch.func imports torch's compiler, which takes longer than to predict a few sentences.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return torch.autograd.forward_ad._current_level < 0


def fill_invalid_rows(structures: Tensor, spoiled: Tensor, front: int = 0) -> Tensor:
    """Structures with -1 in all invalid rows; ``front`` axes precede the batch axes."""
    behind = structures.dim() - front - spoiled.dim()
    return torch.where(spoiled.reshape(*spoiled.shape, *(1 for _ in range(behind))), -1, structures)


def expand_row_mask(rows: Tensor, gradients: Tensor, rank: int) -> Tensor:
    """A mask of rows that broadcasts to gradients with ``rank`` axes after the batch; any row if they are shared."""
    if gradients.shape[: gradients.dim() - rank] != rows.shape:
        return rows.any()
    return rows.reshape(*rows.shape, *(1 for _ in range(rank)))


def or_nan(x: Tensor, spoiled: Tensor) -> Tensor:
    """Values with nan where ``spoiled``, and a nan gradient there, which ``torch.where`` would not give."""
    return x * torch.where(spoiled, torch.nan, 1.0).to(x.dtype)


def neg_inf_to_zero(x: Tensor) -> Tensor:
    """Scores with 0 instead of -inf, because -inf minus -inf is nan."""
    return torch.where(x == NEG_INF, 0.0, x)


def or_zeros(x: Tensor | None, like: Tensor) -> Tensor:
    """``x``, or zeros like ``like`` if it is None."""
    return torch.zeros_like(like) if x is None else x


def uniform_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform random numbers in [0, 1) like ``x``; the generator may be on another device."""
    device = x.device if generator is None else generator.device
    return torch.rand(x.shape, dtype=x.dtype, device=device, generator=generator).to(x.device)


def uniform_numbers(*shape: int, generator: torch.Generator | None) -> Float[Tensor, "..."]:
    """Uniform random numbers in [0, 1), in float64, for sampling."""
    if generator is None:  # with an explicit generator=None, torch.compile cannot trace symbolic sizes
        return torch.rand(shape, dtype=torch.float64)
    return torch.rand(shape, dtype=torch.float64, generator=generator)


def random_seeds(*shape: int, generator: torch.Generator | None) -> Int[Tensor, "..."]:
    """Random 62-bit seeds for the random number generator of a kernel."""
    if generator is None:  # as above
        return torch.randint(2**62, shape)
    return torch.randint(2**62, shape, generator=generator)


def describe_fields(value: Any) -> str:
    """The class of a dataclass and its fields that are not None, with the dtype and shape of each tensor."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    shown = ", ".join(f"{name}={_describe(part)}" for name, part in found.items() if part is not None)
    return f"{type(value).__name__}({shown})"


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return type(value).__name__ if is_dataclass(value) else repr(value)
