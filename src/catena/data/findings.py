"""Checks of the data inspection, one small counter for each kind of problem, independent of file formats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

FEW = 5
"""How many line numbers a finding keeps. The count covers the rest."""
_LONG_LINE = 10_000
"""Lines with more characters than this are reported as very long."""

_Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One kind of problem: its message, its count, and the first few lines."""

    kind: str
    level: _Level
    message: str
    count: int = 1
    lines: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "level": self.level,
            "message": self.message,
            "count": self.count,
            "lines": list(self.lines),
        }

    def __str__(self) -> str:
        where = ""
        if self.lines:
            numbers = ", ".join(f"{line:,}" for line in self.lines)
            more = ", …" if self.count > len(self.lines) else ""
            where = f": line{'s' if self.count > 1 else ''} {numbers}{more}"
        return f"{self.level}: {self.message}{where}"


@dataclass
class Lines:
    """Counts lines and keeps the numbers of the first few."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        self.count += 1
        if len(self.first) < FEW:
            self.first.append(number)

    def finding(self, kind: str, level: _Level, one: str, many: str) -> Iterator[Finding]:
        """The finding, if there was a line. ``many`` has ``{}`` for the count."""
        if self.count:
            message = one if self.count == 1 else many.format(f"{self.count:,}")
            yield Finding(kind, level, message, self.count, tuple(self.first))


# --- characters ---------------------------------------------------------------------------------------------

# UTF-8 that was read as Latin-1 or Windows-1252: the letter of a lead byte followed by the character of a
# continuation byte.
_CONTINUATION = "\x80-\xbf" + "€‚ƒ„†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ"
_MOJIBAKE = re.compile(
    f"[ÃÂ][{_CONTINUATION}]|â[€‚„†\x80-\x86][{_CONTINUATION}“”‘’–—…¦]|ð[Ÿ\x9f][{_CONTINUATION}“”‘’–—…]|ï»¿|"
    f"(?:[ÐÑ][{_CONTINUATION}“”‘’–—…]){{2}}|(?:[ã-é][{_CONTINUATION}“”‘’–—…]{{2}}){{2}}"
)
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u00ad]")
_UNDECODED = re.compile("[\udc80-\udcff]")


class CharacterTroubles:
    """Broken encodings and unusual characters, line by line (bytes that are not text are ``U+DC00 + byte``)."""

    def __init__(self) -> None:
        self.undecoded, self.replaced, self.mojibake = Lines(), Lines(), Lines()
        self.nul, self.control, self.invisible, self.long = Lines(), Lines(), Lines(), Lines()

    def add(self, number: int, line: str) -> None:
        if "\0" in line:
            self.nul.add(number)
        if len(line) > _LONG_LINE:
            self.long.add(number)
        if _CONTROL.search(line):
            self.control.add(number)
        if line.isascii():
            return
        if _UNDECODED.search(line):
            self.undecoded.add(number)
        if "\ufffd" in line:
            self.replaced.add(number)
        if _MOJIBAKE.search(line):
            self.mojibake.add(number)
        if _INVISIBLE.search(line):
            self.invisible.add(number)

    def findings(self) -> Iterator[Finding]:
        cure = "; pass the encoding of the file, such as --encoding latin-1"
        yield from self.undecoded.finding(
            "encoding", "error", f"a line is not UTF-8{cure}", f"{{}} lines are not UTF-8{cure}"
        )
        yield from self.nul.finding("nul", "error", "a line has NUL bytes", "{} lines have NUL bytes")
        yield from self.replaced.finding(
            "replacement",
            "warning",
            "a line has U+FFFD, the replacement for a character that was lost in an earlier conversion",
            "{} lines have U+FFFD, the replacement for a character that was lost in an earlier conversion",
        )
        yield from self.mojibake.finding(
            "mojibake",
            "warning",
            "a line looks like UTF-8 that was read as Latin-1 ('Ã©' for 'é')",
            "{} lines look like UTF-8 that was read as Latin-1 ('Ã©' for 'é')",
        )
        yield from self.control.finding(
            "control", "warning", "a line has control characters", "{} lines have control characters"
        )
        yield from self.invisible.finding(
            "invisible", "note", "a line has invisible characters", "{} lines have invisible characters"
        )
        yield from self.long.finding(
            "long",
            "warning",
            f"a line is longer than {_LONG_LINE:,} characters",
            f"{{}} lines are longer than {_LONG_LINE:,} characters",
        )


# --- lengths ------------------------------------------------------------------------------------------------


class LengthSummary:
    """A distribution of lengths: minimum, median, mean, maximum, and a histogram with doubling bins."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, length: int) -> None:
        self._counts[length] += 1

    def __len__(self) -> int:
        return self._counts.total()

    def summary(self) -> dict[str, Any]:
        """The statistics by name; empty if nothing was counted."""
        n = len(self)
        if not n:
            return {}
        total = sum(length * count for length, count in self._counts.items())
        middle = (self._nth((n - 1) // 2) + self._nth(n // 2)) / 2
        return {
            "min": min(self._counts),
            "median": middle,
            "mean": total / n,
            "max": max(self._counts),
            "histogram": self._histogram(),
        }

    def _nth(self, index: int) -> int:
        for length in sorted(self._counts):
            index -= self._counts[length]
            if index < 0:
                return length
        raise IndexError(index)

    def _histogram(self) -> list[dict[str, int]]:
        """Bins 0, 1, 2-3, 4-7, 8-15, … from the first to the last that is not empty."""
        bins = Counter[int]()
        for length, count in self._counts.items():
            bins[length.bit_length()] += count
        return [
            {"from": (1 << b) >> 1, "to": max(0, (1 << b) - 1), "count": bins[b]}
            for b in range(min(bins), max(bins) + 1)
        ]


# --- repeats ------------------------------------------------------------------------------------------------


class Repeats:
    """Texts that occur again, with the same or with other labels. Stores 64 bits and a line for each text."""

    def __init__(self) -> None:
        self.first_line: dict[int, int] = {}
        self._labels: dict[int, int] = {}
        self.same, self.other = Lines(), Lines()

    def add(self, number: int, text: str, labels: tuple[str, ...]) -> None:
        key, label_key = hash(text), hash(labels)
        if key not in self.first_line:
            self.first_line[key] = number
            self._labels[key] = label_key
        elif self._labels[key] == label_key:
            self.same.add(number)
        else:
            self.other.add(number)

    def findings(self, level: _Level = "warning") -> Iterator[Finding]:
        yield from self.other.finding(
            "conflict",
            "warning",
            "a text occurs earlier with other labels",
            "{} texts occur earlier with other labels",
        )
        yield from self.same.finding(
            "duplicate",
            level,
            "a text is an exact copy of an earlier one",
            "{} texts are exact copies of earlier ones",
        )


# --- tags ---------------------------------------------------------------------------------------------------

_TAG = re.compile(r"([BIESLUM])-(\S+)|O")


class TagTroubles:
    """Checks the tags of one column against IOB2, IOB1 or BIOES, for columns with only such tags."""

    def __init__(self) -> None:
        self.is_bio = True
        self._parsed: dict[str, tuple[str, str] | None] = {}
        self._loose, self._broken = Lines(), Lines()
        self._begins = self._chunks = 0
        self._has_ends = False

    def add(self, first_line: int, tags: Sequence[str]) -> None:
        previous = ("O", "")
        for i, tag in enumerate((*tags, "O")):
            if tag not in self._parsed:
                match = _TAG.fullmatch(tag)
                self._parsed[tag] = (match[1] or "O", match[2] or "") if match else None
            here = self._parsed[tag]
            if here is None:
                self.is_bio = False
                return
            self._step(previous, here, first_line + min(i, len(tags) - 1))
            previous = here

    def _step(self, previous: tuple[str, str], here: tuple[str, str], line: int) -> None:
        (before, before_type), (now, now_type) = previous, here
        self._has_ends |= now in "ESLUM"
        continues = now_type == before_type and before != "O"
        if now == "I" and not (continues and before in "BIM"):
            self._loose.add(line)
        if now == "B" and not continues:
            self._begins += 1
        self._chunks += now in "BSU" or (now == "I" and not continues)
        # In BIOES, B must be followed by I and E (L in BILOU), and I and E must follow B.
        is_open = before in "BIM"
        goes_on = now in "IELM"
        if is_open != goes_on or (is_open and not continues):
            self._broken.add(line)

    def findings(self, column: int) -> Iterator[Finding]:
        if not self.is_bio or not self._chunks:
            return
        where = f"in column {column}"
        if self._has_ends:
            yield from self._broken.finding(
                "bio",
                "error",
                f"a tag {where} violates BIOES: a chunk is not closed, or is continued without a beginning",
                f"{{}} tags {where} violate BIOES: a chunk is not closed, or is continued without a beginning",
            )
        elif self._loose.count and not self._begins:
            n = self._loose.count
            message = f"the tags {where} are IOB1: I- begins {n:,} chunk{'' if n == 1 else 's'}"
            yield Finding("iob1", "note", message, n, tuple(self._loose.first))
        else:
            yield from self._loose.finding(
                "bio",
                "error",
                f"a tag {where} violates IOB2: I- follows neither B- nor I- of its type",
                f"{{}} tags {where} violate IOB2: I- follows neither B- nor I- of its type",
            )
