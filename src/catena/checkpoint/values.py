"""JSON values of a run or a model, and checks of their types.

Tested in tests/test_checkpoint.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from catena.errors import CheckpointError


def read_json(path: Path) -> Any:
    """The value in a JSON file of a run. Raise CheckpointError if the file is damaged, a pipe or a device."""
    check_regular(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: it is not valid JSON. Copy the run again, or train again.") from None


def check_regular(path: Path) -> None:
    """Raise CheckpointError if a path exists and is not a regular file: reading a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is not a regular file. Copy the run again, or train again.")


def read_stored(path: Path, kind: Any) -> Any:
    """The value in a JSON file of a model. Raise CheckpointError if it has another type than the given one.

    Args:
        path: the file.
        kind: a type of JSON values, such as ``dict[str, int]``, ``tuple[str, int] | None`` or ``list[float]``, where
            floats are finite; for an object with known keys, the type of each key.
    """
    try:
        value = read_json(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}. Copy the model again.") from None
    misfit = find_misfit(value, kind)
    if misfit:
        raise CheckpointError(f"{path} is damaged: {misfit}. Copy the model again, or train again.")
    return value


def find_misfit(value: Any, kind: Any, name: str = "it") -> str:
    """The first part of a value that has another type, in words; empty if there is none.

    Args:
        value: a JSON value.
        kind: a type, as in :func:`read_stored`.
        name: the name of the value.
    """
    if isinstance(kind, Mapping):
        if not isinstance(value, dict):
            return f"{name} must be an object, got {value!r:.60}"
        missing = [key for key in kind if key not in value]
        if missing:
            return f"{name} must have the key {missing[0]!r}, got {list(value)!r:.60}"
        return _first(find_misfit(value[key], inner, key) for key, inner in kind.items())
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        found = [find_misfit(value, one, name) for one in inner]
        return "" if "" in found else found[0]
    if not isinstance(value, _CLASSES.get(origin or kind, origin or kind)) or (kind is not bool and value is True):
        return f"{name} must be {kind if origin else kind.__name__}, got {value!r:.60}"
    if origin is list and inner[0] in (str, int):  # fast, for long lists
        return "" if set(map(type, value)) <= {inner[0]} else f"{name} must list {inner[0].__name__} only"
    if origin is list:
        return _first(find_misfit(one, inner[0], f"{name}[{i}]") for i, one in enumerate(value))
    if origin is dict:
        return _first(find_misfit(one, inner[1], f"{name}[{key!r}]") for key, one in value.items())
    if origin is tuple:
        if len(value) != len(inner):
            return f"{name} must have {len(inner)} values, got {value!r:.60}"
        return _first(find_misfit(*pair, name) for pair in zip(value, inner, strict=True))
    return f"{name} must be finite, got {value}" if kind is float and not math.isfinite(value) else ""


_CLASSES: dict[Any, Any] = {float: (int, float), tuple: list, None: NoneType}
"""The classes of JSON values for types."""


def _first(misfits: Iterable[str]) -> str:
    return next(filter(None, misfits), "")
