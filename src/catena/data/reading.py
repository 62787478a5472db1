"""Counts of examples: read = used + dropped, with the reason and location of each dropped example.

tally = ReadCounter()
examples = list(tally.keep(tally.seen(read(path)), lambda e: None if e.text.strip() else "empty"))
tally.counts(used=len(examples)).sentence()
# read 10,662; used 10,650; dropped 12 (11 empty, 1 longer than max_length=400), listed in dropped.tsv
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from catena.data.examples import Example, SourceLocation, get_text
from catena.files import atomic_write

_MOST_TEXT = 500
"""Number of characters of a dropped text that are stored."""

E = TypeVar("E", bound=Example)


@dataclass(frozen=True, slots=True)
class Dropped:
    """An example that is not used, and the reason."""

    place: SourceLocation
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

    def saw(self, n: int = 1) -> None:
        """Count ``n`` examples as read."""
        self.read += n

    def drop(self, reason: str, place: SourceLocation, text: str) -> None:
        """Count an example as dropped. ``reason`` completes "11 …": "empty", "longer than max_length=400"."""
        self.dropped.append(Dropped(place, reason, text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"))

    def seen(self, examples: Iterable[E]) -> Iterator[E]:
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
                self.drop(reason, example.place, get_text(example))

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

    def write(self, path: Path) -> None:
        """Write file, line, reason and text of the dropped examples as TSV, atomically."""
        rows = [("file", "line", "reason", "text")]
        rows += [(d.place.file, str(d.place.line), d.reason, d.text) for d in self.dropped]
        content = "".join("\t".join(map(_one_field, row)) + "\n" for row in rows)
        with atomic_write(path) as unfinished:
            unfinished.write_text(content, encoding="utf-8", errors="backslashreplace", newline="\n")


def _one_field(value: str) -> str:
    """The value with tabs and line ends escaped as ``\\t`` and ``\\n``, so that it stays one field."""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
