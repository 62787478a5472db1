"""Checks of the data inspection, one small counter for each kind of problem, independent of file formats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from catena.data.encodings import UNDECODED
from catena.data.schemes import MEANING, describe_scheme, find_problem
from catena.data.special_tokens import NAMES_IN_TEXT

FEW = 20
"""How many line numbers a finding keeps. The count covers the rest."""
_LONG_LINE = 10_000
"""Lines with more characters than this are reported as very long."""

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One kind of problem: its message, its count, and the first few lines."""

    kind: str
    level: Level
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

    def finding(self, kind: str, level: Level, message: str) -> Iterator[Finding]:
        """The finding, if there was a line.

        Args:
            kind: what was found, in a word.
            level: how much it matters.
            message: with ``[one|several]`` where the text depends on the count, which is ``#`` in it.
        """
        if self.count:
            side = 1 if self.count == 1 else 2
            message = _ONE_OR_SEVERAL.sub(lambda match: match[side].replace("#", f"{self.count:,}"), message)
            yield Finding(kind, level, message, self.count, tuple(self.first))


_ONE_OR_SEVERAL = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


# --- characters ---------------------------------------------------------------------------------------------

# UTF-8 that was read as Latin-1 or Windows-1252: the letter of a lead byte followed by the character of a
# continuation byte.
_CONTINUATION = "\x80-\xbf" + "€‚ƒ„†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ"
_MOJIBAKE = re.compile(
    f"[ÃÂ][{_CONTINUATION}]|â[€‚„†\x80-\x86][{_CONTINUATION}“”‘’–—…¦]|ð[Ÿ\x9f][{_CONTINUATION}“”‘’–—…]|ï»¿|"
    f"(?:[ÐÑ][{_CONTINUATION}“”‘’–—…]){{2}}|(?:[ã-é][{_CONTINUATION}“”‘’–—…]{{2}}){{2}}"
)
_CHARACTERS: tuple[tuple[str, Level, re.Pattern[str], str], ...] = (
    (
        "replacement",
        "warning",
        re.compile("\ufffd"),
        "[a line has|# lines have] U+FFFD, the replacement for a character that was lost in an earlier conversion",
    ),
    (
        "mojibake",
        "warning",
        _MOJIBAKE,
        "[a line has|# lines have] a mixed-up encoding: [it looks|they look] like UTF-8 that was read as Latin-1 "
        "('Ã©' for 'é')",
    ),
    (
        "control",
        "warning",
        re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]"),
        "[a line has|# lines have] control characters",
    ),
    ("invisible", "note", re.compile("[\u200b\u2060\ufeff\u00ad]"), "[a line has|# lines have] invisible characters"),
    (
        "bidi",
        "warning",
        re.compile("[\u202a-\u202e\u2066-\u2069]"),
        "[a line has|# lines have] characters that override the direction of text (such as U+202E)",
    ),
)
"""Unusual characters: the kind and the level of the finding, the characters, and the message."""
_ASCII_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")


class CharacterTroubles:
    """Broken encodings and unusual characters, line by line (bytes that are not text are ``U+DC00 + byte``)."""

    def __init__(self) -> None:
        self.lines = {kind: Lines() for kind, *_ in _CHARACTERS}
        self.long, self.undecoded = Lines(), Lines()

    def add(self, number: int, line: str) -> None:
        if len(line) > _LONG_LINE:
            self.long.add(number)
        if line.isascii():
            if _ASCII_CONTROL.search(line):
                self.lines["control"].add(number)
            return
        if UNDECODED.search(line):
            self.undecoded.add(number)
        for kind, _, pattern, _ in _CHARACTERS:
            if pattern.search(line):
                self.lines[kind].add(number)

    def findings(self) -> Iterator[Finding]:
        """The findings. Bytes that are not text and NUL bytes are reported when the file is read."""
        for kind, level, _, message in _CHARACTERS:
            yield from self.lines[kind].finding(kind, level, message)
        many = f"[a line is|# lines are] longer than {_LONG_LINE:,} characters"
        yield from self.long.finding("long", "warning", many)


# --- texts --------------------------------------------------------------------------------------------------

_HTML = re.compile(
    r"</?(?:a|b|i|p|u|br|hr|em|li|ol|td|th|tr|ul|div|img|pre|h[1-6]|span|code|font|table|strong|script)\b[^<>]*/?>"
    r"|&(?:nbsp|amp|lt|gt|quot|apos|#\d{2,5}|#x[0-9a-f]{2,4});",
    re.IGNORECASE,
)
_ENDS = frozenset(".!?:;\"'”’)…。！？")
_MOST_PAIRS = 10_000
"""Number of adjacent lines that are examined for wrapped prose."""
_SPECIAL = re.compile("|".join(map(re.escape, NAMES_IN_TEXT)))


