"""Questions about texts with their answers: SQuAD JSON, JSON lines, CSV and TSV.

squad   ``{"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text",
        "answer_start"}], "is_impossible"}]}]}]}``, version 1.1 or 2.0
json    a list of objects, or one object per line, with the keys context, question, answers (a string, a list of
        strings, or of objects with text and start; or ``{"text": […], "answer_start": […]}``), start and id
table   CSV or TSV with a header that names the same; answers in one field may be separated

Files are read by :mod:`catena.data.tables`, so that a few damaged records are dropped and listed as everywhere.
Offsets count characters. An answer whose given start is wrong is moved to its nearest occurrence, and one without a
start to its first; an answer that does not occur in its context has no start. A question whose context or question is
blank is dropped. All of these are counted and listed by :class:`QuestionCounter`. A question without answers has no
answer in its context, or is to be predicted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from catena.data.examples import SourceLocation
from catena.data.files import open_text, shorten
from catena.data.readers.delimited import Row
from catena.data.readers.objects import read_document, read_lines
from catena.data.reading import DamagedRecords, Dropped, ReadCounter, parse_rows
from catena.data.roles import find_column
from catena.data.tables import open_table
from catena.errors import DataError, FormatError

CONTEXT_KEYS = ("context", "paragraph", "passage", "document", "text")
QUESTION_KEYS = ("question", "query")
ANSWER_KEYS = ("answers", "answer", "answer_text")
START_KEYS = ("start", "answer_start", "starts", "answer_starts")
ID_KEYS = ("id", "qid", "question_id")
_LISTS = ("answers.text", "answers.answer_start")
"""The columns of ``{"text": […], "answer_start": […]}``, the form of SQuAD and of Hugging Face."""
_CURE = "Write a context, a question and its answers in each record."
QuestionFormat = Literal["squad", "json", "jsonl", "csv", "tsv"]


@dataclass(frozen=True, slots=True)
class ReferenceAnswer:
    """A correct answer, and the index of its first character in the context; None if it does not occur there."""

    text: str
    start: int | None

    @property
    def end(self) -> int | None:
        """The index after its last character."""
        return None if self.start is None else self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a text with its correct answers.

    ``context[answer.start:answer.end] == answer.text`` for every answer with a start. The location
    is a line, or the number of the question in files without lines.
    """

    context: str
    question: str
    answers: tuple[ReferenceAnswer, ...]
    id: str
    location: SourceLocation
    title: str = ""

    @property
    def references(self) -> tuple[str, ...]:
        """The texts of the answers, for metrics."""
        return tuple(answer.text for answer in self.answers)


@dataclass
class QuestionCounter:
    """Counts of the questions and answers of files; each of them reconciles.

    ``answers`` drops the answers without a start, which evaluation still uses. ``moved`` lists what is used but was
    not as given.
    """

    questions: ReadCounter = field(default_factory=ReadCounter)
    answers: ReadCounter = field(default_factory=ReadCounter)
    moved: list[Dropped] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """One sentence each about questions, answers and moved answers."""
        found = [
            f"questions: {self.questions.counts(self.questions.used).sentence('')}",
            f"answers: {self.answers.counts(self.answers.used).sentence('')}",
        ]
        if self.moved:
            found.append(f"corrected: {len(self.moved):,}, first {self.moved[0].location}: {self.moved[0].reason}")
        return found


