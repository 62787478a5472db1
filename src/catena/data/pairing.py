"""Pairs of texts: whether they are sentences, whether the first line is a header, and where two files misalign.

Parallel lines have similar lengths. If the longer file has d extra lines in one block after line p, then its later
lines are parallel to lines d positions earlier in the other file. The p with the most similar lengths is the likely
position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import regex

from catena.data.files import open_text
from catena.data.languages import language_by_code, language_by_name
from catena.data.readers.names import CONTEXT_NAMES, RESPONSE_NAMES

T = TypeVar("T")

SENTENCE = 3.0
"""Mean number of words of a text from which pairs are sentences rather than words."""
_HEADERS = (
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("instruction", "output"), ("input", "output"),
    ("text", "summary"), ("word", "pronunciation"),
)  # fmt: skip
"""Column names that a header may have instead of a pair, in either order."""
_SIDES = (
    (CONTEXT_NAMES, RESPONSE_NAMES),
    (("text", "article", "document", "dialogue", "body", "source"), ("summary", "highlights", "abstract", "headline")),
    (
        ("original", "sentence", "text", "source", "input"),
        ("translation", "paraphrase", "simplified", "corrected", "correction", "target", "output"),
    ),
    (("incorrect", "wrong", "noisy", "complex", "informal"), ("correct", "right", "clean", "simple", "formal")),
)
"""Words that may be column names or a pair: any of the first with any of the second, in either order."""
_FILLERS = frozenset({"text", "texts", "sentence", "sentences", "language", "lang"})
"""Uninformative words in column names: source text, en_sentence."""
_NUMBERS = frozenset({"id", "no"})
"""Column names that are also language codes."""
_SAMPLE = 500
"""Number of lines that are examined."""
_NO_BLANKS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


def names_columns(fields: Sequence[str]) -> bool:
    """Whether the fields of a first line are certainly column names.

    That is, they are source and target or similar, or the full names of two languages.
    """
    names = _names(fields)
    if any(names in (pair, pair[::-1]) for pair in _HEADERS):
        return True
    return _are_two([language_by_name(name) for name in names])


def may_name_columns(fields: Sequence[str]) -> bool:
    """Whether the fields of a first line may be column names or a pair of words, so that the next lines decide.

    Examples are en and de, question and answer.
    """
    names = _names(fields)
    if len(names) != 2:
        return False
    if _are_two([language_by_code(name) or language_by_name(name) for name in names]):
        return True
    return any(names[i] in first and names[1 - i] in second for first, second in _SIDES for i in (0, 1))


def are_responses(source: str, target: str) -> bool:
    """Whether two column names denote a context and a response, such as question and answer."""
    names = _names((source, target))
    return names[0] in _SIDES[0][0] and names[1] in _SIDES[0][1]


def find_pair_columns_by_name(names: Sequence[str]) -> tuple[int, int] | None:
    """The indices of the source and target columns by name, or None if the names are not informative.

    The names are source and target, two languages in their order, or question and answer and similar.
    """
    told = _names(names)
    for source, target in _HEADERS:
        if source in told and target in told:
            return told.index(source), told.index(target)
    for language in (language_by_name, lambda name: language_by_code(name) or language_by_name(name)):
        found = [(i, known) for i, name in enumerate(told) if (known := language(name)) is not None]
        if len(told) > 2:  # "id" or "no" in front is a number, not Indonesian or Norwegian
            found = [(i, known) for i, known in found if told[i] not in _NUMBERS]
        if _are_two([known for _, known in found]):
            return found[0][0], found[1][0]
    for first, second in _SIDES:
        both = [next((told.index(name) for name in side if name in told), None) for side in (first, second)]
        if both[0] is not None and both[1] is not None and both[0] != both[1]:
            return both[0], both[1]
    return None


def part_header(items: Iterable[T], fields_of: Callable[[T], Sequence[str]]) -> tuple[T | None, Iterator[T]]:
    """The header if the first item is one, otherwise None, and the items that are pairs.

    Ambiguous names are a header if at least one side of the lines below has sentences, and neither these names nor
    other single words occur below. If in doubt, a line is a pair.
    """
    rest = iter(items)
    for first in rest:
        if names_columns(fields_of(first)):
            return first, rest
        if not may_name_columns(fields_of(first)):
            return None, chain([first], rest)
        below = [*islice(rest, _SAMPLE)]
        if _tells_a_header(fields_of(first), [fields_of(item) for item in below]):
            return first, chain(below, rest)
        return None, chain([first], below, rest)
    return None, iter(())


def _tells_a_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    filled = [row for row in below if len(row) == len(first) and all(field.strip() for field in row)]
    if not filled or any(tuple(row) == tuple(first) or all(map(_is_bare, row)) for row in filled):
        return False
    return max(mean_words(row[side] for row in filled) for side in (0, 1)) >= SENTENCE


def _is_bare(text: str) -> bool:
    """Whether a text is one word without a period."""
    return text.strip().isalpha() and not _NO_BLANKS.search(text)


def _names(fields: Sequence[str]) -> tuple[str, ...]:
    """The fields as names, in lower case, without uninformative words."""
    return tuple(_telling(field.strip().casefold()) for field in fields)


def _telling(name: str) -> str:
    words = regex.split(r"[\s_]+", name)
    kept = [word for word in words if word not in _FILLERS]
    return kept[0] if len(kept) == 1 and len(words) == 2 else name


def _are_two(languages: Sequence[str | None]) -> bool:
    return len(languages) == 2 and None not in languages and languages[0] != languages[1]


def sources_of_lines(lines: Iterable[str], swap: bool = False) -> Iterator[str]:
    """The sources of lines: each line, or the part before its tab (after it if the columns are swapped).

    A header line is dropped.
    """
    header, rows = part_header((line.split("\t") for line in lines), list)
    left, right = (header and find_pair_columns_by_name(header)) or (0, -1)
    yield from (fields[(right if swap else left) if len(fields) > 1 else 0] for fields in rows)


def are_sentences(path: Path, encoding: str | None = None) -> bool:
    """Whether both columns of a file of pairs have sentences, by the mean number of words.

    In scripts without blanks, two characters count as a word.
    """
    with open_text(path, encoding) as lines:
        rows = [line.split("\t") for _, line in islice(lines, _SAMPLE) if line.count("\t") == 1]
    return bool(rows) and min(mean_words(row[side] for row in rows) for side in (0, 1)) >= SENTENCE


def mean_words(texts: Iterable[str]) -> float:
    """The mean number of words of texts. In scripts without blanks, two characters count as a word."""
    counted = [max(len(text.split()), len(_NO_BLANKS.findall(text)) / 2) for text in texts]
    return float(np.mean(counted))


def likely_break(shorter: Sequence[int], longer: Sequence[int]) -> int:
    """The number of lines after which the longer file has lines that the shorter one lacks. Time O(n).

    Args:
        shorter: the lengths of the lines of the shorter file.
        longer: the lengths of the lines of the longer file.
    """
    a, b = (np.log1p(np.asarray(lengths, np.float64)) for lengths in (shorter, longer))
    n, extra = len(a), len(b) - len(a)
    ratio = float(np.median(b) - np.median(a)) if n else 0.0
    before = np.abs(b[:n] - a - ratio)  # if nothing is missing up to here
    behind = np.abs(b[extra : extra + n] - a - ratio)
    cost = np.concatenate(([0.0], np.cumsum(before))) + np.concatenate((np.cumsum(behind[::-1])[::-1], [0.0]))
    return int(cost.argmin())