class TextTroubles:
    """HTML and names of special tokens in texts, and lines of wrapped prose."""

    def __init__(self) -> None:
        self.html, self.special = Lines(), Lines()
        self.names: Counter[str] = Counter()
        self._before = ""
        self._longest = self._n_pairs = 0
        self._breaks: list[int] = []
        """For each line that ends within a sentence, its length with the first word of the next line."""

    def add(self, number: int, text: str) -> None:
        if ("<" in text or "&" in text) and _HTML.search(text):
            self.html.add(number)
        if "<" in text and (found := _SPECIAL.findall(text)):
            self.special.add(number)
            self.names.update(found)

    def add_line(self, line: str) -> None:
        """Examine a line of plain text, in order, including blank ones."""
        if line.strip() and self._before.strip() and self._n_pairs < _MOST_PAIRS:
            self._n_pairs += 1
            if self._before.rstrip()[-1] not in _ENDS and line.lstrip()[:1].islower():
                self._breaks.append(len(self._before) + 1 + len(line.split(None, 1)[0]))
        self._longest = max(self._longest, len(line))
        self._before = line

    @property
    def is_wrapped(self) -> bool:
        """Whether lines end within sentences because the next word would not fit into the width of the text."""
        if len(self._breaks) < 10 or len(self._breaks) < 0.3 * self._n_pairs:
            return False
        return sum(width > self._longest for width in self._breaks) >= 0.8 * len(self._breaks)

    def findings(self) -> Iterator[Finding]:
        yield from self.html.finding("html", "warning", "[a text has|# texts have] HTML tags or entities")
        names = ", ".join(f"{name} {n:,} times" for name, n in self.names.most_common(3))
        message = f"texts contain the names of special tokens ({names}), which are read as unknown words"
        yield from self.special.finding("special-token", "note", message)
        if self.is_wrapped:
            message = (
                "lines end within sentences, as in wrapped prose; for a language model, --unit paragraph joins them"
            )
            yield Finding("wrapped", "warning", message)


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
    """Texts that occur again, with the same or other labels, or nearly. Stores a line and two hashes of each text."""

    def __init__(self) -> None:
        self.first_line: dict[int, int] = {}
        self._labels: dict[int, int] = {}
        self._normalized: set[int] = set()
        self.same, self.other, self.near = Lines(), Lines(), Lines()

    def add(self, number: int, text: str, labels: tuple[str, ...]) -> None:
        key, label_key = hash(text), hash(labels)
        if key in self.first_line:
            (self.same if self._labels[key] == label_key else self.other).add(number)
            return
        self.first_line[key] = number
        self._labels[key] = label_key
        normalized = hash(normalize(text))
        if normalized in self._normalized:
            self.near.add(number)
        self._normalized.add(normalized)

    def findings(self, level: Level = "warning") -> Iterator[Finding]:
        yield from self.other.finding("conflict", "warning", "[a text occurs|# texts occur] earlier with other labels")
        same = "[a text is an exact copy of an earlier one|# texts are exact copies of earlier ones]"
        yield from self.same.finding("duplicate", level, same)
        near = "[a text differs from an earlier one|# texts differ from earlier ones]"
        yield from self.near.finding("near-duplicate", level, f"{near} only in case, punctuation or blanks")


def normalize(text: str) -> str:
    """A text without case, punctuation and blanks; the text itself if nothing is left."""
    return "".join(filter(str.isalnum, text.casefold())) or text


# --- tags ---------------------------------------------------------------------------------------------------

_TAG = re.compile(r"([BIESLUM])-(\S+)|O")


class TagTroubles:
    """Checks the tags of one column against IOB2, IOB1 or BIOES, for columns with only such tags."""

    def __init__(self) -> None:
        self.is_bio = True
        self._parsed: dict[str, tuple[str, str] | None] = {}
        self._loose, self._broken = Lines(), Lines()
        self._begins = self._chunks = self._separators = 0
        self._tags: set[str] = set()

    def add(self, first_line: int, tags: Sequence[str]) -> None:
        self._tags.update(tags)
        before = ("O", "")
        for i, tag in enumerate((*tags, "O")):
            if (here := self._parse(tag)) is None:
                self.is_bio = False
                return
            line = first_line + min(i, len(tags) - 1)
            continues = here[1] == before[1] and before[0] != "O"
            if find_problem(before, here, "iob2"):
                self._loose.add(line)
            if find_problem(before, here, "bilou"):
                self._broken.add(line)
            self._begins += here[0] == "B" and not continues
            self._separators += here[0] == "B" and continues
            self._chunks += here[0] in "BU" or (here[0] == "I" and not continues)
            before = here

    def _parse(self, tag: str) -> tuple[str, str] | None:
        """The meaning of the letter, as in BILOU, and the kind; None if it is not such a tag."""
        if tag not in self._parsed:
            match = _TAG.fullmatch(tag)
            self._parsed[tag] = (MEANING[match[1]] if match[1] else "O", match[2] or "") if match else None
        return self._parsed[tag]

    def findings(self, column: int) -> Iterator[Finding]:
        if not self.is_bio or not self._chunks:
            return
        where = f"in column {column}"
        if (name := describe_scheme(self._tags)) not in ("BIO", "IO", None):
            yield Finding("scheme", "note", f"the tags {where} are {name}")
            message = (
                f"[a tag|# tags] {where} [violates|violate] {name}: a chunk is not closed, or is continued without a"
            )
            yield from self._broken.finding("bio", "error", f"{message} beginning")
        elif self._loose.count and not self._begins and not self._separators:
            message = f"the tags {where} have no B (IO): neighbors of one type are merged into one chunk"
            yield Finding("io", "warning", message)
        elif self._loose.count and not self._begins:
            message = f"the tags {where} are IOB1: I- begins [1 chunk|# chunks]"
            yield from self._loose.finding("iob1", "note", message)
        else:
            message = (
                f"[a tag|# tags] {where} [violates|violate] IOB2: I- follows neither B- nor I- of its type, and is"
            )
            yield from self._loose.finding("bio", "warning", f"{message} read as B-")
