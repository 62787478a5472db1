"""Export of trained models to formats that other programs run without this package."""

from typing import TYPE_CHECKING

from catena._lazy import lazy_exports

if TYPE_CHECKING:
    from catena.export.ctranslate2 import to_ctranslate2 as to_ctranslate2
    from catena.export.onnx import to_onnx as to_onnx

__all__ = [
    "to_ctranslate2",
    "to_onnx",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "to_ctranslate2": ".ctranslate2",
        "to_onnx": ".onnx",
    },
)
