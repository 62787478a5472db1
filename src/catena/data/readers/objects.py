"""JSON lines and JSON documents: one object for each record, with dotted names for nested keys.

A document may be an array of objects or of rows, an object that holds such an array under any key, objects one after
another, a table as pandas writes it (``orient`` columns, split or list), or SQuAD. Documents are read into memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text, shorten
from catena.data.readers.annotations import (
    are_messages,
    is_said,
    name_label,
    normalize,
    of_list,
    without_annotation,
)
from catena.data.readers.delimited import EMPTY, REJECTED, Row
from catena.data.readers.json_arrays import GAP, is_records, is_table, read_entries, read_items
from catena.data.readers.label_maps import expand, label_arrays, read_map
from catena.data.roles import LABEL_COLUMNS, SPEAKER_KEYS, TEXT_COLUMNS, TURN_COLUMNS, find_column
from catena.errors import FormatError

_PRODIGY_KEYS = frozenset(("accept", "_task_hash", "_input_hash", "_view_id"))
"""Keys that Prodigy adds next to the answer of the annotator."""
_MAX_DEPTH = 4
"""Nesting of objects in which an array of records is searched, and of dotted names."""


class SeveralTablesError(FormatError):
    """A document has several arrays of the same kind of records, such as train and test."""


def flatten(record: Mapping[str, Any], prefix: str = "", depth: int = _MAX_DEPTH) -> dict[str, Any]:
    """The values of an object, with dotted names for the values of nested objects."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping) and value and depth > 1:
            found |= flatten(value, f"{prefix}{key}.", depth - 1)
        else:
            found[f"{prefix}{key}"] = value
    return found


# --- JSON lines -------------------------------------------------------------------------------------------------------


def read_lines(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """The records of JSON lines. A comma after an object is ignored."""
    with open_text(path, encoding, keep_nuls=True) as lines:
        for number, line in lines:
            location = SourceLocation(str(path), number)
            if not line.strip():
                yield Row(location, {}, line, EMPTY)
            elif line.strip() in ("[", "]"):  # around the objects of an array with one in each line
                continue
            elif "\0" in line:
                yield Row(location, {}, line, "with a NUL byte", damaged=True)
            elif (record := parse_object(line)) is None:
                yield Row(location, {}, line, "without a complete JSON object", damaged=True)
            else:
                for _, one in expand([(number, record)]) or [(number, record)]:
                    yield Row(location, flatten(normalize(one)), line, _problem(one), short=without_annotation(one))


def _problem(record: Mapping[str, Any]) -> str | None:
    """The reason why an object is not an example: an annotator rejected or ignored it."""
    is_prodigy = not record.keys().isdisjoint(_PRODIGY_KEYS)
    return REJECTED if is_prodigy and record.get("answer") in ("reject", "ignore") else None


def parse_object(line: str) -> dict[str, Any] | None:
    """The object in one line, with or without a comma behind it, or None. A string is a text."""
    for text in (line, line.rstrip().removesuffix(",")):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, list):
            return of_list(found)
        return {"text": found} if isinstance(found, str) else found if isinstance(found, dict) else None
    return None


