"""Counts of examples: read = used + dropped, with the reason and location of each dropped example.

counter = ReadCounter()
examples = list(counter.keep(counter.seen(read(path)), lambda e: None if e.text.strip() else "empty"))
counter.counts(used=len(examples)).sentence()
# read 10,662; used 10,650; dropped 12 (11 empty, 1 longer than max_length=400), listed in dropped.tsv
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from catena.data.examples import Example, SourceLocation, get_text
from catena.data.files import shorten
from catena.data.readers.delimited import NO_RECORDS, NOT_ANNOTATED, Row
from catena.errors import DataError, FormatError
from catena.files import atomic_write

LONGEST_DOCUMENT = 10_000
"""Maximum number of tokens of a training text of models that read whole documents; longer ones are rarely a text."""
NOT_DECODED = "not decoded"
"""Why a picture or sound is dropped; the text of the example is then the error."""
_MOST_TEXT = 500
"""Number of characters of a dropped text that are stored."""
_TOLERATED = 0.05
"""Fraction of the records of a file whose form may be damaged. One damaged record is always tolerated."""
_EARLY = 1000
"""Number of damaged records from which reading stops early if they are the majority."""

E = TypeVar("E", bound=Example)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dropped:
    """An example that is not used, and the reason."""

    location: SourceLocation
    reason: str
    text: str


@dataclass(frozen=True)
class ReadCounts:
    """The numbers of examples that were read, used, and dropped for each reason."""

    read: int
    used: int
    dropped: dict[str, int] = field(default_factory=dict)

    def sentence(self, listed_in: str = "dropped.tsv") -> str:
        """``read 10,662; used 10,650; dropped 12 (11 empty, 1 too long), listed in dropped.tsv``."""
        words = f"read {self.read:,}; used {self.used:,}; dropped {sum(self.dropped.values()):,}"
        if not self.dropped:
            return words
        by_count = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in by_count)
        return f"{words} ({reasons})" + (f", listed in {listed_in}" if listed_in else "")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class ReadCounter:
    """Counts examples while they are read, from one or several files."""

    def __init__(self) -> None:
        self.read = 0
        self.dropped: list[Dropped] = []
        self.noted: list[Dropped] = []
        """Examples that are used but were read in an unusual way."""

    def saw(self, n: int = 1) -> None:
        """Count ``n`` examples as read."""
        self.read += n

    def drop(self, reason: str, location: SourceLocation, text: str) -> None:
        """Count an example as dropped. ``reason`` completes "11 …": "empty", "longer than max_length=400"."""
        self.dropped.append(Dropped(location, reason, _cut(text)))

    def note(self, reason: str, location: SourceLocation, text: str) -> None:
        """Remember an example that is used but was read in an unusual way."""
        self.noted.append(Dropped(location, reason, _cut(text)))

    def seen(self, examples: Iterable[T]) -> Iterator[T]:
        """The examples, each counted as read."""
        for example in examples:
            self.read += 1
            yield example

    def keep(self, examples: Iterable[E], why_not: Callable[[E], str | None]) -> Iterator[E]:
        """The examples for which ``why_not`` is None. The others are dropped for the returned reason."""
        for example in examples:
            reason = why_not(example)
            if reason is None:
                yield example
            else:
                self.drop(reason, example.location, get_text(example))

    @property
    def used(self) -> int:
        """The expected number of used examples."""
        return self.read - len(self.dropped)

    def counts(self, used: int) -> ReadCounts:
        """The counts. Raise RuntimeError if ``used``, counted by the caller, does not match."""
        if used != self.used:
            raise RuntimeError(
                f"The number of used examples must be {self.used:,} ({self.read:,} read, {len(self.dropped):,} "
                f"dropped), got {used:,}. Please report this bug."
            )
        return ReadCounts(self.read, used, dict(Counter(dropped.reason for dropped in self.dropped)))

    def check_none_dropped(self) -> None:
        """Raise DataError with the text of the first dropped example, such as why a file cannot be decoded."""
        if self.dropped:
            raise DataError(self.dropped[0].text)

    def notes(self) -> list[str]:
        """A line for each unusual way in which examples were read, with the first lines."""
        by_reason: dict[str, list[SourceLocation]] = {}
        for noted in self.noted:
            by_reason.setdefault(noted.reason, []).append(noted.location)
        return [
            f"{len(places):,} {reason}: {', '.join(map(str, places[:3]))}" + (", …" if len(places) > 3 else "")
            for reason, places in by_reason.items()
        ]

    def write(self, path: Path) -> None:
        """Write file, line, reason and text of the dropped examples as TSV, atomically."""
        rows = [("file", "line", "reason", "text")]
        rows += [(d.location.file, str(d.location.line), d.reason, d.text) for d in self.dropped]
        content = "".join("\t".join(map(_one_field, row)) + "\n" for row in rows)
        with atomic_write(path) as unfinished:
            unfinished.write_text(content, encoding="utf-8", errors="backslashreplace", newline="\n")


class DamagedRecords:
    """Records of one file whose form is damaged: a few are dropped and counted, many are an error.

    Args:
        path: the file.
        counter: counts the records. Without one, the first damaged record is an error.
        cure: a sentence that says how such records are mended.
    """

    def __init__(self, path: Path | str, counter: ReadCounter | None, cure: str) -> None:
        self.path, self.counter, self.cure = path, counter, cure
        self.n = self.n_read = 0
        self._first: tuple[SourceLocation, str, str] | None = None

    def saw(self) -> None:
        """Count a record as read, damaged or not."""
        self.n_read += 1
        if self.counter is not None:
            self.counter.saw()

    def add(self, location: SourceLocation, reason: str, text: str, problem: str | None = None) -> None:
        """Count the last record as damaged.

        Args:
            location: its location.
            reason: completes "1 …": "with 3 fields instead of 2".
            text: the line.
            problem: completes "train.csv:17 …": "must have 2 fields, got 3".
        """
        self._first = self._first or (location, problem or f"is a record {reason}", text)
        self.n += 1
        if self.counter is None or (self.n >= _EARLY and 2 * self.n > self.n_read):
            raise self._error()
        self.counter.drop(reason, location, text)

    def check(self) -> None:
        """Raise FormatError if too many records were damaged."""
        if self.n > max(1, _TOLERATED * self.n_read) or self.n == self.n_read > 0:
            raise self._error()

    def _error(self) -> FormatError:
        assert self._first is not None
        location, problem, text = self._first
        cause = f"{location} {problem}; the line is {shorten(text)}. {self.cure}"
        if self.n > 1:
            cause = f"{self.n:,} of {self.n_read:,} records of {self.path} cannot be read. The first: {cause}"
        return FormatError(cause)


def parse_rows(rows: Iterable[Row], damaged: DamagedRecords, parse: Callable[[Row], T]) -> Iterator[tuple[Row, T]]:
    """The rows with what ``parse`` makes of them, without those that are not records or are damaged.

    Args:
        rows: the rows of a table.
        damaged: counts the records, and lists those that are damaged or for which ``parse`` raises ValueError.
        parse: its ValueError has the reason to drop the record, and optionally the problem of the line.
    """
    for row in rows:
        if row.problem is not None and not row.damaged:
            if row.problem in (*NO_RECORDS, NOT_ANNOTATED) and damaged.counter is not None:
                damaged.counter.saw()
                damaged.counter.drop(row.problem, row.location, row.raw)
            continue
        damaged.saw()
        try:
            if row.problem is not None:
                raise ValueError(row.problem)
            found = parse(row)
        except FormatError:
            raise
        except ValueError as error:
            damaged.add(row.location, error.args[0], row.raw, *error.args[1:])
            continue
        yield row, found
    damaged.check()


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"


def _one_field(value: str) -> str:
    """The value with tabs and line ends escaped as ``\\t`` and ``\\n``, so that it stays one field."""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
