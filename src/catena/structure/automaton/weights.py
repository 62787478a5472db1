"""Operations on semiring elements other than ⊕ and ⊗: logs, division and comparison with zero.

Tested in tests/structure/automaton/test_epsilon.py and tests/structure/automaton/test_failures.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from catena.numerics import NEG_INF, safe_log
from catena.structure.semirings import (
    BooleanSemiring,
    CountingSemiring,
    LogSemiring,
    MaxSemiring,
    RealSemiring,
    SamplingSemiring,
    Semiring,
    TropicalSemiring,
)

_Elements = Shaped[Tensor, "..."]

_LOGS: dict[type[Semiring], Callable[[Tensor], Tensor]] = {
    LogSemiring: lambda x: x,
    MaxSemiring: lambda x: x,
    SamplingSemiring: lambda x: x,
    TropicalSemiring: lambda x: -x,
    RealSemiring: safe_log,
    CountingSemiring: safe_log,
    BooleanSemiring: lambda x: torch.where(x, 0.0, NEG_INF),
}


def log_weights(semiring: Semiring, x: _Elements) -> Float[Tensor, "..."]:
    """The scores (log-weights) of elements, the inverse of ``lift``."""
    if type(semiring) not in _LOGS:
        raise TypeError(
            f"{type(semiring).__name__} has no log-weights to convert to another semiring. Start from an automaton "
            f"over {', '.join(sorted(kind.__name__ for kind in _LOGS))}."
        )
    return _LOGS[type(semiring)](x)


def _difference(a: Tensor, b: Tensor) -> Tensor:
    gone = b.isinf()
    return torch.where(gone, a, a - torch.where(gone, 0.0, b))


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == 0, a, a / torch.where(b == 0, 1.0, b))


_QUOTIENTS: dict[type[Semiring], Callable[[Tensor, Tensor], Tensor]] = {
    LogSemiring: _difference,
    MaxSemiring: _difference,
    TropicalSemiring: _difference,
    RealSemiring: _quotient,
    BooleanSemiring: lambda a, b: a & b,
}


def divide(semiring: Semiring, a: _Elements, b: _Elements) -> _Elements:
    """The element c with b ⊗ c = a; zero if a is zero, which holds if b is."""
    if type(semiring) not in _QUOTIENTS:
        raise TypeError(
            f"{type(semiring).__name__} has no division, which pushing and determinization need. Use one of "
            f"{', '.join(sorted(kind.__name__ for kind in _QUOTIENTS))}."
        )
    found = _QUOTIENTS[type(semiring)](a, b)
    return torch.where(is_invalid(semiring, found) & ~is_nonzero(semiring, a), a, found)


def numbers(semiring: Semiring, x: _Elements) -> Float[Tensor, "..."]:
    """Elements as floats that ⊗ adds (multiplies in the real semiring), where larger means more weight."""
    return x if isinstance(semiring, RealSemiring) else log_weights(semiring, x)


def from_numbers(semiring: Semiring, x: Float[Tensor, "..."], dtype: torch.dtype) -> _Elements:
    """The inverse of :func:`numbers`."""
    return (x if isinstance(semiring, RealSemiring) else semiring.lift(x)).to(dtype)


def multiply(semiring: Semiring, a: _Elements, b: _Elements) -> _Elements:
    """a ⊗ b; zero if one of them is zero and the other nan or infinite, although -inf plus nan is nan."""
    found = semiring.mul(a, b)
    lost = is_invalid(semiring, found) & ~(is_nonzero(semiring, a) & is_nonzero(semiring, b))
    return torch.where(lost, semiring.zero(semiring.shape(found), found), found)


def is_nonzero(semiring: Semiring, x: _Elements) -> Bool[Tensor, "..."]:
    """Mask of the elements that are not zero; nan counts as nonzero."""
    x = x.detach()
    if semiring.width is None:
        return x != semiring.constant(NEG_INF, x)
    return (x != semiring.zero(semiring.shape(x), x)).any(0)


def is_invalid(semiring: Semiring, x: _Elements) -> Bool[Tensor, "..."]:
    """Mask of the elements with a weight of nan or +inf."""
    weight = x.detach() if semiring.width is None else x.detach()[0]
    if not weight.is_floating_point():
        return torch.zeros_like(weight, dtype=torch.bool)
    return ~(weight > -torch.inf) if isinstance(semiring, TropicalSemiring) else ~(weight < torch.inf)


def nonzero(semiring: Semiring, x: _Elements) -> Bool[np.ndarray, " n"]:
    """Mask of the entries of the last axis that are nonzero in any row of the batch."""
    found = is_nonzero(semiring, x)
    return found.reshape(math.prod(found.shape[:-1]), found.shape[-1]).any(0).cpu().numpy()


def same_semiring(a: Semiring, b: Semiring) -> bool:
    """Whether the elements of two semirings are the same."""
    return type(a) is type(b) and a.width == b.width
