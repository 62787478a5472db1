"""Lines of files as sets of points or tokens, with target positions if they are given."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text
from catena.errors import DataError

PointKind = Literal["points", "tokens"]
_CURE = (
    'Write JSON such as {"points": [[0.5, 0.25], [0.1, 0.9]], "target": [1, 0]}, with "tokens" instead of "points" '
    "for words, or points, a tab and positions, such as 0.5,0.25 0.1,0.9<TAB>1 0. Positions count from 0."
)


_GIVEN = SourceLocation("given", 1)
"""The location of items that do not come from a file."""


@dataclass(frozen=True)
class PointItem:
    """A set of points (tuples of floats) or tokens, and its target positions or None.

    ``words`` are the fields of a line of points as they are written, because they are tokens for a model of tokens.
    """

    things: tuple[Any, ...]
    target: tuple[int, ...] | None = None
    location: SourceLocation = _GIVEN
    words: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def kind(self) -> PointKind:
        return "tokens" if any(isinstance(thing, str) for thing in self.things) else "points"

    def as_kind(self, kind: PointKind) -> PointItem:
        """The item with its fields as tokens, if ``kind`` is ``"tokens"`` and it was read from fields."""
        return replace(self, things=self.words) if kind == "tokens" and self.words else self

    def text(self) -> str:
        """The points or tokens as one field of a tab-separated line."""
        if self.kind == "tokens":
            return " ".join(self.things)
        return " ".join(",".join(f"{x:.10g}" for x in point) for point in self.things)


def read_items(path: Path, encoding: str | None = None, kind: PointKind | None = None) -> Iterator[PointItem]:
    """The items of a file; a blank line is an empty item."""
    with open_text(path, encoding) as lines:
        for number, line in lines:
            yield parse(line, SourceLocation(str(path), number), kind)


def parse(line: str, location: SourceLocation, kind: PointKind | None = None) -> PointItem:
    """The item of one line. Fields of numbers are points, unless ``kind`` is ``"tokens"``."""
    try:
        return _object(line, location) if line.lstrip().startswith("{") else _fields(line, location, kind)
    except ValueError as error:
        raise bad_line(location.file, location.line, line, str(error), _CURE) from None


def _object(line: str, location: SourceLocation) -> PointItem:
    try:
        thing = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not JSON ({error})") from None
    if "tokens" in thing:
        things: tuple[Any, ...] = tuple(map(str, _list(thing["tokens"], "tokens")))
    elif "points" in thing:
        things = parse_points(_list(thing["points"], "points"))
    else:
        raise ValueError('has neither "points" nor "tokens"')
    target = thing.get("target")
    return PointItem(things, None if target is None else _positions(_list(target, "target")), location)


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"has a value of {key!r} that is not a list")
    return value


def _fields(line: str, location: SourceLocation, kind: PointKind | None) -> PointItem:
    things, tab, target = line.partition("\t")
    if "\t" in target:
        raise ValueError("has more than one tab")
    pieces = things.split()
    positions = _positions(target.split()) if tab else None
    if kind == "tokens" or (kind is None and not all(map(_is_point, pieces))):
        return PointItem(tuple(pieces), positions, location)
    return PointItem(parse_points([piece.split(",") for piece in pieces]), positions, location, tuple(pieces))


def _is_point(piece: str) -> bool:
    try:
        return bool([float(x) for x in piece.split(",")])
    except ValueError:
        return False


def parse_points(values: Sequence[Any]) -> tuple[tuple[float, ...], ...]:
    """Points as tuples of floats of the same dimension; a single number is a point of dimension 1."""
    found: list[tuple[float, ...]] = []
    for value in values:
        try:
            point = tuple(float(x) for x in value) if isinstance(value, (list, tuple)) else (float(value),)
        except (TypeError, ValueError):
            raise ValueError(f"has a point that is not a list of numbers: {value!r}") from None
        if not point or not all(map(math.isfinite, point)):
            raise ValueError(f"has a point that is not finite: {value!r}" if point else "has a point without numbers")
        if found and len(point) != len(found[0]):
            raise ValueError(f"has points of dimension {len(found[0])} and {len(point)}")
        found.append(point)
    return tuple(found)


def _positions(values: Sequence[Any]) -> tuple[int, ...]:
    found = []
    for value in values:
        try:
            position = int(value)
        except (TypeError, ValueError):
            raise ValueError(f"has a target with {value!r}, which is not a position") from None
        if isinstance(value, (bool, float)) or position < 0:
            raise ValueError(f"has a target with {value!r}, which is not a position")
        found.append(position)
    return tuple(found)


def as_item(given: Any, kind: PointKind) -> PointItem:
    """The item of an input of ``predict``: an item, a line, or a list of points or tokens."""
    if isinstance(given, PointItem):
        return given
    if isinstance(given, str):
        return parse(given, _GIVEN, kind)
    if kind == "tokens":
        return PointItem(tuple(map(str, given)))
    try:
        return PointItem(parse_points([tuple(point) if hasattr(point, "__iter__") else point for point in given]))
    except ValueError as error:
        raise DataError(f"The input {error}. {_CURE}") from None
