"""The examples that a model is trained on: read from the files of a config, or given, and split; warnings about them.

Tested in tests/tasks/test_train_on_dev.py and test_data_warnings.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, TypeVar

from catena.data.files import open_text
from catena.data.reading import Dropped, ReadCounter
from catena.data.splits import SplitColumn, find_split_column
from catena.errors import CatenaError, DataError

E = TypeVar("E")
_Reader = Callable[[Path, ReadCounter], Iterable[Any]]


@dataclass(frozen=True)
class DataParts(Generic[E]):
    """The examples of train, dev and test."""

    train: Sequence[E]
    dev: Sequence[E]
    test: Sequence[E] = ()


def drop_unscorable(family: Any, examples: Iterable[E], counter: ReadCounter) -> list[E]:
    """The examples that a task can score. The others are listed in the counter."""
    kept = []
    for example in examples:
        reason = family.why_unscorable(example)
        if reason is None:
            kept.append(example)
        else:
            counter.drop(reason, example.location, family.split_key(example))  # type: ignore[attr-defined]
    return kept


def split_column(config: Any, path: Path) -> SplitColumn | None:
    """The column of splits of a file, as the config reads it."""
    format = getattr(config.data, "input_format", "auto")
    return find_split_column(path, None if format == "auto" else format, getattr(config.data, "encoding", None))


def read_scored(family: Any, config: Any, path: Path, counter: ReadCounter) -> list[Any]:
    """The examples of a file to score: those that the task can score, of the test set if a column assigns one.

    Without a test set, the dev set of the column is scored. The others are listed in the counter.
    """
    column = split_column(config, path) if family.reads_split_columns else None
    examples = drop_unscorable(family, family.read(config, path, counter), counter)
    if column is None:
        return examples
    part = list(column.counts())[-1]
    kept = []
    for example in examples:
        split = column.split(example.location)
        if split == part:
            kept.append(example)
        else:
            counter.drop(f"of the split {split!r}", example.location, family.split_key(example))
    return kept


class Sources(Generic[E]):
    """The examples of the data files of a config, or given ones.

    Args:
        family: the class of the task, which reads them.
        config: the config with the files.
        given: examples of ``train`` and optionally ``dev`` and ``test``, instead of the files of these parts.
        has_test: whether the test set is used, if the config has one.
    """

    def __init__(
        self, family: Any, config: Any, given: Mapping[str, Iterable[E]] | None = None, *, has_test: bool = True
    ) -> None:
        self.family, self.config, self.given = family, config, {} if given is None else given
        self.has_test = has_test
        self.counter = ReadCounter()
        self.n_shared = 0
        """Number of examples in both train and dev, see ``data.train_on_dev``."""

    def __contains__(self, part: str) -> bool:
        return part in self.given or bool(self.paths(part)) or part in self._inner

    def read(self, part: str, reader: _Reader | None = None) -> Iterator[Any]:
        """The examples of ``train``, ``dev`` or ``test``.

        Args:
            part: one of them.
            reader: reads a file instead of the task.
        """
        reader = reader or (lambda path, counter: self.family.read(self.config, path, counter))
        if part == "train" and part not in self:
            raise DataError(f"There is nothing to train on. Name a file, as in 'catena train {self.family.name} FILE'.")
        yield from self.counter.seen(self.given.get(part, ()))
        for path in self.paths(part):
            yield from self._read(path, part, reader)
        for path in self._inner.get(part, ()):
            yield from self._read_inner(path, part, reader)

    @cached_property
    def _columns(self) -> dict[Path, SplitColumn]:
        """The columns of splits of the files of train."""
        if not self.family.reads_split_columns:
            return {}
        found = ((path, split_column(self.config, path)) for path in self.paths("train"))
        return {path: column for path, column in found if column is not None}

    @cached_property
    def _inner(self) -> dict[str, list[Path]]:
        """The files of train that have a dev or test set in them, where it has no file of its own."""
        found: dict[str, list[Path]] = {}
        for path, column in self._columns.items():
            for part in column.counts().keys() - {"train"}:
                if part not in self.given and not self.paths(part) and (part != "test" or self.has_test):
                    found.setdefault(part, []).append(path)
        return found

    def _read(self, path: Path, part: str, reader: _Reader) -> Iterator[Any]:
        """The examples of a file. Those that its column assigns to another split are not examples of ``part``."""
        column = self._columns.get(path) if part == "train" else None
        for example in reader(path, self.counter):
            split = part if column is None else column.split(example.location)
            if split == part:
                yield example
            elif split in self._inner:
                self.counter.saw(-1)  # it is counted where its split is read
            else:
                self.counter.drop(f"of the split {split!r}", example.location, self.family.split_key(example))

    def _read_inner(self, path: Path, part: str, reader: _Reader) -> Iterator[Any]:
        """The examples of a file of train that its column assigns to ``part``."""
        for example in reader(path, ReadCounter()):
            if self._columns[path].split(example.location) == part:
                self.counter.saw()
                yield example

    def paths(self, part: str) -> list[Path]:
        """The files of ``train``, ``dev`` or ``test``; none if its examples were given."""
        return [path for name, path in self._all_files().items() if name.partition("-")[0] == part]

    def _all_files(self) -> dict[str, Path]:
        files = self.config.data.example_files().items()
        unused = {*self.given, *(() if self.has_test else ("test",))}
        return {name: path for name, path in files if name.partition("-")[0] not in unused}

    def describe(self) -> list[str]:
        """The format of each file and how it was recognized."""
        lines = [f"{name}: {self.family.describe_file(self.config, path)}" for name, path in self._all_files().items()]
        return lines + [f"{path.name}: {column}" for path, column in self._columns.items()]

    def split(self) -> DataParts[E]:
        """The examples of train, dev and test. What has no file is split off train."""
        train, dev, test = (list(self.read(part)) for part in ("train", "dev", "test"))
        self.check("train", len(train))
        splits = self.config.data.splits(has_dev="dev" in self, has_test="test" in self, seed=self.config.seed)
        keys, groups = list(map(self.family.split_key, train)), list(map(self.family.split_group, train))
        with self.explaining():
            index = splits.rows(keys, groups, fold=getattr(self.config.data, "fold", None))
        self.n_shared = len(index.train) + len(index.dev) + len(index.test) - len(train)
        parts = DataParts(
            [train[i] for i in index.train],
            self.keep_scorable(dev if "dev" in self else [train[i] for i in index.dev]),
            self.keep_scorable([train[i] for i in index.test] or test),
        )
        self.check("train", len(parts.train))
        self.check("dev", len(parts.dev))
        return parts

    def keep_usable(self, train: Iterable[E], usable: Callable[[E], E | str]) -> list[E]:
        """The training examples that ``usable`` returns; those for which it returns a reason are dropped."""
        kept = []
        for example in train:
            result = usable(example)
            if isinstance(result, str):
                self.counter.drop(result, example.location, self.family.split_key(example))  # type: ignore[attr-defined]
            else:
                kept.append(result)
        self.check("train", len(kept))
        return kept

    def keep_scorable(self, examples: Iterable[E]) -> list[E]:
        """The examples that can be scored; the others are dropped."""
        return drop_unscorable(self.family, examples, self.counter)

    def counts(self, parts: DataParts[Any]) -> str:
        """How many examples were read, used in these parts, and dropped."""
        n = len(parts.train) + len(parts.dev) + len(parts.test) - self.n_shared
        return self.counter.counts(n).sentence()

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Say what was dropped and why in an error about examples that are too few to be split."""
        try:
            yield
        except DataError as error:
            if (first := self._first_dropped("train")) is None:
                raise
            counts = self._counted()
            raise DataError(f"{error} R{counts[1:]}; the first dropped is {first.location}.") from None

    def _counted(self) -> str:
        return self.counter.counts(self.counter.used).sentence("")

    def _first_dropped(self, part: str) -> Dropped | None:
        """The first dropped example in the files of a part."""
        files = set(map(str, self.paths(part)))
        return next((dropped for dropped in self.counter.dropped if dropped.location.file in files), None)

    def check(self, part: str, n: int) -> None:
        """Raise DataError if a part has no example left."""
        if n:
            return
        counts, first = self._counted(), self._first_dropped(part)
        files = set(map(str, self.paths(part)))
        named = f"{' and '.join(sorted(files))} and the format" if files else "the examples"
        cure = f"Check {named}." if first is None else f"Correct them; the first is {first.location}."
        raise DataError(f"No example of {part} can be used: {counts}. {cure}")


