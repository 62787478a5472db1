"""Questions about texts with their answers: SQuAD JSON, JSON lines, CSV and TSV.

squad   ``{"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text",
        "answer_start"}], "is_impossible"}]}]}]}``, version 1.1 or 2.0
json    a list of objects, or one object per line, with the keys context, question, answers (a string, a list of
        strings, or of objects with text and start; or ``{"text": […], "answer_start": […]}``), start and id
table   CSV or TSV with a header that names the same; answers in one field may be separated

Offsets count characters. An answer whose given start is wrong is moved to its nearest occurrence, and one without a
start to its first; an answer that does not occur in its context has no start. A question whose context or question is
blank is dropped. All of these are counted and listed by :class:`QuestionCounter`. A question without answers has no
answer in its context, or is to be predicted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text, shorten
from catena.data.readers.delimited import TableLayout, split_records
from catena.data.readers.objects import parse_line
from catena.data.reading import Dropped, ReadCounter
from catena.data.roles import find_column
from catena.errors import DataError, FormatError

CONTEXT_KEYS = ("context", "paragraph", "passage", "document", "text")
QUESTION_KEYS = ("question", "query")
ANSWER_KEYS = ("answers", "answer", "answer_text")
START_KEYS = ("start", "answer_start", "starts", "answer_starts")
ID_KEYS = ("id", "qid", "question_id")
_NAMES = {
    "context": CONTEXT_KEYS,
    "question": QUESTION_KEYS,
    "answers": ANSWER_KEYS,
    "start": START_KEYS,
    "id": ID_KEYS,
}
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
    for raw in _read(path, format or detect_question_format(path, encoding), separator, encoding):
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


def _read(path: Path, format: QuestionFormat, separator: str | None, encoding: str | None) -> Iterator[_Raw]:
    if format == "squad":
        return _squad(path, _parse(path, encoding))
    if format == "json":
        return _list(path, _parse(path, encoding))
    if format == "jsonl":
        return _lines(path, encoding)
    return _table(path, "\t" if format == "tsv" else ",", separator, encoding)


def _parse(path: Path, encoding: str | None) -> Any:
    with open_text(path, encoding) as lines:
        text = "\n".join(line for _, line in lines)
    try:
        return json.loads(text)
    except RecursionError:
        raise FormatError(f"{path} is JSON nested too deeply. Flatten it.") from None
    except json.JSONDecodeError as error:
        line = text.split("\n")[error.lineno - 1][max(0, error.colno - 30) :]
        cure = "Correct it, or write one object per line."
        raise bad_line(path, error.lineno, line, f"is not JSON ({error.msg})", cure) from None


def _squad(path: Path, whole: Any) -> Iterator[_Raw]:
    number = 0
    for i, article in enumerate(_get_list(path, whole, "data", "")):
        at = f"data[{i}]"
        title = article.get("title") if isinstance(article, dict) else None
        for j, paragraph in enumerate(_get_list(path, article, "paragraphs", at)):
            inside = f"{at}.paragraphs[{j}]"
            questions = _get_list(path, paragraph, "qas", inside)
            for k, thing in enumerate(questions):
                number += 1
                location = SourceLocation(str(path), number)
                if not isinstance(thing, dict):
                    raise _wrong(path, f"{inside}.qas[{k}]", "an object", thing)
                raw = _from_object({"context": paragraph.get("context"), **thing}, location)
                yield replace(raw, title=title if isinstance(title, str) else "")


def _get_list(path: Path, thing: Any, key: str, at: str) -> list[Any]:
    where = f"{at}.{key}" if at else key
    if not isinstance(thing, dict):
        raise _wrong(path, at or "the file", "an object", thing)
    if not isinstance(thing.get(key), list):
        raise _wrong(path, where, "a list", thing.get(key))
    return thing[key]


def _wrong(path: Path, where: str, need: str, value: Any) -> FormatError:
    return FormatError(f"{where} of {path} must be {need}, got {shorten(repr(value), 40)}. Follow the format of SQuAD.")


def _lines(path: Path, encoding: str | None) -> Iterator[_Raw]:
    with open_text(path, encoding) as lines:
        for number, line in lines:
            if line.strip():
                location = SourceLocation(str(path), number)
                yield _from_object(parse_line(line, location), location)


def _list(path: Path, whole: Any) -> Iterator[_Raw]:
    if not isinstance(whole, list):
        raise FormatError(f"{path} must be a list of objects, got a {type(whole).__name__}. Write a list.")
    for number, thing in enumerate(whole, start=1):
        location = SourceLocation(str(path), number)
        if not isinstance(thing, dict):
            raise FormatError(f"{location} must be an object, got {shorten(repr(thing), 40)}. Write a list of objects.")
        yield _from_object(thing, location)


def _from_object(thing: Mapping[str, Any], location: SourceLocation) -> _Raw:
    names = {role: find_column(list(thing), known, exact=True) for role, known in _NAMES.items()}
    for role in ("context", "question"):
        if names[role] is None:
            raise FormatError(
                f"{location} must have a key {role!r}, got {', '.join(map(repr, thing)) or 'none'}. Add it."
            )
    value = {role: None if name is None else thing[name] for role, name in names.items()}
    impossible = thing.get("is_impossible") is True
    answers = [] if impossible else list(_answers(value["answers"], value["start"], location))
    key = value["id"]
    return _Raw(value["context"], value["question"], answers, None if key is None else str(key), location)


def _answers(answers: Any, starts: Any, location: SourceLocation) -> Iterator[tuple[str, int | None]]:
    """Texts and starts from any of the forms above."""
    if isinstance(answers, dict) and isinstance(answers.get("text"), list):
        answers, starts = answers["text"], answers.get(find_column(list(answers), START_KEYS, exact=True) or "")
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
            raise FormatError(
                f"An answer of {location} must be a text with an integer start, got "
                f"{shorten(repr((thing, start)), 60)}. "
                'Write {"text": "…", "start": 0}.'
            )
        yield thing, start


def _table(path: Path, delimiter: str, separator: str | None, encoding: str | None) -> Iterator[_Raw]:
    names: list[str] | None = None
    with open_text(path, encoding) as lines:
        for record in split_records(lines, TableLayout(delimiter)):
            fields = record.values
            if record.note:
                raise bad_line(path, record.line, record.raw, "has a quote that is not closed", "Double or remove it.")
            if not any(value.strip() for value in fields):
                continue
            if names is None:
                names = [name.strip() for name in fields]
                continue
            if len(fields) != len(names):
                problem = f"must have {len(names)} fields as the header, got {len(fields)}"
                raise bad_line(path, record.line, record.raw, problem, "Quote texts with a delimiter inside.")
            location = SourceLocation(str(path), record.line)
            yield _from_object(_split(dict(zip(names, fields, strict=True)), separator, location), location)


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
        self.counter.questions.saw()
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
