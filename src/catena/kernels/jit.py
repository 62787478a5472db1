"""Loops that are compiled on first use and cached on disk.

The argument types are given in advance, so that nothing is ever compiled for arrays of another layout by accident: to
:func:`lazy_jit` as types (:mod:`catena.kernels.array_types`), to :func:`compiled`, which serves two dtypes, in
letters:

    @compiled("3", "i1", "f")
    def loop(scores, lengths, least): ...

``1``, ``2``, ``3``, ``4`` are arrays of the dtype with as many axes; ``i1``, ``d1``, ``b1`` (and so on)
arrays of integers, of float64 and of booleans, ``c1`` and ``u1`` of integers of 8 bits with a sign and without one;
``f``, ``d``, ``i`` and ``b`` are numbers of these kinds. All arrays are contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int8, int64, njit, types, uint8

KINDS = {"i": int64, "d": float64, "b": boolean, "c": int8, "u": uint8}
_REALS = {np.dtype(np.float32): float32, np.dtype(np.float64): float64}

SUMS = frozenset({"reassoc", "contract", "nsz", "arcp"})
"""Sums may be reordered and fused, as vector units want it; nothing is assumed about infinities or nan."""

MAXIMA = frozenset({"nnan", "nsz", "reassoc"})
"""Maxima may be taken in any order. Of nan in, any number may come out: let the nan reach the result another way."""


def jit_inline(fastmath: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a small function of a compiled loop. A call that is not inlined takes as long as 30 multiplications."""
    return njit(nogil=True, forceinline=True, error_model="numpy", fastmath=set(fastmath) or False)


def jit_function(fastmath: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a larger function of a compiled loop, which is called: inlining it would compile it many times over."""
    return njit(nogil=True, error_model="numpy", fastmath=set(fastmath) or False)


def lazy_jit(
    *arguments: Any, fastmath: Collection[str] = (), error_model: str = "python"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a loop that takes these types of arguments, and may return something."""
    options: dict[str, Any] = {"nogil": True, "error_model": error_model, "fastmath": set(fastmath) or False}

    def decorate(loop: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def ready() -> Callable[..., Any]:
            return _kept(loop, arguments, options)

        def call(*values: Any) -> Any:
            return ready()(*values)

        call.__doc__, call.__name__ = loop.__doc__, loop.__name__
        return call

    return decorate


def jit(*shapes: str, fastmath: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a loop that returns nothing. Its dtype, float32 or float64, is read off the first argument of a call."""

    def decorate(loop: Callable[..., None]) -> Callable[..., None]:
        by_dtype: dict[np.dtype[Any], Callable[..., None]] = {}

        def call(*arguments: Any) -> None:
            dtype = arguments[0].dtype
            if dtype not in by_dtype:
                by_dtype[dtype] = _compile(loop, shapes, dtype, fastmath)
            by_dtype[dtype](*arguments)

        call.__doc__, call.__name__ = loop.__doc__, loop.__name__
        return call

    return decorate


def _compile(
    loop: Callable[..., None], shapes: Collection[str], dtype: np.dtype[Any], fastmath: Collection[str]
) -> Callable[..., None]:
    signature = types.void(*(_type(shape, _REALS[dtype]) for shape in shapes))
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath) or False}
    return _kept(loop, signature, options)


def _kept(loop: Callable[..., Any], signature: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """A loop compiled for one signature, from the disk if it is there."""
    try:
        return njit([signature], cache=True, **options)(loop)
    except RuntimeError:  # no folder can be written to
        return njit([signature], **options)(loop)


def _type(shape: str, real: Any) -> Any:
    kind = real if shape[0] in "f1234" else KINDS[shape[0]]
    return types.Array(kind, int(shape[-1]), "C") if shape[-1].isdigit() else kind
