"""A word to the processor: this place of memory will be read soon. Nothing depends on it but the time it takes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Begin to fetch ``array[index]`` into the cache."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        read, keep, data_cache = number(0), number(3), number(1)
        builder.call(function, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


prefetch: Any = intrinsic(_prefetch)
