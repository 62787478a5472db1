"""Bytes by the eight: read as one number, mixed, and searched by their bits. Nothing here is known of text."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _eight(_: Any, data: Any, at: Any) -> Any:
    """``data[at : at + 8]`` as one number, the first byte its lowest. All eight must exist; this is not checked."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        begin = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(begin, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(address, align=1)

    return types.uint64(data, types.uint64), codegen


def _folded(_: Any, a: Any, b: Any) -> Any:
    """The product of two numbers of 64 bits, its upper half xor its lower half."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.xor(builder.trunc(builder.lshr(product, wide(64)), word), builder.trunc(product, word))

    return types.uint64(types.uint64, types.uint64), codegen


def _zeros(_: Any, x: Any) -> Any:
    """How many of the lowest bits of a number are 0; the number must not be."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), codegen


eight: Any = intrinsic(_eight)
folded: Any = intrinsic(_folded)
zeros: Any = intrinsic(_zeros)
