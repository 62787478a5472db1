"""Points and tokens with target positions: lines of files, encoding, and generated problems."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int

from catena.checkpoint import read_stored
from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text
from catena.errors import DataError, FormatError
from catena.metrics.points import PointingResult
from catena.niche.geometry.problems import PROBLEMS, draw
from catena.seq2seq.pointing import END, allowed_ids
from catena.tasks.point.config import PointDataConfig

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


# --- arrays -----------------------------------------------------------------------------------------------------------


_ENCODING = "encoding.json"
UNKNOWN, FIRST_TOKEN = 1, 2
"""Ids of tokens: 0 is padding."""


@dataclass(frozen=True, eq=False)
class PointSetBatch:
    """Padded sets and targets, as ids of the network with an end symbol."""

    values: Float[np.ndarray, "n s f"] | Int[np.ndarray, "n s"]
    sizes: Int[np.ndarray, " n"]
    targets: Int[np.ndarray, "n t"]
    lengths: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.sizes)

    def things(self, row: int) -> list[object]:
        """The points of a set as tuples, or its ids."""
        real = self.values[row, : self.sizes[row]]
        return [tuple(point) for point in real.tolist()] if real.ndim == 2 else real.tolist()

    def pointed(self, row: int) -> PointingResult:
        """A set with its target."""
        return PointingResult(self.things(row), tuple((self.targets[row, : self.lengths[row] - 1] - 1).tolist()))


@dataclass(frozen=True)
class PointEncoding:
    """How points or tokens become arrays, saved with a model.

    Args:
        problem: a key of :data:`PROBLEMS`. Sets of all problems except ``own`` are moved and scaled into the unit
            square, which does not change their solutions.
        tokens: the vocabulary, the first token with id 2; None for points.
        n_features: number of coordinates of a point.
        longest: number of positions of the longest training target.
    """

    problem: str
    tokens: tuple[str, ...] | None
    n_features: int
    longest: int

    @property
    def kind(self) -> PointKind:
        return "points" if self.tokens is None else "tokens"

    def save(self, folder: Path) -> None:
        """Write the encoding into a model folder."""
        (folder / _ENCODING).write_text(json.dumps(asdict(self), ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> PointEncoding:
        """The encoding that :meth:`save` wrote."""
        numbers = {"n_features": int, "longest": int}
        saved = read_stored(folder / _ENCODING, {"problem": str | None, "tokens": list[str] | None, **numbers})
        tokens = None if saved["tokens"] is None else tuple(saved["tokens"])
        return cls(saved["problem"], tokens, saved["n_features"], saved["longest"])

    def encode(self, items: Sequence[PointItem], solve: bool = True) -> PointSetBatch:
        """Items as arrays.

        With ``solve``, items without a target get the exact solution if the problem has one. Targets of the others
        have only the end symbol.
        """
        sizes = np.array([len(item.things) for item in items], np.int64)
        s = max(1, int(sizes.max(initial=0)))
        for item in items:
            self._check(item)
        if self.tokens is not None:
            ids = {token: number for number, token in enumerate(self.tokens, start=FIRST_TOKEN)}
            values: np.ndarray = np.zeros((len(items), s), np.int64)
            for row, item in zip(values, items, strict=True):
                row[: len(item.things)] = [ids.get(token, UNKNOWN) for token in item.things]
        else:
            values = np.zeros((len(items), s, self.n_features))
            for row, item in zip(values, items, strict=True):
                row[: len(item.things)] = item.things
            values = values if self.problem == "own" else to_unit(values, sizes)
        return PointSetBatch(values, sizes, *self._targets(items, values, sizes, solve))

    def _check(self, item: PointItem) -> None:
        if item.kind != self.kind and item.things:
            raise FormatError(
                f"{item.location} must have {self.kind}, as in training, got {item.kind}. Use {self.kind}."
            )
        if self.tokens is None and item.things and len(item.things[0]) != self.n_features:
            raise FormatError(
                f"{item.location} must have points with {self.n_features} coordinates, as in training, got "
                f"{len(item.things[0])}. Use points of that dimension."
            )

    def _targets(
        self, items: Sequence[PointItem], values: np.ndarray, sizes: np.ndarray, solve: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        wanted: list[Sequence[int]] = [item.target or () for item in items]
        missing = [i for i, item in enumerate(items) if item.target is None]
        solver = PROBLEMS[self.problem].solve
        if missing and solver is not None and solve:
            found, lengths = solver(values[missing], sizes[missing])
            for i, row, length in zip(missing, found.tolist(), lengths.tolist(), strict=True):
                wanted[i] = row[:length]
        if PROBLEMS[self.problem].rule == "ring":
            wanted = [close_ring(target) for target in wanted]
        return append_end(wanted)


def to_unit(points: Float[np.ndarray, "n s f"], sizes: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n s f"]:
    """The sets moved and scaled so that the longer side of each bounding box is [0, 1]."""
    inside = np.arange(points.shape[1])[None, :, None] < sizes[:, None, None]
    low = np.where(inside, points, np.inf).min(axis=1, keepdims=True)
    high = np.where(inside, points, -np.inf).max(axis=1, keepdims=True)
    span = np.where(inside.any(axis=1, keepdims=True), high - np.where(np.isinf(low), 0.0, low), 1.0)
    span = span.max(axis=2, keepdims=True)
    return np.where(inside, (points - low) / np.where(span > 0, span, 1.0), 0.0)


def close_ring(target: Sequence[int]) -> Sequence[int]:
    """The ring with its first position repeated at the end."""
    whole = len(target) > 1 and target[0] == target[-1]
    return target if whole or not target else [*target, target[0]]


def append_end(wanted: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Padded ids of targets with end symbols, and their lengths."""
    lengths = np.array([len(target) + 1 for target in wanted], np.int64)
    targets = np.full((len(wanted), int(lengths.max(initial=1))), END, np.int64)
    for row, target in zip(targets, wanted, strict=True):
        row[: len(target)] = np.array(target, np.int64) + 1
    return targets, lengths


