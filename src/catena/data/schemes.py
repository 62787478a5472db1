r"""Spans as tags in IOB1, IOB2 and BILOU, parsed strictly and converted without loss.

======  ======================================================================================================
iob1    I-x inside a span of kind x; B-x if it directly follows another span of its kind (Ramshaw & Marcus 1995)
iob2    B-x at the beginning of every span, then I-x (Tjong Kim Sang & Veenstra 1999)
bilou   B-x, any number of I-x, then L-x; U-x for a span of one word (Ratinov & Roth 2009). With E-x and S-x
        (BIOES), or with M for the inside (BMES), it is the same scheme in another dialect
======  ======================================================================================================

O is outside of all spans. A span without a kind has only the letter. Errors name the index of the word in the sentence;
the caller adds the location of the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from catena.errors import DataError

_SpanScheme = Literal["iob1", "iob2", "bilou"]
OUTSIDE = "O"
MEANING = {"B": "B", "I": "I", "M": "I", "L": "L", "E": "L", "U": "U", "S": "U"}
_LETTERS = {"iob1": "BI", "iob2": "BI", "bilou": "BIMLEUS"}


class Span(NamedTuple):
    """Words ``begin`` to ``end - 1`` are a ``kind``."""

    begin: int
    end: int
    kind: str


class SchemeError(DataError):
    """Tags that violate a scheme. ``word`` is the index in the sentence, from 0."""

    def __init__(self, word: int, problem: str) -> None:
        super().__init__(problem)
        self.word = word


@dataclass(frozen=True)
class Dialect:
    """The notation of a scheme: the letters for the inside, the last and the only word of a span."""

    scheme: _SpanScheme
    inside: str = "I"
    last: str = "L"
    only: str = "U"

    def __post_init__(self) -> None:
        if self.scheme not in _LETTERS:
            raise ValueError(f"scheme must be {', '.join(_LETTERS)}, got {self.scheme!r}. Choose one of them.")

    @property
    def name(self) -> str:
        """The usual name of the notation: iob1, iob2, bilou, bioes or bmes."""
        if self.scheme != "bilou":
            return self.scheme
        return "bmes" if self.inside == "M" else "bioes" if self.last == "E" else "bilou"


IOB1, IOB2, BILOU = Dialect("iob1"), Dialect("iob2"), Dialect("bilou")
BIOES, BMES = Dialect("bilou", "I", "E", "S"), Dialect("bilou", "M", "E", "S")


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the kind of a tag: ``B-PER`` is ("B", "PER"), and ``O`` is ("O", "")."""
    letter, _, kind = tag.partition("-")
    return letter, kind


def tags_to_spans(tags: Sequence[str], scheme: _SpanScheme) -> list[Span]:
    """The spans of tags, in order. Raises :class:`SchemeError` for tags that violate the scheme."""
    spans: list[Span] = []
    begin, before = 0, ("O", "")
    for i, tag in enumerate([*tags, OUTSIDE]):
        here = _read(tag, i, scheme)
        problem = find_problem(before, here, scheme)
        if problem:
            raise SchemeError(min(i, len(tags) - 1), _words(tags, i, problem, scheme))
        if before[0] != "O" and _begins(before, here, scheme):
            spans.append(Span(begin, i, before[1]))
        if here[0] != "O" and _begins(before, here, scheme):
            begin = i
        before = here
    return spans


def spans_to_tags(spans: Iterable[Span], n: int, dialect: Dialect) -> list[str]:
    """The tags of ``n`` words for spans in order that do not overlap."""
    tags = [OUTSIDE] * n
    last_end, last_kind = 0, None
    for begin, end, kind in spans:
        if not last_end <= begin < end <= n:
            raise DataError(
                f"Spans must be in order, within {n} words and without overlap, got {begin} to {end} of {kind!r}. "
                f"Remove it."
            )
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
    """The same spans in another scheme. The conversion is invertible."""
    return spans_to_tags(tags_to_spans(tags, old), len(tags), new)


