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
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import conllu_sign, hint
from catena.errors import FormatError

_WORD = re.compile(r"[1-9][0-9]*", re.ASCII)
_RANGE = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)", re.ASCII)
_EMPTY = re.compile(r"(0|[1-9][0-9]*)\.([1-9][0-9]*)", re.ASCII)
_MOST_DIGITS = 9


def read(path: Path | str, *, encoding: str | None = None) -> Iterator[ConlluSentence]:
    """Yield the sentences. Words must be numbered from 1 without gaps, and heads must be words of the sentence."""
    with open_text(path, encoding) as lines:
        yield from read_lines(path, lines)


def read_lines(path: Path | str, lines: Iterable[tuple[int, str]]) -> Iterator[ConlluSentence]:
    """Yield the sentences of numbered lines. ``path`` names them in errors, such as "standard input"."""
    comments: list[str] = []
    rows: list[tuple[int, str]] = []
    number = 0
    for number, line in lines:
        if not line.strip():
            if rows:
                yield _sentence(path, comments, rows)
                comments, rows = [], []
            elif comments:
                raise _bad(path, number - 1, comments[-1], "is a comment with no words after it")
        elif line.startswith("#"):
            if rows:
                raise _bad(path, number, line, "is a comment inside a sentence, without a blank line before it")
            comments.append(line)
        else:
            rows.append((number, line))
    if rows:
        yield _sentence(path, comments, rows)
    elif comments:
        raise _bad(path, number, comments[-1], "is a comment with no words after it")


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


def _sentence(path: Path | str, comments: list[str], lines: list[tuple[int, str]]) -> ConlluSentence:
    rows: list[ConlluRow] = []
    n_words = n_empty = range_end = 0
    for number, line in lines:
        row = _row(path, number, line)
        rows.append(row)
        if _WORD.fullmatch(row.id):
            if row.id != str(n_words + 1):
                missing = " (a blank line is required before a new sentence)" if row.id == "1" else ""
                raise _bad(path, number, line, f"must have the word number {n_words + 1}, got {row.id}{missing}")
            n_words, n_empty = n_words + 1, 0
        elif match := _RANGE.fullmatch(row.id):
            if (
                len(row.id) > 2 * _MOST_DIGITS
                or not n_words + 1 == int(match[1]) < int(match[2])
                or n_words < range_end
            ):
                raise _bad(path, number, line, f"must have a range that begins at word {n_words + 1}, got {row.id}")
            range_end = int(match[2])
        elif match := _EMPTY.fullmatch(row.id):
            if row.id != f"{n_words}.{n_empty + 1}":
                raise _bad(path, number, line, f"must have the empty node {n_words}.{n_empty + 1}, got {row.id}")
            n_empty += 1
        else:
            raise _bad(
                path,
                number,
                line,
                f"must begin with a word number, range or empty node, got {row.id[:20]!r}",
            )
    if not n_words or range_end > n_words:
        problem = f"begins a range to word {range_end} of {n_words}" if n_words else "begins a sentence without words"
        raise _bad(path, lines[0][0], lines[0][1], problem)
    _check_heads(path, rows, lines, n_words)
    return ConlluSentence(tuple(rows), tuple(comments), SourceLocation(str(path), lines[0][0]))


def _row(path: Path | str, number: int, line: str) -> ConlluRow:
    fields = line.split("\t")
    if len(fields) == 10:
        return ConlluRow(*fields)
    by_blanks = len(line.split())
    problem = f"must have 10 tab-separated fields, got {len(fields)}"
    if len(fields) == 1 and by_blanks == 10:
        problem = "must have 10 tab-separated fields, got fields separated by blanks"
    raise _bad(path, number, line, problem)


def _check_heads(path: Path | str, rows: list[ConlluRow], lines: list[tuple[int, str]], n_words: int) -> None:
    heads = {str(n) for n in range(n_words + 1)} | {"_"}
    for row, (number, line) in zip(rows, lines, strict=True):
        if row.head not in heads:
            raise _bad(path, number, line, f"must have a head from 0 to {n_words} or _, got {row.head[:20]!r}")


def _bad(path: Path | str, number: int, line: str, problem: str) -> FormatError:
    cure = "See https://universaldependencies.org/format.html. " + hint(path, "conllu")
    return bad_line(path, number, line, problem, cure)


FORMAT = Format("conllu", "CoNLL-U", ConlluSentence, read, conllu_sign)
