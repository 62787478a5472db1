"""Numba compilation on first use, cached on disk, and the array types that kernels take.

Argument types are declared in advance, so that a kernel is never compiled again for arrays of another layout.
:func:`lazy_jit` takes Numba types, such as :data:`DOUBLES2`, a contiguous float64 array with two axes. :func:`jit`
compiles a kernel for float32 and for float64 and takes letters:

    @jit("3", "i1", "f")
    def kernel(scores, lengths, minimum): ...

``1``, ``2``, ``3`` and so on are arrays of the kernel's dtype with that many axes; ``i1``, ``d1``, ``b1`` are arrays
of int64, float64 and booleans, ``c1`` and ``u1`` of int8 and uint8; ``f``, ``d``, ``i`` and ``b`` are scalars. All
arrays are contiguous. Tested in tests/kernels/test_jit.py, tests/kernels/test_four_rows.py and
tests/kernels/test_vector_math.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from types import FunctionType
from typing import Any, cast
from zlib import crc32

import numpy as np
from numba import boolean, float32, float64, int8, int32, int64, njit, types, uint8, uint64

TEXT = types.Array(uint8, 1, "C", readonly=True)
BYTES = types.Array(uint8, 1, "C")
FLAGS = types.Array(boolean, 1, "C")
READ_ONLY_INTS = types.Array(int32, 1, "C", readonly=True)
INTS, INTS2 = (types.Array(int32, n, "C") for n in (1, 2))
LONGS, LONGS2 = (types.Array(int64, n, "C") for n in (1, 2))
KEYS, KEYS2 = (types.Array(uint64, n, "C") for n in (1, 2))
FLOATS, FLOATS2 = (types.Array(float32, n, "C") for n in (1, 2))
DOUBLES, DOUBLES2, DOUBLES3, DOUBLES4 = (types.Array(float64, n, "C") for n in (1, 2, 3, 4))
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
        def ready() -> Any:
            return _kept(loop, arguments, options)

        def call(*values: Any) -> Any:
            return ready()(*values)

        # Without Numba's check of argument types, which takes 0.1 µs and more: other types end the process.
        call.entry_point = lambda: next(iter(ready().overloads.values())).entry_point  # type: ignore[attr-defined]
        call.__doc__ = loop.__doc__
        call.__name__ = loop.__name__
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

        call.__doc__ = loop.__doc__
        call.__name__ = loop.__name__
        call.__wrapped__ = loop  # type: ignore[attr-defined]
        return call

    return decorate


def _compile(
    loop: Callable[..., None], shapes: Collection[str], dtype: np.dtype[Any], fastmath: Collection[str]
) -> Callable[..., None]:
    signature = types.void(*(_type(shape, _REALS[dtype]) for shape in shapes))
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath) or False}
    return _kept(_named_after(loop, signature), signature, options)


def _named_after(loop: Callable[..., None], signature: Any) -> Callable[..., None]:
    """The same loop under a name of its own for each signature, so that each has its own files on the disk.

    Numba keeps the list of the signatures of a name in one file. If two processes compile two of them at the same time,
    the list may lead to the code of the other, and every later call fails.
    """
    plain = cast(FunctionType, loop)
    own = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    own.__qualname__ = f"{plain.__qualname__}_{crc32(str(signature).encode()):08x}"
    own.__module__ = plain.__module__
    return own


def _kept(loop: Callable[..., Any], signature: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """A loop compiled for one signature, from the disk if it is there."""
    try:
        return njit([signature], cache=True, **options)(loop)
    except RuntimeError:  # no folder can be written to
        return njit([signature], **options)(loop)


def _type(shape: str, real: Any) -> Any:
    kind = real if shape[0] in "f1234" else KINDS[shape[0]]
    return types.Array(kind, int(shape[-1]), "C") if shape[-1].isdigit() else kind
