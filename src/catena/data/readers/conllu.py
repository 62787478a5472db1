"""CoNLL-U, the format of Universal Dependencies: ten tab-separated fields per word, with ``#`` comments.

Everything is kept: multiword ranges (``3-4``), empty nodes (``5.1``), enhanced dependencies, ``_``, comments.
Writing what was read gives the same bytes if the file has LF line ends and one blank line after each sentence, as the
format requires.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from catena.data.examples import ConlluRow, ConlluSentence, SourceLocation
from catena.data.files import open_text, split_blocks
from catena.data.reading import DamagedRecords, ReadCounter

_WORD = re.compile(r"[1-9][0-9]*", re.ASCII)
_RANGE = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)", re.ASCII)
_EMPTY = re.compile(r"(0|[1-9][0-9]*)\.([1-9][0-9]*)", re.ASCII)
_MOST_DIGITS = 9
NO_HEAD = "with a word without a head"
"""The problem of a sentence that is annotated in part."""


def read(
    path: Path | str, *, encoding: str | None = None, counter: ReadCounter | None = None, heads: bool = True
) -> Iterator[ConlluSentence]:
    """Yield the sentences. Words must be numbered from 1 without gaps, and heads must be words of the sentence.

    Args:
        path: the file.
        encoding: UTF-8 if omitted.
        counter: counts the sentences and lists those that are dropped because of an invalid row or head. Without one,
            the first of them raises an error.
        heads: False does not check heads, for tasks that read only words and tags.
    """
    with open_text(path, encoding, keep_nuls=True) as lines:
        yield from read_lines(path, lines, counter, heads)


def read_lines(
    path: Path | str, lines: Iterable[tuple[int, str]], counter: ReadCounter | None = None, heads: bool = True
) -> Iterator[ConlluSentence]:
    """Yield the sentences of numbered lines. ``path`` names them in errors, such as "standard input"."""
    damaged = DamagedRecords(path, counter, "See https://universaldependencies.org/format.html.")
    for block in split_blocks(lines):
        comments = [line for _, line in block if line.startswith("#")]
        rows = [(number, line) for number, line in block if not line.startswith("#")]
        if not rows and counter is not None:
            continue  # comments at the end of a file that was cut
        damaged.saw()
        try:
            if not rows:
                raise _InvalidRowError(block[-1], "with comments and no words", "is a comment with no words after it")
            inside = next((line for line in block[block.index(rows[0]) :] if line[1].startswith("#")), None)
            if inside is not None:
                what = "is a comment inside a sentence, without a blank line before it"
                raise _InvalidRowError(inside, "with a comment inside", what)
            yield _sentence(path, comments, rows, heads, counter)
        except _InvalidRowError as row:
            location = SourceLocation(str(path), row.line[0])
            if row.is_head and counter is not None:
                counter.drop(row.reason, location, row.line[1])
            else:
                damaged.add(location, row.reason, row.line[1], row.problem)
    damaged.check()


class _InvalidRowError(Exception):
    """A row that violates the format: the reason to drop its sentence, and the problem of the line."""

    def __init__(self, line: tuple[int, str], reason: str, problem: str, is_head: bool = False) -> None:
        self.line, self.reason, self.problem, self.is_head = line, reason, problem, is_head


def to_text(sentence: ConlluSentence) -> str:
    """The sentence in CoNLL-U, followed by a blank line."""
    lines = [*sentence.comments, *("\t".join(row) for row in sentence.rows)]
    return "\n".join(lines) + "\n\n"


def write(path: Path, sentences: Iterable[ConlluSentence]) -> int:
    """Write sentences to a file as UTF-8 and return their number."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        for sentence in sentences:
            stream.write(to_text(sentence))
            count += 1
    return count


