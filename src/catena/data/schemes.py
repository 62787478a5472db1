r"""Spans as tags: IOB1, IOB2 and BILOU, read strictly and turned into one another without loss.

======  ======================================================================================================
iob1    I-x inside a span of kind x; B-x where one begins right behind another of its kind (Ramshaw & Marcus 1995)
iob2    B-x at the beginning of every span, I-x behind it (Tjong Kim Sang & Veenstra 1999)
bilou   B-x, any number of I-x, then L-x; U-x for a span of one word (Ratinov & Roth 2009); written with E-x and S-x
        (BIOES), or with M for the inside (BMES), it is the same scheme in another dialect
======  ======================================================================================================

O stands outside of all spans. A span without a kind has the bare letter. Knows nothing of files: an error names the
word by its place in the sentence, and the caller adds where that stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from catena.errors import DataError

_SpanScheme = Literal["iob1", "iob2", "bilou"]
OUTSIDE = "O"
_MEANING = {"B": "B", "I": "I", "M": "I", "L": "L", "E": "L", "U": "U", "S": "U"}
_LETTERS = {"iob1": "BI", "iob2": "BI", "bilou": "BIMLEUS"}


class Span(NamedTuple):
    """Words ``begin`` to ``end - 1`` are a ``kind``."""

    begin: int
    end: int
    kind: str


class SchemeError(DataError):
    """Tags that a scheme does not allow. ``word`` is the place in the sentence, from 0."""

    def __init__(self, word: int, problem: str) -> None:
        super().__init__(problem)
        self.word = word


@dataclass(frozen=True)
class Dialect:
    """How a scheme is written: the letters for the inside, the last and the only word of a span."""

    scheme: _SpanScheme
    inside: str = "I"
    last: str = "L"
    only: str = "U"


IOB1, IOB2, BILOU = Dialect("iob1"), Dialect("iob2"), Dialect("bilou")
BIOES, BMES = Dialect("bilou", "I", "E", "S"), Dialect("bilou", "M", "E", "S")


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the kind of a tag: ``B-PER`` is ("B", "PER"), and ``O`` is ("O", "")."""
    letter, _, kind = tag.partition("-")
    return letter, kind


def tags_to_spans(tags: Sequence[str], scheme: _SpanScheme) -> list[Span]:
    """The spans that tags mark, in order. Tags that the scheme does not allow are a :class:`SchemeError`."""
    spans: list[Span] = []
    begin, before = 0, ("O", "")
    for i, tag in enumerate([*tags, OUTSIDE]):
        here = _read(tag, i, scheme)
        problem = _problem(before, here, scheme)
        if problem:
            raise SchemeError(min(i, len(tags) - 1), _words(tags, i, problem, scheme))
        if before[0] != "O" and _begins(before, here, scheme):
            spans.append(Span(begin, i, before[1]))
        if here[0] != "O" and _begins(before, here, scheme):
            begin = i
        before = here
    return spans


def spans_to_tags(spans: Iterable[Span], n: int, dialect: Dialect) -> list[str]:
    """The tags of ``n`` words that mark spans, which do not overlap and stand in order."""
    tags = [OUTSIDE] * n
    last_end, last_kind = 0, None
    for begin, end, kind in spans:
        if not last_end <= begin < end <= n:
            raise DataError(f"the span {begin} to {end} of {kind!r} overlaps another or leaves the {n} words")
        letters = [dialect.inside] * (end - begin)
        if dialect.scheme == "bilou":
            letters[0], letters[-1] = "B", dialect.last
            letters = letters if end - begin > 1 else [dialect.only]
        elif dialect.scheme == "iob2" or (begin == last_end and kind == last_kind):
            letters[0] = "B"
        tags[begin:end] = [f"{letter}-{kind}" if kind else letter for letter in letters]
        last_end, last_kind = end, kind
    return tags


def convert_tags(tags: Sequence[str], old: _SpanScheme, new: Dialect) -> list[str]:
    """The same spans in another scheme. Converting back gives the same tags."""
    return spans_to_tags(tags_to_spans(tags, old), len(tags), new)


def detect_dialect(tags: Iterable[str], scheme: _SpanScheme) -> Dialect:
    """How the files that hold these tags write a scheme."""
    if scheme != "bilou":
        return Dialect(scheme)
    letters = {split_tag(tag)[0] for tag in tags}
    last, only = ("L", "U") if letters & {"L", "U"} else ("E", "S")
    return Dialect("bilou", "M" if "M" in letters else "I", last, only)


def marks_spans(tags: Iterable[str]) -> bool:
    """Whether a set of tags looks like marks of spans: O or a letter of a scheme with a kind, some of them B or I."""
    seen = set(tags)
    known = seen - {OUTSIDE}
    if not known or not {split_tag(tag)[0] for tag in known} <= set(_MEANING):
        return False
    if all("-" in tag for tag in known):
        return True
    return known == {"B", "I"} < seen or (known <= set(_MEANING) and "B" in known and bool(known & set("LEUS")))


# --- what stands beside what ------------------------------------------------------------------------------------------


def _read(tag: str, i: int, scheme: _SpanScheme) -> tuple[str, str]:
    if tag == OUTSIDE:
        return "O", ""
    letter, kind = split_tag(tag)
    if letter not in _LETTERS[scheme] or len(letter) != 1:
        raise SchemeError(
            i,
            f"the tag {tag!r} does not belong to the scheme {scheme}, whose tags are O or begin with "
            f"{', '.join(_LETTERS[scheme])} and a hyphen",
        )
    return _MEANING[letter], kind


def _begins(before: tuple[str, str], here: tuple[str, str], scheme: _SpanScheme) -> bool:
    """Whether a span that reaches ``before`` ends there, and one that holds ``here`` begins here."""
    if scheme == "bilou":
        return before[0] in "OLU"
    return here[0] != "I" or before[0] == "O" or before[1] != here[1]


def _problem(before: tuple[str, str], here: tuple[str, str], scheme: _SpanScheme) -> str | None:
    """What is wrong with two neighbors; None if nothing is. The ends of a sentence are O."""
    (letter, kind), (next_letter, next_kind) = before, here
    inside = letter in "BI"
    if scheme == "iob2":
        wrong = next_letter == "I" and not (inside and kind == next_kind)
        return f"begins a span with I, where B-{next_kind} must stand" if wrong else None
    if scheme == "iob1":
        wrong = next_letter == "B" and not (inside and kind == next_kind)
        return "has B where no span of its kind ends, and I must stand" if wrong else None
    if inside and not (next_letter in "IL" and kind == next_kind):
        return f"cuts a span of {kind!r} off that has no last word" if kind else "cuts a span off that has no last word"
    if not inside and next_letter in "IL":
        return f"goes on with a span that did not begin, where B or U of {next_kind!r} must stand"
    return None


def _words(tags: Sequence[str], i: int, problem: str, scheme: _SpanScheme) -> str:
    here = repr(tags[i]) if i < len(tags) else "the end of the sentence"
    before = f" after {tags[i - 1]!r}" if i else " at the beginning of the sentence"
    return f"{here}{before} {problem} ({scheme})"


def follows(before: str | None, here: str | None, scheme: _SpanScheme) -> bool:
    """Whether a tag may stand behind another; None is the beginning or the end of a sentence."""
    first = ("O", "") if before is None else _read(before, 0, scheme)
    second = ("O", "") if here is None else _read(here, 0, scheme)
    return _problem(first, second, scheme) is None
