"""Fast implementations that models look up by name.

The engine is above the models in the layers of the package, so that models do not import it. A model looks up an
accelerator, which is imported on first use and returns None if it does not support a model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

_ACCELERATORS = {"encoder": "catena.engine.encoder:compile_encoder", "decoder": "catena.engine.decoder:compile_decoder"}


@cache
def accelerator(name: Literal["encoder", "decoder"]) -> Callable[..., Any]:
    """The function that compiles a model, or returns None if it does not support it."""
    module, _, function = _ACCELERATORS[name].partition(":")
    return getattr(importlib.import_module(module), function)
