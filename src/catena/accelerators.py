"""Fast implementations that models look up by name, and whether compiled kernels are worth loading.

The engine is above the models in the layers of the package, so that models do not import it. A model looks up an
accelerator, which is imported on first use and returns None if it does not support a model.

Loading Numba and its kernels takes longer than to tag or parse a few sentences without them. A command that may have
few inputs runs in :func:`start_cold`. Tested in tests/test_accelerators.py.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

_ACCELERATORS = {"encoder": "catena.engine.encoder:compile_encoder", "decoder": "catena.engine.decoder:compile_decoder"}


@cache
def accelerator(name: Literal["encoder", "decoder"]) -> Callable[..., Any]:
    """The function that compiles a model, or returns None if it does not support it."""
    module, _, function = _ACCELERATORS[name].partition(":")
    return getattr(importlib.import_module(module), function)


COLD_MICROSECONDS = 300_000
"""Time that a command may spend on slow programs. To import Numba and load kernels takes two to four times as long."""

_left = 0


@contextmanager
def start_cold(microseconds: int = COLD_MICROSECONDS) -> Iterator[None]:
    """Context in which small computations run without compiled kernels, as long as no kernel is loaded.

    Results are the same up to rounding.

    Args:
        microseconds: the time that all of them may take together; then kernels are loaded.
    """
    global _left
    before, _left = _left, microseconds
    try:
        yield
    finally:
        _left = before


def can_skip_kernels(microseconds: int) -> bool:
    """Whether to compute without compiled kernels what takes about this time without them."""
    global _left
    if _left <= 0:
        return False
    _left = 0 if "numba" in sys.modules else _left - microseconds
    return _left > 0