# --- warnings about dev and test data ---------------------------------------------------------------------------------


_MIN_CHARACTERS = 20
"""Shorter records, such as "yes" in a dialogue, are skipped unless most records of a file are short."""
_MIN_FRACTION = 0.2
"""The fraction of a file's records that triggers a warning."""
_LONGEST_BLOCK = 100
"""Blocks with more lines on average count as single lines with a few blank lines between them."""


def overlap_warnings(files: Mapping[str, Path], encoding: str | None = None) -> list[str]:
    """Return a warning for each dev and test file with many records that occur in the training files.

    Files are compared by their records: blocks between blank lines, as in CoNLL files, or lines. Memory grows with the
    dev and test files only.

    Args:
        files: the data files by their role; names begin with train, dev or test.
        encoding: the encoding of the files if it is not UTF-8.
    """
    train = [path for name, path in files.items() if name.startswith("train") and "target" not in name]
    found = []
    for name, path in files.items():
        if name.startswith(("dev", "test")) and "target" not in name:
            try:
                line = _warning(name.partition("-")[0], path, train, encoding)
            except (CatenaError, OSError):
                continue  # a binary format, or a broken file, which the reader reports
            found += [line] if line else []
    return found


def _warning(part: str, path: Path, train: list[Path], encoding: str | None) -> str | None:
    cure = f"Scores on {part} do not measure how well the model does on new data. Give another file with --{part}."
    if any(path.resolve() == other.resolve() for other in train):
        return f"warning: {part} is a training file ({path}). {cure}"
    if _is_document(path, encoding):
        return None
    blocks = _has_blocks(path, encoding)
    records = dict.fromkeys(map(hash, _long_enough(path, encoding, blocks)), False)
    for other in train:
        for record in map(hash, _records(other, encoding, blocks)):
            if record in records:
                records[record] = True
    n, shared = len(records), sum(records.values())
    if not n or shared < _MIN_FRACTION * n:
        return None
    return f"warning: {shared:,} of the {n:,} different records of {part} ({path}) are in the training data too. {cure}"