def _sentence(
    path: Path | str, comments: list[str], lines: list[tuple[int, str]], heads: bool, counter: ReadCounter | None
) -> ConlluSentence:
    rows = [_row(path, line, counter) for line in lines]
    n_words = n_empty = range_end = 0
    for row, line in zip(rows, lines, strict=True):
        if _WORD.fullmatch(row.id):
            if row.id != str(n_words + 1):
                missing = " (a blank line is required before a new sentence)" if row.id == "1" else ""
                raise _numbering(line, f"must have the word number {n_words + 1}, got {row.id}{missing}")
            n_words, n_empty = n_words + 1, 0
        elif match := _RANGE.fullmatch(row.id):
            starts = len(row.id) <= 2 * _MOST_DIGITS and n_words + 1 == int(match[1]) < int(match[2])
            if not starts or n_words < range_end:
                raise _numbering(line, f"must have a range that begins at word {n_words + 1}, got {row.id[:20]}")
            range_end = int(match[2])
        elif _EMPTY.fullmatch(row.id):
            if row.id != f"{n_words}.{n_empty + 1}":
                raise _numbering(line, f"must have the empty node {n_words}.{n_empty + 1}, got {row.id}")
            n_empty += 1
        else:
            raise _numbering(line, f"must begin with a word number, range or empty node, got {row.id[:20]!r}")
    if not n_words or range_end > n_words:
        problem = f"begins a range to word {range_end} of {n_words}" if n_words else "begins a sentence without words"
        raise _numbering(lines[0], problem)
    if heads:
        _check_heads(rows, lines, n_words)
    return ConlluSentence(tuple(rows), tuple(comments), SourceLocation(str(path), lines[0][0]))


def _numbering(line: tuple[int, str], problem: str) -> _InvalidRowError:
    return _InvalidRowError(line, "with words that are not numbered from 1", problem)


def _row(path: Path | str, line: tuple[int, str], counter: ReadCounter | None) -> ConlluRow:
    fields = line[1].split("\t")
    by_blanks = line[1].split()
    if len(fields) == 1 and len(by_blanks) == 10 and counter is not None:
        counter.note("rows with blanks instead of tabs between fields", SourceLocation(str(path), line[0]), line[1])
        fields = by_blanks
    if len(fields) == 10 and "\0" not in line[1]:
        return ConlluRow(*fields)
    problem = f"must have 10 tab-separated fields, got {len(fields)}"
    if "\0" in line[1]:
        raise _InvalidRowError(line, "with a NUL byte", "has a NUL byte")
    if len(fields) == 1 and len(by_blanks) == 10:
        problem = "must have 10 tab-separated fields, got fields separated by blanks"
    raise _InvalidRowError(line, "with a row of other than 10 tab-separated fields", problem)


# --- heads ------------------------------------------------------------------------------------------------------------


def _check_heads(rows: list[ConlluRow], lines: list[tuple[int, str]], n_words: int) -> None:
    valid = {str(n) for n in range(n_words + 1)} | {"_"}
    for row, line in zip(rows, lines, strict=True):
        if row.head not in valid:
            problem = f"must have a head from 0 to {n_words} or _, got {row.head[:20]!r}"
            raise _InvalidRowError(line, "with a head outside the sentence", problem, is_head=True)


def find_head_problem(sentence: ConlluSentence, single_root: bool = True) -> tuple[int, str] | None:
    """The line and the reason if the heads of a sentence are not a tree, or not all known; otherwise None.

    The reason completes "1 …": "with a cycle of heads".
    """
    heads = [None if word.head == "_" else int(word.head) for word in sentence.words]
    lines = [sentence.location.line + i for i, row in enumerate(sentence.rows) if row.id.isdecimal()]
    for word, head in enumerate(heads, start=1):
        if head == word:
            return lines[word - 1], "with a word that is its own head"
    roots = [word for word, head in enumerate(heads, start=1) if head == 0]
    if single_root and len(roots) > 1:
        return lines[roots[1] - 1], f"with {len(roots)} roots"
    clear: set[int] = set()
    for word in range(1, len(heads) + 1):
        here: int | None = word
        seen: set[int] = set()
        while here and here not in clear:
            if here in seen:
                return lines[word - 1], "with a cycle of heads"
            seen.add(here)
            here = heads[here - 1]
        clear |= seen
    return (lines[heads.index(None)], NO_HEAD) if None in heads else None