def generate_problems(data: PointDataConfig, n: int, generator: np.random.Generator) -> PointSetBatch:
    """``n`` generated sets of a problem with their exact targets."""
    low = data.size if data.least is None else data.least
    points, sizes = draw(data.problem, n, (low, data.size), data.values, generator)
    values = to_unit(points, sizes)
    solve = PROBLEMS[data.problem].solve
    assert solve is not None
    found, lengths = solve(values, sizes)
    targets = np.where(np.arange(found.shape[1] + 1) < lengths[:, None], np.pad(found, ((0, 0), (0, 1))) + 1, END)
    return PointSetBatch(values, sizes, targets[:, : int(lengths.max(initial=0)) + 1], lengths + 1)


def pointing_rule(data: PointDataConfig) -> str:
    """The name of the rule for allowed positions."""
    return PROBLEMS[data.problem].rule if data.rule == "auto" else data.rule


def fit_encoding(problem: str, items: Sequence[PointItem]) -> PointEncoding:
    """The encoding of training items. Raise FormatError if some are points and some are tokens."""
    kind = items[0].kind
    for item in items:
        if item.kind != kind:
            raise FormatError(
                f"{item.location} must have {kind}, as other lines, got {item.kind}. Use one kind in a file."
            )
    longest = max(len(item.target or item.things) for item in items)
    if kind == "tokens":
        if PROBLEMS[problem].n_features:
            raise DataError(
                f"{items[0].location} must have points if data.problem = {problem!r}, got tokens. Remove data.problem."
            )
        return PointEncoding(problem, _tokens_of(items), 0, longest)
    n, wanted = len(items[0].things[0]), PROBLEMS[problem].n_features
    if wanted and n != wanted:
        raise DataError(
            f"{items[0].location} must have points with {wanted} coordinate{'s' if wanted > 1 else ''} if "
            f"data.problem = {problem!r}, got {n}. Use other points, or another problem."
        )
    return PointEncoding(problem, None, n, longest)


def _tokens_of(items: Sequence[PointItem]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(token for item in items for token in item.things))


def check_targets(sets: PointSetBatch, items: Sequence[PointItem], rule: str) -> PointSetBatch:
    """The sets unchanged; raise FormatError if the rule does not allow a target."""
    beyond = sets.targets.max(axis=1, initial=0) > sets.sizes
    for i in np.flatnonzero(beyond)[:1].tolist():
        raise FormatError(
            f"{items[i].location} must have target positions below {sets.sizes[i]}, the number of {items[i].kind}, got "
            f"{int(sets.targets[i].max()) - 1}. Count positions from 0."
        )
    for low in range(0, len(sets), 512):
        part = slice(low, low + 512)
        targets = torch.from_numpy(sets.targets[part])
        real = torch.arange(sets.values.shape[1]) < torch.from_numpy(sets.sizes[part])[:, None]
        may = allowed_ids(rule, targets[:, :-1], real).gather(2, targets[..., None])[..., 0]
        may |= torch.arange(targets.shape[1]) >= torch.from_numpy(sets.lengths[part])[:, None]
        for i, step in (~may).nonzero()[:1].tolist():
            target = (sets.targets[low + i, : sets.lengths[low + i] - 1] - 1).tolist()
            what = f"position {target[step]}" if step < len(target) else "the end"
            raise FormatError(
                f"{items[low + i].location} has the target {target}, in which the rule {rule!r} does not allow {what} "
                f"at step {step}. Correct the target, or choose another data.rule."
            )
    return sets
