"""Checks shared by the drawing functions, such as array shapes and numbers of names. Needs no torch.

Tested in tests/draw/test_curves.py and tests/draw/test_bars.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from catena.errors import DataError, ShapeError

NumberSequence: TypeAlias = Any
"""Any input of :func:`numpy.asarray`: nested sequences, an array, a CPU tensor."""


RealNumber: TypeAlias = int | float
"""An integer or a float."""


def array(name: str, values: NumberSequence, axes: str) -> Float[np.ndarray, "..."]:
    """Return float64 values with the axes of a string such as ``"t k"``. Infinity is allowed, nan is not."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"{name} must be numbers with the axes [{_listed(axes)}], got {type(values).__name__}: {error}. "
            "Pass a nested list or an array without gaps."
        ) from error
    if found.ndim != len(axes.split()):
        raise ShapeError(f"{name} must have the axes [{_listed(axes)}], got the shape {list(found.shape)}. Reshape it.")
    if np.isnan(found).any():
        where = [int(i) for i in np.argwhere(np.isnan(found))[0]]
        raise DataError(f"{name} must not contain nan, got nan at {name}{where}. Remove or replace that value.")
    return found


def _listed(axes: str) -> str:
    return ", ".join(axes.split())


def check_shape(name: str, found: Float[np.ndarray, "..."], wanted: Sequence[int], why: str) -> None:
    """Raise ShapeError if an array does not have the shape that the other arguments imply."""
    if list(found.shape) != list(wanted):
        raise ShapeError(f"{name} must have shape {list(wanted)} ({why}), got {list(found.shape)}. Reshape it.")


def check_count(name: str, found: int, wanted: int, of: str) -> None:
    """Raise ShapeError if a list has another length than the items it describes."""
    if found != wanted:
        raise ShapeError(f"{name} must have {wanted} entries, one per entry of {of}, got {found}. Make them equal.")


def check_some(name: str, found: Sequence[Any]) -> None:
    """Raise DataError if there is nothing to draw."""
    if not len(found):
        raise DataError(f"There is nothing to draw: {name} is empty. Pass at least one entry.")


def check_probabilities(name: str, found: Float[np.ndarray, "..."]) -> None:
    """Raise DataError if a value is not in [0, 1] up to a rounding error of 1e-6."""
    wrong = np.argwhere((found < -1e-6) | (found > 1 + 1e-6))
    if len(wrong):
        where = [int(i) for i in wrong[0]]
        raise DataError(
            f"{name} must be probabilities in [0, 1], got {found[tuple(wrong[0])]:g} at {name}{where}. "
            "Convert scores to probabilities with the marginals of their distribution."
        )