def parse_line(line: str, location: SourceLocation) -> dict[str, Any]:
    """The object in one line. Raise FormatError with the reason if it is not one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        cure = "Write one complete JSON object per line."
        raise bad_line(location.file, location.line, line, f"is not JSON ({error})", cure) from None
    if not isinstance(found, dict):
        raise bad_line(location.file, location.line, line, "is not a JSON object", "Write one object per line.")
    return found


# --- JSON documents ---------------------------------------------------------------------------------------------------


def read_document(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """The records of a JSON document.

    Lines are those in which the records begin, or the numbers of the records if several begin in one line.
    """
    with open_text(path, encoding) as lines:
        text = "\n".join(line for _, line in lines)
    records = find_records(text, path)[1]
    records = expand(records) or records
    if len({number for number, _ in records}) < len(records):  # several records in a line
        records = [(i, record) for i, (_, record) in enumerate(records, start=1)]
    normal = [normalize(record) for _, record in records]
    name_label(normal)
    for (number, record), values in zip(records, normal, strict=True):
        raw = json.dumps(record, ensure_ascii=False)[:1000]
        location, missing = SourceLocation(str(path), number), without_annotation(record)
        yield Row(location, flatten(values), raw, _problem(record), short=missing)


def find_records(text: str, path: Path) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """What a document is, in words, and its records with their line numbers."""
    start = GAP.match(text).end()  # type: ignore[union-attr]
    try:
        document = json.loads(text)
    except RecursionError:
        raise FormatError(f"{path} is JSON nested too deeply. Flatten it.") from None
    except ValueError as error:
        if (objects := _objects(text, start, path)) is not None:
            return "objects one after another", objects
        number = getattr(error, "lineno", 1)
        line = (text.split("\n") or [""])[number - 1]
        raise bad_line(
            path, number, line, f"is not valid JSON ({getattr(error, 'msg', error)})", "Correct it."
        ) from None
    if isinstance(document, list):
        if (questions := _squad({"data": document}, text, start, path)) is not None:
            return questions
        if are_messages(document):
            return "one dialogue", [(1 + text.count("\n", 0, start), {"messages": list(filter(is_said, document))})]
        return "an array of records", read_items(text, start, path, are_turns=_are_dialogues(document))
    if not isinstance(document, dict):
        raise FormatError(f"{path} must be an array of JSON objects, got {shorten(text, 40)}. Write one per record.")
    for reader in (_dialogue, _squad, read_map, _pandas_table, _nested_array, _single):
        if (found := reader(document, text, start, path)) is not None:
            return found
    keys = ", ".join(map(repr, list(document)[:8]))
    raise FormatError(
        f"{path} is a JSON object with the keys {keys} and without an array of records. Write an array of objects such "
        f'as [{{"text": "…", "label": "…"}}].'
    )


_Found = tuple[str, list[tuple[int, dict[str, Any]]]]
_Keys = tuple[str, ...]


def _are_dialogues(document: Sequence[Any]) -> bool:
    """Whether an array has lists of texts of different lengths, which are dialogues rather than rows."""
    are_lists = all(isinstance(item, list) and all(isinstance(one, str) for one in item) for item in document)
    return are_lists and len({len(item) for item in document}) > 1


def _objects(text: str, start: int, path: Path) -> list[tuple[int, dict[str, Any]]] | None:
    """The objects of a text that is objects one after another, as jq writes them, or None."""
    try:
        return read_items(text, start - 1, path) if text[start : start + 1] == "{" else None
    except (ValueError, RecursionError, FormatError):
        return None


def _nested_array(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """The longest array of objects inside an object, wherever it is nested."""
    sizes: dict[_Keys, tuple[int, int]] = {}
    forms: dict[tuple[object, ...], list[_Keys]] = {}
    grouped: set[_Keys] = set()
    waiting: list[tuple[_Keys, int]] = [((), start)]
    while waiting:
        parents, at = waiting.pop(0)
        for key, begin, value in read_entries(text, at):
            if is_records(value) or is_table(value):
                sizes[(*parents, key)] = (len(value), begin)
                if is_records(value) and expand([(1, one) for one in value]) is not None:
                    grouped.add((*parents, key))
                names = tuple(value[0]) if is_records(value) else ()
                for form in ((parents, *names), (key, *names)):  # next to each other, or of the same name
                    forms.setdefault(form, []).append((*parents, key))
            elif isinstance(value, dict) and len(parents) + 1 < _MAX_DEPTH:
                waiting.append(((*parents, key), begin))
    if not sizes:
        return _nested_columns(document, text, start, path)
    best = max(sizes, key=lambda keys: (keys in grouped, sizes[keys][0]))
    alike = max((keys for keys in forms.values() if best in keys), key=len)
    if len(alike) > 1 and (labels := label_arrays(alike)) is not None and not _has_labels(text, sizes[best][1], path):
        arrays = [(label, read_items(text, sizes[keys][1], path)) for label, keys in zip(labels, alike, strict=True)]
        records = [(n, {**_without_spans(one), "label": label}) for label, own in arrays for n, one in own]
        return "an object with an array of records for each label", records
    if len(alike) > 1:
        raise _several_tables(path, [keys for keys in sizes if keys in alike])
    return f"an object with an array of objects under {'.'.join(best)!r}", read_items(text, sizes[best][1], path)


def _has_labels(text: str, start: int, path: Path) -> bool:
    """Whether the first record of an array has a label of its own, or is a turn of somebody."""
    (_, first), *_ = read_items(text, start, path)
    return find_column(list(first), (*LABEL_COLUMNS, *SPEAKER_KEYS), exact=True) is not None


def _without_spans(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a label without the entities in its text."""
    return {key: value for key, value in normalize(record).items() if key != "entities"}


