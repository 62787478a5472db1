"""Texts and labels of any type that users pass to estimators, and the classes of their models.

Models identify classes by names, which are strings. Users have integers, booleans, tuples or an indicator matrix, and
expect the same type back. Needs neither scikit-learn nor pandas; arrays, data frames and sparse matrices of any library
are recognized by their shape.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from catena.errors import DataError

_E = TypeVar("_E", bound=Any)

_Form = Literal["single", "sets", "indicator"]
"""One label for each example, a list of labels, or a row of 0 and 1."""


# --- texts ------------------------------------------------------------------------------------------------------------


def as_texts(X: Any) -> list[str]:
    """Return texts from a list, a generator, an array, a series, or a table of one column."""
    if isinstance(X, str):
        raise DataError(f"X must be a list of texts, got one text: {X!r:.60}. Put it in a list.")
    texts = list(_column("X", X))
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {i} must be a string, got {type(text).__name__}. Pass a list of strings.")
    return texts


def as_items(values: Any) -> Any:
    """The items of what users pass: the cells of a table of one column, or else the values as they are.

    Raises:
        DataError: for a dictionary and for a data frame of several columns, which would give their keys.
    """
    if isinstance(values, Mapping):
        raise DataError(
            f"X must be a list, got a {type(values).__name__}. Pass list(X.values()), or a list of its keys."
        )
    is_frame = hasattr(values, "columns")
    shape = _shape(values)
    is_texts = (
        len(shape) == 2 and shape[1] == 1 and getattr(getattr(values, "dtype", None), "kind", "") in ("U", "O", "T")
    )
    return _column("X", values) if is_frame or is_texts else values


def check_same_length(inputs: Sized, outputs: Sized, one_input: str, one_output: str) -> None:
    """Raise DataError if ``y`` has not one output for each input of ``X``, which are named in the singular."""
    if len(inputs) != len(outputs):
        raise DataError(
            f"y must have one {one_output} per {one_input} ({len(inputs)}), got {len(outputs)}. Pass one for each."
        )


def weigh_examples(examples: Sequence[_E], sample_weight: Any) -> list[_E]:
    """The examples with their weights, without those of weight 0.

    Args:
        examples: values with a field ``weight``.
        sample_weight: a number of at least 0 for each example; None for equal weights.
    """
    if sample_weight is None:
        return list(examples)
    if examples and not hasattr(examples[0], "weight"):
        raise DataError("sample_weight must be None for pictures and sounds, got weights. Leave it out.")
    given = sample_weight if hasattr(sample_weight, "__array__") else list(sample_weight)
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"sample_weight must be numbers, got {given!r:.60}. Pass one for each example.") from None
    if weights.shape != (len(examples),):
        raise DataError(
            f"sample_weight must have shape ({len(examples)},), got {weights.shape}. Pass one number for each example."
        )
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise DataError(
            f"sample_weight must be finite and at least 0, got {weights[wrong[0]]} at {wrong[0]}. Correct it."
        )
    if not weights.any():
        raise DataError("sample_weight must have a positive number, got only 0. Give some example a weight.")
    pairs = zip(examples, weights.tolist(), strict=True)
    return [replace(example, weight=weight) for example, weight in pairs if weight > 0]


def _column(name: str, values: Any) -> Iterable[Any]:
    """The values; a table of one column becomes a list."""
    shape = _shape(values)
    if len(shape) < 2:
        return values
    if len(shape) == 2 and shape[1] == 1:
        return _array(values)[:, 0].tolist()
    raise DataError(f"{name} must be a list or one column, got shape {shape}. Pass one column of it.")


def _shape(values: Any) -> tuple[int, ...]:
    """The shape of an array, a data frame or a sparse matrix; () for anything else."""
    shape = getattr(values, "shape", ())
    return tuple(shape) if isinstance(shape, tuple) else ()


def _array(values: Any) -> np.ndarray:
    for name in ("toarray", "to_numpy"):
        if hasattr(values, name):
            return np.asarray(getattr(values, name)())
    return np.asarray(values)


# --- labels -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """The labels of each example as a list, and the form in which the user gave them."""

    rows: list[list[Any]]
    form: _Form
    n_columns: int = 0
    """Number of columns of an indicator matrix."""


def as_targets(y: Any, several: bool) -> Targets:
    """Read labels: one per example, a list per example, or an indicator matrix of 0 and 1.

    Args:
        y: a list, a generator, an array, a series or a table. A numeric table of several columns is an indicator
            matrix, as in scikit-learn.
        several: whether each element of ``y`` is a list of labels.
    """
    shape = _shape(y)
    if len(shape) == 2 and shape[1] != 1:
        table = _array(y)
        if table.dtype.kind in "biuf":
            return _from_indicator(table)
        if not several:
            raise DataError(f"y must be a list or one column, got shape {shape}. Pass one column of it.")
        y = table.tolist()
    listed = list(_column("y", y))
    for i, labels in enumerate(listed):
        if several and isinstance(labels, str):
            raise DataError(
                f"label {i} must be a list of labels with multilabel=True, got {labels!r}. Pass [{labels!r}]."
            )
        if not several and isinstance(labels, list | set | np.ndarray):
            raise DataError(
                f"label {i} must be one label, got a {type(labels).__name__}: {labels!r:.60}. Set multilabel=True, or "
                f"pass one label."
            )
    _check_present(enumerate(listed))
    rows = [list(labels) for labels in listed] if several else [[label] for label in listed]
    _check_present((i, label) for i, row in enumerate(rows) for label in row)
    return Targets(rows, "sets" if several else "single")


def _from_indicator(table: np.ndarray) -> Targets:
    wrong = table[(table != 0) & (table != 1)]
    if wrong.size:
        raise DataError(
            f"y with shape {table.shape} must be an indicator matrix of 0 and 1, got {wrong.flat[0]}. Pass one column, "
            f"or a list of lists of labels with multilabel=True."
        )
    return Targets([np.flatnonzero(row).tolist() for row in table], "indicator", table.shape[1])


def _check_present(labels: Iterable[tuple[int, Any]]) -> None:
    missing = [(i, label) for i, label in labels if is_missing(label)]
    if missing:
        i, label = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"y must have a label for each text, got {label!r} at index {i}{more}. Leave these texts out, or give them "
            f"a label."
        )


def is_missing(label: Any) -> bool:
    """Return whether a label is None, nan, an empty string, or the missing value of a table library."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, str):
        return not label.strip()
    return isinstance(label, numbers.Real) and bool(label != label)


