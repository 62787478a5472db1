"""Checks that the drawing functions share: arrays of the right shape, names as many as things. No torch is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from catena.errors import DataError, ShapeError

NumberSequence: TypeAlias = Any
"""Anything :func:`numpy.asarray` takes: nested sequences, an array, a tensor on the CPU."""


RealNumber: TypeAlias = int | float
"""One number, whole or not."""


def array(name: str, values: NumberSequence, axes: str) -> Float[np.ndarray, "..."]:
    """Numbers as a float64 array with the axes of a string such as ``"t k"``; infinite is fine, nan is not."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"{name} must be numbers with the axes [{_listed(axes)}], but they are not: {error}"
        ) from error
    if found.ndim != len(axes.split()):
        raise ShapeError(f"{name} must have the axes [{_listed(axes)}], but the shape is {list(found.shape)}")
    if np.isnan(found).any():
        where = [int(i) for i in np.argwhere(np.isnan(found))[0]]
        raise DataError(f"{name} must not hold nan, but {name}{where} is nan")
    return found


def _listed(axes: str) -> str:
    return ", ".join(axes.split())


def check_shape(name: str, found: Float[np.ndarray, "..."], wanted: Sequence[int], why: str) -> None:
    """Refuse an array whose shape is not the one that the other arguments ask for."""
    if list(found.shape) != list(wanted):
        raise ShapeError(f"{name} must have the shape {list(wanted)} ({why}), but its shape is {list(found.shape)}")


def check_count(name: str, found: int, wanted: int, of: str) -> None:
    """Refuse a list that is not as long as what it belongs to."""
    if found != wanted:
        raise ShapeError(f"{name} must have one entry for each of the {wanted} {of}, but it has {found}")


def check_some(name: str, found: Sequence[Any]) -> None:
    """Refuse to draw nothing."""
    if not len(found):
        raise DataError(f"there is nothing to draw: {name} is empty")


def check_probabilities(name: str, found: Float[np.ndarray, "..."]) -> None:
    """Refuse numbers that are no probabilities; a rounding error of one in a million is forgiven."""
    wrong = np.argwhere((found < -1e-6) | (found > 1 + 1e-6))
    if len(wrong):
        where = [int(i) for i in wrong[0]]
        raise DataError(
            f"{name} must be probabilities, from 0 to 1, but {name}{where} is {found[tuple(wrong[0])]:g}; "
            f"scores are turned into probabilities by the marginals of their structure"
        )