def _nested_columns(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """The only table by columns under a key: ``{"train": {"text": […], "label": […]}}``."""
    tables = {
        key: _pandas_table(value, text, start, path) for key, value in document.items() if isinstance(value, dict)
    }
    found = {key: table for key, table in tables.items() if table is not None}
    if len(found) > 1:
        raise _several_tables(path, [(key,) for key in found])
    return next(iter(found.values()), None)


_MOST_TABLES = 10
"""Number of arrays above which they are not splits."""


def _several_tables(path: Path, found: Sequence[_Keys]) -> SeveralTablesError:
    if len(found) > _MOST_TABLES:
        return SeveralTablesError(
            f"{path} has an array of records in each of {len(found):,} objects, such as {'.'.join(found[0])!r}. Write "
            f'an array of objects with a text and its label each, such as [{{"text": "…", "label": "…"}}].'
        )
    names = [".".join(keys) for keys in found]
    shown = " and ".join(map(repr, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    at = "".join(f".{key}" if key.isidentifier() else f"[{json.dumps(key)}]" for key in found[0])
    at = at if at.startswith(".") else f".{at}"
    at = at if re.fullmatch(r"[\w.]+", at) else f"'{at}'"
    file = re.sub(r"\W+", "_", names[0])
    return SeveralTablesError(
        f"{path} has records under {shown}. Write each of them to a file, as in "
        f'"jq {at} {path.name} > {file}.json", and pass one for training and others as --dev and --test.'
    )


def _pandas_table(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """A table by columns, as ``to_json`` of pandas writes it, or as columns of equal length."""
    values = list(document.values())
    if isinstance(document.get("columns"), list) and isinstance(document.get("data"), list):
        names = list(map(str, document["columns"]))
        rows = [row for row in document["data"] if isinstance(row, list) and len(row) == len(names)]
        if len(rows) == len(document["data"]):
            records: Sequence[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
            return "a table of pandas (orient='split')", list(enumerate(records, start=1))
    if len(values) > 1 and all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values):
        inside = values[0].values()
        if not inside or any(isinstance(one, dict) or is_records(one) or is_table(one) for one in inside):
            return None
        keys = list(values[0])
        if not all(re.fullmatch(r"-?\d+", key) for key in keys):  # {index: {column: value}}
            return "a table of pandas (orient='index')", list(enumerate(values, start=1))
        records = [{name: column[key] for name, column in document.items()} for key in keys]
        return "a table of pandas (orient='columns')", list(enumerate(records, start=1))
    are_lists = all(isinstance(value, list) and len(value) == len(values[0]) for value in values)
    if len(values) > 1 and are_lists and values[0] and not any(is_records(value) for value in values):
        records = [dict(zip(document, row, strict=True)) for row in zip(*values, strict=True)]
        return "an object with a list for each column", list(enumerate(records, start=1))
    return None


def _dialogue(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """One dialogue, whose turns are not records, or one message with its replies."""
    flat = flatten(document, depth=2)
    replies = [name for name, value in flat.items() if name.split(".")[-1] == "replies" and is_records(value)]
    if any(f"{name.removesuffix('replies')}text" in flat for name in replies):
        return "one message with its replies", [(1 + text.count("\n", 0, start), dict(document))]
    lists = [document[name] for name in TURN_COLUMNS if isinstance(document.get(name), list)]
    if not any(not _are_labeled(turns) and not _are_conversations(turns) for turns in lists):
        return None
    return "one dialogue", [(1 + text.count("\n", 0, start), dict(document))]


def _are_conversations(turns: Sequence[Any]) -> bool:
    """Whether what may be turns are dialogues: each has a list of turns of its own."""
    names = [find_column(list(turn), TURN_COLUMNS, exact=True) for turn in turns if isinstance(turn, dict)]
    own = [turn.get(name) for turn, name in zip(turns, names, strict=False) if name is not None]
    return is_records(turns) and len(own) == len(turns) and all(isinstance(one, list) for one in own)


def _are_labeled(turns: Sequence[Any]) -> bool:
    """Whether what may be turns are labeled texts of nobody: ``utterances`` with a text and an intent."""
    if not is_records(turns):
        return False
    names = list(turns[0])
    has_both = find_column(names, TEXT_COLUMNS, exact=True) and find_column(names, LABEL_COLUMNS, exact=True)
    return bool(has_both) and set(SPEAKER_KEYS).isdisjoint(names)


def _single(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """One record, if the values are not nested."""
    if not document or any(isinstance(value, (dict, list)) for value in document.values()):
        return None
    return "one object", [(1 + text.count("\n", 0, start), dict(document))]


def _squad(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """Questions on paragraphs, in the form of the data set of Rajpurkar et al. (2016)."""
    articles = document.get("data")
    if not is_records(articles) or not all(is_records(article.get("paragraphs")) for article in articles or []):
        return None
    paragraphs = [(article, part) for article in articles or [] for part in article["paragraphs"]]
    if not any("qas" in part for _, part in paragraphs):
        return None
    if not all(is_records(part.get("qas") or [{}]) for _, part in paragraphs):
        return None
    records = [
        _squad_record(article, part, question) for article, part in paragraphs for question in part.get("qas") or []
    ]
    return "questions on paragraphs (SQuAD)", list(enumerate(records, start=1))


def _squad_record(
    article: Mapping[str, Any], paragraph: Mapping[str, Any], question: Mapping[str, Any]
) -> dict[str, Any]:
    answers = [answer for answer in question.get("answers") or [] if isinstance(answer, dict)]
    return {
        "id": question.get("id"),
        "title": article.get("title"),
        "context": paragraph.get("context"),
        "question": question.get("question"),
        "answers": {name: [answer.get(name) for answer in answers] for name in ("text", "answer_start")},
        **({"is_impossible": True} if question.get("is_impossible") is True else {}),
    }