@dataclass(frozen=True)
class Classes:
    """The classes of an estimator: their original values and the names the model uses for them."""

    values: tuple[Any, ...]
    names: tuple[str, ...]
    form: _Form = "single"

    @classmethod
    def of(cls, targets: Targets) -> Classes:
        """The classes of targets, sorted if they can be."""
        if targets.form == "indicator":
            values: list[Any] = list(range(targets.n_columns))
        else:
            values = list({label: label for row in targets.rows for label in row})
            try:
                values.sort()
            except TypeError:
                values.sort(key=lambda value: (type(value).__name__, str(value)))
        return cls(tuple(map(_plain, values)), _names_of(values), targets.form)

    @classmethod
    def of_names(cls, names: Sequence[str], several: bool) -> Classes:
        """Classes whose values are their names."""
        return cls(tuple(names), tuple(names), "sets" if several else "single")

    def array(self) -> np.ndarray:
        """The values as a one-dimensional array, with a common type if they have one."""
        kinds = {_kind(value) for value in self.values}
        if len(kinds) == 1 and "other" not in kinds:
            return np.array(self.values)
        found = np.empty(len(self.values), object)
        found[:] = self.values
        return found

    def named(self, targets: Targets) -> list[list[str]]:
        """The names of the labels of each example; labels outside the classes keep their text."""
        name_of = dict(zip(self.values, self.names, strict=True))
        return [[name_of.get(_plain(label), str(label)) for label in row] for row in targets.rows]

    def to_json(self) -> dict[str, Any]:
        """Values for a JSON file; labels other than str, int, float, bool, bytes and tuples become their names."""
        kept = [value if _is_plain(value) else name for value, name in zip(self.values, self.names, strict=True)]
        return {"form": self.form, "names": list(self.names), "values": [_tagged(value) for value in kept]}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Classes:
        """The classes that :meth:`to_json` wrote."""
        return cls(tuple(map(_untagged, saved["values"])), tuple(saved["names"]), saved["form"])


def _names_of(values: Sequence[Any]) -> tuple[str, ...]:
    """A distinct name for each value: its text, or its repr if two values have the same text."""
    written = [str(value) for value in values]
    times = Counter(written)
    names = [
        repr(value) if times[name] > 1 and isinstance(value, str) else name
        for name, value in zip(written, values, strict=True)
    ]
    if len(set(names)) < len(names):
        names = [f"{name} ({i})" for i, name in enumerate(names)]
    return tuple(names)


def _plain(value: Any) -> Any:
    """A numpy scalar as the Python value that equals it."""
    return value.item() if isinstance(value, np.generic) else value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "str"
    return "number" if isinstance(value, int | float) else "other"


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bytes) or _kind(value) != "other"


def _tagged(value: Any) -> Any:
    """The value for JSON, with tuples and bytes as objects since JSON has neither."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {"tuple": [_tagged(part) for part in value]} if isinstance(value, tuple) else value


def _untagged(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return bytes.fromhex(value["bytes"]) if "bytes" in value else tuple(map(_untagged, value["tuple"]))
