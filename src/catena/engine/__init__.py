"""Fast CPU inference of whole networks: compiled decoding steps and 8-bit weights."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.engine.decoder import compile_decoder as compile_decoder
    from catena.engine.encoder import compile_encoder as compile_encoder
    from catena.engine.int8 import quantize_int8_ as quantize_int8_

__all__ = ["compile_decoder", "compile_encoder", "quantize_int8_"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "compile_decoder": ".decoder",
        "compile_encoder": ".encoder",
        "quantize_int8_": ".int8",
    },
)