def detect_dialect(tags: Iterable[str], scheme: _SpanScheme) -> Dialect:
    """The dialect of a scheme in which tags are written."""
    if scheme != "bilou":
        return Dialect(scheme)
    letters = {split_tag(tag)[0] for tag in tags}
    last, only = ("L", "U") if letters & {"L", "U"} else ("E", "S")
    return Dialect("bilou", "M" if "M" in letters else "I", last, only)


def marks_spans(tags: Iterable[str]) -> bool:
    """Whether a set of tags looks like a span scheme: O or letters with a kind, with at least one B or I."""
    seen = set(tags)
    known = seen - {OUTSIDE}
    if not known or not {split_tag(tag)[0] for tag in known} <= set(MEANING):
        return False
    if all("-" in tag for tag in known):
        return True
    return known == {"B", "I"} < seen or (known <= set(MEANING) and "B" in known and bool(known & set("LEUS")))


def describe_scheme(tags: Iterable[str]) -> str | None:
    """The scheme of a set of tags, as far as their letters show it: BIO, IO, BIOES, BILOU or BMES; None if none."""
    seen = set(tags)
    if not marks_spans(seen):
        return None
    letters = {split_tag(tag)[0] for tag in seen}
    if letters & set("LEUSM"):
        return detect_dialect(seen, "bilou").name.upper()
    return "BIO" if "B" in letters else "IO"


# --- transitions ------------------------------------------------------------------------------------------------------


def _read(tag: str, i: int, scheme: _SpanScheme) -> tuple[str, str]:
    if tag == OUTSIDE:
        return "O", ""
    letter, kind = split_tag(tag)
    if letter not in _LETTERS[scheme] or len(letter) != 1:
        raise SchemeError(
            i,
            f"the tag {tag!r} is not in the scheme {scheme}, whose tags are O or begin with "
            f"{', '.join(_LETTERS[scheme])} and a hyphen",
        )
    return MEANING[letter], kind


def _begins(before: tuple[str, str], here: tuple[str, str], scheme: _SpanScheme) -> bool:
    """Whether a span at ``before`` ends there and a span at ``here`` begins here."""
    if scheme == "bilou":
        return before[0] in "OLU"
    return here[0] != "I" or before[0] == "O" or before[1] != here[1]


def find_problem(before: tuple[str, str], here: tuple[str, str], scheme: _SpanScheme) -> str | None:
    """The problem with two adjacent tags, or None. The ends of a sentence are O."""
    (letter, kind), (next_letter, next_kind) = before, here
    inside = letter in "BI"
    if scheme == "iob2":
        wrong = next_letter == "I" and not (inside and kind == next_kind)
        return f"begins a span with I instead of B-{next_kind}" if wrong else None
    if scheme == "iob1":
        wrong = next_letter == "B" and not (inside and kind == next_kind)
        return "has B instead of I where no span of its kind ends" if wrong else None
    if inside and not (next_letter in "IL" and kind == next_kind):
        return f"ends a span of {kind!r} that has no last word" if kind else "ends a span that has no last word"
    if not inside and next_letter in "IL":
        return f"continues a span that did not begin; B or U of {next_kind!r} is needed"
    return None


def _words(tags: Sequence[str], i: int, problem: str, scheme: _SpanScheme) -> str:
    here = repr(tags[i]) if i < len(tags) else "the end of the sentence"
    before = f" after {tags[i - 1]!r}" if i else " at the beginning of the sentence"
    return f"{here}{before} {problem} ({scheme})"


def follows(before: str | None, here: str | None, scheme: _SpanScheme) -> bool:
    """Whether a tag may follow another. None is the beginning or the end of a sentence."""
    first = ("O", "") if before is None else _read(before, 0, scheme)
    second = ("O", "") if here is None else _read(here, 0, scheme)
    return find_problem(first, second, scheme) is None