def _is_document(path: Path, encoding: str | None) -> bool:
    """Whether a file is one JSON document, whose lines are not records."""
    first = next(_blocks(path, encoding), [""])[0]
    return first.startswith(("{", "[")) and not first.endswith(("}", "]"))


def _has_blocks(path: Path, encoding: str | None) -> bool:
    """Whether blank lines separate records of several lines."""
    lines = blocks = 0
    for lines_of_block in _blocks(path, encoding):
        lines += len(lines_of_block)
        blocks += 1
    return blocks > 1 and lines / blocks <= _LONGEST_BLOCK


def _long_enough(path: Path, encoding: str | None, blocks: bool) -> list[str]:
    """The distinct records of a file, without short ones unless most are short."""
    records = list(dict.fromkeys(_records(path, encoding, blocks)))
    long = [record for record in records if len(record) >= _MIN_CHARACTERS]
    return long if 2 * len(long) >= len(records) else records


def _records(path: Path, encoding: str | None, blocks: bool) -> Iterator[str]:
    for lines in _blocks(path, encoding):
        yield from ("\n".join(lines),) if blocks else lines


def _blocks(path: Path, encoding: str | None) -> Iterator[list[str]]:
    with open_text(path, encoding) as numbered:
        lines = (line.strip() for _, line in numbered)
        for filled, block in groupby(lines, key=bool):
            if filled:
                yield list(block)


def unseen_line(counts: Mapping[str, int], where: str, what: str) -> str | None:
    """Return a line about gold labels that no training example has, or None if ``counts`` is empty.

    Args:
        counts: how often each such label occurs.
        where: the data it occurs in, such as ``"this file"``.
        what: what is counted, such as ``"words have a tag"``.
    """
    if not counts:
        return None
    shown = ", ".join(f"{label!r} {count:,}" for label, count in Counter(counts).most_common(5))
    return (
        f"{where}: {sum(counts.values()):,} {what} that training never showed ({shown}"
        f"{', …' if len(counts) > 5 else ''}); they count as errors"
    )