def read_questions(
    path: Path | str,
    counter: QuestionCounter | None = None,
    *,
    format: QuestionFormat | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> list[QuestionExample]:
    """The questions of a file in order.

    Args:
        path: the file, compressed or not.
        counter: receives counts and everything that was dropped or corrected.
        format: detected by name and content if omitted.
        separator: separator of several answers in a field of a table, such as "|".
        encoding: UTF-8 if omitted.

    Raises:
        FormatError: if the file is not JSON, or does not have the keys or columns above.
        DataError: if no question is left.
    """
    path, counter = Path(path), counter or QuestionCounter()
    found = _Collector(counter)
    damaged = DamagedRecords(path, counter.questions, _CURE)
    format = format or detect_question_format(path, encoding)

    def parse(row: Row) -> _Raw:
        if row.short is not None:
            raise ValueError(row.short)
        is_table = format in ("csv", "tsv")
        values = _split(dict(row.values), separator, row.location) if is_table else row.values
        return _to_question(values, row.location)

    for _, raw in parse_rows(_rows(path, format, encoding), damaged, parse):
        found.add(raw)
    if not found.examples:
        raise DataError(
            f"{path} has no question that can be used: {counter.questions.counts(0).sentence('')}. Check the file."
        )
    return found.examples


def align_answers(context: str, texts: Sequence[str]) -> tuple[ReferenceAnswer, ...]:
    """The answers with these texts at their first occurrence in a context that is not inside a word."""
    return tuple(ReferenceAnswer(text.strip(), _find_nearest(context, text.strip(), None)) for text in texts)


def detect_question_format(path: Path, encoding: str | None = None) -> QuestionFormat:
    """The format of a file of questions, by its name for tables and its content for JSON."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    for name in ("csv", "tsv"):
        if f".{name}" in suffixes[-2:]:
            return name
    with open_text(path, encoding) as lines:
        first = next((line for _, line in lines if line.strip()), "")
    if first.lstrip().startswith("["):
        return "json"
    if not first.lstrip().startswith("{"):
        raise FormatError(
            f"{path} must be JSON, JSON lines, or a table named .csv or .tsv, got a file that begins with "
            f"{shorten(first, 40)}. Convert it."
        )
    try:
        whole = json.loads(first)
    except (ValueError, RecursionError):
        return "squad"
    return "squad" if "data" in whole else "jsonl"


# --- raw questions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Raw:
    """A question as written; ``answers`` are texts with starts, which may be None or wrong."""

    context: Any
    question: Any
    answers: Sequence[tuple[str, int | None]]
    id: str | None
    location: SourceLocation
    title: str = ""


def _rows(path: Path, format: QuestionFormat, encoding: str | None) -> Iterator[Row]:
    if format in ("csv", "tsv"):
        return open_table(path, format, {}, encoding).rows(None)
    return read_lines(path, encoding) if format == "jsonl" else read_document(path, encoding)


def _to_question(values: Mapping[str, Any], location: SourceLocation) -> _Raw:
    names = [name for name in values if name not in _LISTS]
    known = {
        "context": CONTEXT_KEYS,
        "question": QUESTION_KEYS,
        "answers": ANSWER_KEYS,
        "start": START_KEYS,
        "id": ID_KEYS,
    }
    value: dict[str, Any] = {}
    for role, keys in known.items():
        name = find_column(names, keys, exact=True)
        if name is None and role in ("context", "question"):
            raise FormatError(
                f"{location} must have a key {role!r}, got {', '.join(map(repr, values)) or 'none'}. Add it."
            )
        value[role] = None if name is None else values[name]
    if _LISTS[0] in values:
        value["answers"], value["start"] = values[_LISTS[0]], values.get(_LISTS[1])
    impossible = values.get("is_impossible") is True
    answers = [] if impossible else list(_answers(value["answers"], value["start"], location))
    key, title = value["id"], values.get("title")
    own = None if key is None else str(key)
    return _Raw(value["context"], value["question"], answers, own, location, title if isinstance(title, str) else "")


def _answers(answers: Any, starts: Any, location: SourceLocation) -> Iterator[tuple[str, int | None]]:
    """Texts and starts from any of the forms above."""
    if answers is None or answers == "":
        return
    texts = answers if isinstance(answers, list) else [answers]
    given = starts if isinstance(starts, list) else [starts] * len(texts)
    for i, thing in enumerate(texts):
        start = given[i] if i < len(given) else None
        if isinstance(thing, dict):
            start = thing.get(find_column(list(thing), START_KEYS, exact=True) or "")
            thing = thing.get("text")
        if not isinstance(thing, str) or (start is not None and type(start) is not int):
            got = shorten(repr(thing if start is None else (thing, start)), 60)
            raise FormatError(
                f"An answer of {location} must be a text with an integer start, got {got}. Write "
                '{"text": "…", "start": 0}, or name another task, such as \'catena train classify\'.'
            )
        yield thing, start


def _split(row: dict[str, Any], separator: str | None, location: SourceLocation) -> dict[str, Any]:
    """The row with its answers and starts as lists."""
    answer, start = find_column(list(row), ANSWER_KEYS, exact=True), find_column(list(row), START_KEYS, exact=True)
    if answer is not None:
        row[answer] = [text for text in (row[answer].split(separator) if separator else [row[answer]]) if text.strip()]
    if start is not None:
        values = [value.strip() for value in (row[start].split(separator) if separator else [row[start]])]
        for value in values:
            if value and not re.fullmatch(r"[0-9]+", value):
                raise FormatError(f"{start} of {location} must be an integer, got {value!r}. Count characters from 0.")
        row[start] = [int(value) if value else None for value in values]
    return row


# --- checks -----------------------------------------------------------------------------------------------------------


class _Collector:
    """Turns raw questions into examples and counts what is wrong with them."""

    def __init__(self, counter: QuestionCounter) -> None:
        self.counter = counter
        self.examples: list[QuestionExample] = []
        self._ids: set[str] = set()

    def add(self, raw: _Raw) -> None:
        for role, value in (("context", raw.context), ("question", raw.question)):
            if not isinstance(value, str) or not value.strip():
                self.counter.questions.drop(f"without {role}", raw.location, str(raw.question or ""))
                return
        answers = tuple(self._align(raw, text, start) for text, start in raw.answers)
        found = QuestionExample(raw.context, raw.question, answers, self._own_id(raw), raw.location, raw.title)
        self.examples.append(found)

    def _align(self, raw: _Raw, text: str, start: int | None) -> ReferenceAnswer:
        self.counter.answers.saw()
        if text.strip() and start is not None and start >= 0 and raw.context.startswith(text, start):
            return ReferenceAnswer(text, start)
        found = _find_nearest(raw.context, text.strip(), start)
        if found is None:
            self.counter.answers.drop("not in the context", raw.location, text)
            return ReferenceAnswer(text, None)
        if start is not None:
            reason = f"the answer is at character {found}, not {start}"
            self.counter.moved.append(Dropped(raw.location, reason, text))
        return ReferenceAnswer(text.strip(), found)

    def _own_id(self, raw: _Raw) -> str:
        own = raw.id if raw.id is not None else str(raw.location.line)
        if own in self._ids:
            reason = f"the id {own!r} is not the first; it is now {own}#{raw.location.line}"
            self.counter.moved.append(Dropped(raw.location, reason, raw.question))
            own = f"{own}#{raw.location.line}"
        self._ids.add(own)
        return own


def _find_nearest(context: str, text: str, start: int | None) -> int | None:
    """The occurrence nearest to ``start``, or the first that is not inside a word, or the first."""
    if not text:
        return None
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    if not places:
        return None
    if start is not None:
        return min(places, key=lambda place: abs(place - start))
    return next((place for place in places if _is_apart(context, place, place + len(text))), places[0])


def _is_apart(context: str, start: int, end: int) -> bool:
    """Whether a span neither begins nor ends inside a word."""
    inside_first = start > 0 and context[start - 1].isalnum() and context[start].isalnum()
    inside_last = end < len(context) and context[end - 1].isalnum() and context[end].isalnum()
    return not inside_first and not inside_last
