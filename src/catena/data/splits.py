"""Train, dev and test from one set of examples, by rules that every task shares.

The examples with the smallest hash of their key become the dev set. Its size is exact, and the choice depends neither
on the order of the examples nor on the seed, so an example that is added or removed moves at most one other.

    rows = Splits(dev_fraction=0.1).rows([example.key for example in examples])
    dev = [examples[i] for i in rows.dev]

The rules know keys and labels, not examples. A column of a table can assign its records to splits too, as in many
published data sets: all of its values are then names of splits, one of them train.

Tested in tests/data/test_splits.py and test_split_column.py.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.roles import SPLIT_COLUMNS, SPLITS, find_column
from catena.data.tables import TABLE_FORMATS, Table, open_table
from catena.data.values import lookup, strings
from catena.errors import ConfigError, DataError
from catena.randomness import Randomness

SplitMethod = Literal["hash", "stratified", "end", "random"]


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The indices of the examples of each split, in ascending order."""

    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Splits:
    """How examples are split.

    Args:
        dev_fraction: fraction of the examples in dev; 0 if dev has its own file.
        by: ``hash``: the smallest hashes of the keys; ``stratified``: the same within each label, in proportion;
            ``end``: the last examples; ``random``: by the seed.
        folds: number of parts for cross-validation, each the test set of one run.
        test_fraction: fraction of the examples in test, if there are no folds.
        seed: seed of ``random``.
        train_on_dev: whether the examples of dev are also in train, so that a last model can use all data.
        dev_part: which part is dev: 0 for the one above, 1 for the next one, and so on, as in cross-validation.

    ``ceil(fraction * n)`` of n examples are held out, at least one and at most all but one. Examples with equal keys
    stay together where a set of the exact size allows it.
    """

    dev_fraction: float = 0.1
    by: SplitMethod = "hash"
    folds: int | None = None
    test_fraction: float = 0.0
    seed: int = 0
    train_on_dev: bool = False
    dev_part: int = 0

    def __post_init__(self) -> None:
        for name in ("dev_fraction", "test_fraction"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}. Use 0.1.")
        if self.dev_fraction + self.test_fraction >= 1:
            raise ConfigError(
                f"dev_fraction + test_fraction must be less than 1, got {self.dev_fraction} + {self.test_fraction}. "
                f"Lower one of them."
            )
        if self.dev_fraction * (self.dev_part + 1) > 1 + 1e-9:
            most = max(0, math.floor(1 / self.dev_fraction + 1e-9) - 1)
            raise ConfigError(
                f"dev_part must be at most {most} with dev_fraction = {self.dev_fraction}, got {self.dev_part}. Use 0."
            )
        if self.folds is not None and self.folds < 2:
            raise ConfigError(f"folds must be at least 2 or None, got {self.folds}. Use 10, or None for no folds.")
        if self.folds is not None and self.test_fraction:
            raise ConfigError(f"test_fraction must be 0 with folds, got {self.test_fraction}. Remove one of them.")

    def rows(
        self,
        keys: Sequence[str],
        labels: Sequence[object] | None = None,
        *,
        sizes: Sequence[int] | None = None,
        fold: int | None = None,
    ) -> SplitRows:
        """The rows of train, dev and test.

        Args:
            keys: the text that identifies each example, such as its source.
            labels: the label or labels of each example, for ``stratified``.
            sizes: the size of each example, for ``end``: fractions are of the total size, not of the number.
            fold: with folds, the part that is the test set.

        Raises:
            DataError: if there are too few examples for nonempty splits.
        """
        rest = np.arange(len(keys))
        test = rest[:0]
        if self.folds is not None:
            rest, test = self._fold(rest, keys, labels, fold or 0)
        elif self.test_fraction:
            rest, test = self._hold_out(rest, self.test_fraction, len(keys), "test", keys, labels, sizes)
        dev = rest[:0]
        if self.dev_fraction:
            n, others = len(rest) + len(test), rest
            for _ in range(self.dev_part + 1):
                others, dev = self._hold_out(others, self.dev_fraction, n, "dev", keys, labels, sizes)
            rest = np.setdiff1d(rest, dev)
        return SplitRows(np.union1d(rest, dev) if self.train_on_dev else rest, dev, test)

    def _hold_out(
        self,
        rows: np.ndarray,
        fraction: float,
        n: int,
        name: str,
        keys: Sequence[str],
        labels: Sequence[object] | None,
        sizes: Sequence[int] | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The other rows and ``ceil(fraction * n)`` of ``rows``."""
        if len(rows) < 2:
            some = f"{len(rows)} example{'' if len(rows) == 1 else 's'}"
            raise DataError(f"{some} cannot be split into train and {name}. Add examples, or pass a {name} file.")
        count = min(max(1, _ceil(fraction * (n if self.folds is None else len(rows)))), len(rows) - 1)
        if self.by == "end":
            start = len(rows) - count if sizes is None else _start_of_end(np.asarray(sizes)[rows], fraction)
            return rows[:start], rows[start:]
        if self.by == "random":
            chosen = Randomness(self.seed).numpy(name).permutation(len(rows))[:count]
            return _parted(rows, chosen)
        own = [keys[i] for i in rows.tolist()]
        if self.by == "stratified" and labels is not None:
            return _parted(rows, _stratified(own, [labels[i] for i in rows.tolist()], count, name))
        return _parted(rows, _smallest(own, count, name))

    def _fold(
        self, rows: np.ndarray, keys: Sequence[str], labels: Sequence[object] | None, fold: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows outside and inside one of the folds, whose sizes differ by at most one."""
        assert self.folds is not None
        if not 0 <= fold < self.folds:
            raise ConfigError(f"fold must be from 0 to {self.folds - 1}, got {fold}. Use 0 for the first fold.")
        if len(rows) < self.folds:
            raise DataError(f"folds must be at most {len(rows)}, the number of examples, got {self.folds}. Lower it.")
        if self.by == "end":
            return _parted(rows, np.array_split(np.arange(len(rows)), self.folds)[fold])
        if self.by == "random":
            order = Randomness(self.seed).numpy("folds").permutation(len(rows))
        else:
            order = np.array(_by_hash(keys, "fold"))
        if self.by == "stratified" and labels is not None:
            # Examples of one label are next to each other, so that dealing them out spreads each label evenly.
            order = order[np.argsort([_hash(str(labels[i]), "fold") for i in order], kind="stable")]
        return _parted(rows, order[fold :: self.folds])


def _ceil(x: float) -> int:
    """The ceiling, where 0.07 * 100 is 7 and not 7.000000000000001."""
    return math.ceil(round(x, 9))


def _parted(rows: np.ndarray, chosen: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    held = np.zeros(len(rows), bool)
    held[np.asarray(chosen, np.int64)] = True
    return rows[~held], rows[held]


def _hash(key: str, salt: str) -> bytes:
    return hashlib.sha256(f"{salt}/{key}".encode("utf-8", "surrogatepass")).digest()


def _by_hash(keys: Sequence[str], salt: str) -> list[int]:
    """The indices in ascending order of the hashes of their keys."""
    return [i for _, _, i in sorted((_hash(key, salt), key, i) for i, key in enumerate(keys))]


def _smallest(keys: Sequence[str], count: int, salt: str) -> list[int]:
    """The ``count`` indices with the smallest hashes; equal keys are taken together or not at all if possible."""
    order = _by_hash(keys, salt)  # equal keys are neighbors
    chosen: list[int] = []
    for group in _groups(order, keys):
        if len(chosen) + len(group) <= count:
            chosen += group
        if len(chosen) == count:
            break
    if chosen:
        return chosen
    smallest = min(_groups(order, keys), key=len)  # every group is larger than the set
    return smallest if len(smallest) < len(keys) else smallest[:count]


def _groups(order: Sequence[int], keys: Sequence[str]) -> Iterator[list[int]]:
    return (list(own) for _, own in groupby(order, key=keys.__getitem__))


def _stratified(keys: Sequence[str], labels: Sequence[object], count: int, salt: str) -> list[int]:
    """``count`` indices, of each label in proportion to its number; the only example of a label stays in train."""
    by_label: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        by_label.setdefault(str(label), []).append(i)
    seats = _apportion({label: len(own) for label, own in by_label.items()}, count, salt)
    chosen: list[int] = []
    for label, own in by_label.items():
        if seats[label]:
            chosen += [own[j] for j in _smallest([keys[i] for i in own], seats[label], salt)]
    if not chosen:  # every label has one example
        return _smallest(keys, count, salt)
    return chosen


def _apportion(sizes: dict[str, int], count: int, salt: str) -> dict[str, int]:
    """Seats of each label by largest remainders (Hamilton's method), at most all but one example of a label."""
    total = sum(sizes.values())
    seats = {label: count * n // total for label, n in sizes.items()}
    order = sorted(sizes, key=lambda label: (-(count * sizes[label] % total), _hash(label, salt)))
    while (left := count - sum(seats.values())) > 0:
        open_labels = [label for label in order if seats[label] < sizes[label] - 1]
        if not open_labels:
            break
        for label in open_labels[:left]:
            seats[label] += 1
    return seats


def _start_of_end(sizes: np.ndarray, fraction: float) -> int:
    """The start of the shortest nonempty end that has at least a fraction of the total size."""
    behind = np.cumsum(sizes[::-1])[::-1]  # behind[i] is the size of the examples from i on
    enough = np.flatnonzero(behind >= round(fraction * int(behind[0]), 9))
    return min(max(1, int(enough[-1])), len(sizes) - 1)


# --- columns of splits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitColumn:
    """The splits of the records of a file.

    Args:
        name: the column.
        splits: train, dev or test by the line of the record.
    """

    name: str
    splits: Mapping[int, str]

    def split(self, location: SourceLocation) -> str:
        """The split of a record."""
        return self.splits.get(location.line, "train")

    def counts(self) -> dict[str, int]:
        """The number of records of each split, in the order train, dev, test."""
        found = Counter(self.splits.values())
        return {split: found[split] for split in dict.fromkeys(SPLITS.values()) if found[split]}

    def __str__(self) -> str:
        parts = [f"{n:,} to {split}" for split, n in self.counts().items()]
        return f"the column {self.name!r} assigns {', '.join(parts[:-1])} and {parts[-1]}"


def find_split_column(path: Path, format: str | None = None, encoding: str | None = None) -> SplitColumn | None:
    """The column of splits of a file, or None if it has none.

    Args:
        path: the file.
        format: the format that the user sets. Detected if omitted.
        encoding: UTF-8 if omitted.
    """
    if not path.is_file():
        return None
    options: Mapping[str, object] = {}
    if format is None:
        found = detect_format(path, encoding)
        format, options = found.options.get("stored", found.format), found.options
    if format not in TABLE_FORMATS:
        return None
    table = open_table(path, format, {key: options[key] for key in ("layout",) if key in options}, encoding)
    name = _find_split_name(table)
    return None if name is None else _read_splits(table, name)


def _find_split_name(table: Table) -> str | None:
    """The column whose values in the sample are names of splits: more than one, or below a common name."""
    common = find_column(table.names, SPLIT_COLUMNS, exact=True) if table.has_header else None
    for name in table.names:
        values = {value.casefold() for value in strings(lookup(row, name) for row in table.sample)}
        is_shown = name == common or (len(values) > 1 and len(table.names) > 2)
        if values and values <= SPLITS.keys() and is_shown:
            return name
    return None


def _read_splits(table: Table, name: str) -> SplitColumn | None:
    """The splits of all records, if every record has one and train is not the only one."""
    splits: dict[int, str] = {}
    for row in table.rows(None):
        if row.problem is not None:
            continue
        split = SPLITS.get(str(lookup(row.values, name) or "").strip().casefold())
        if split is None and row.short is None:
            return None
        splits[row.location.line] = split or "train"
    found = set(splits.values())
    return SplitColumn(name, splits) if "train" in found and len(found) > 1 else None
