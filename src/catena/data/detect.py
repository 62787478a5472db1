"""Format detection from a bounded sample of a file, and the task that the file implies.

A name that ends in .csv, .tsv, .json, .jsonl, .conll or .conllu decides the format. Otherwise the rules look at the
lines, the most certain first. A few lines that do not fit change nothing: they are dropped and listed when the file is
read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from catena.data.files import binary_kind, is_datasets_folder
from catena.data.media_files import label_folders, label_media_folders, split_folders
from catena.data.readers import arrow, dialogue_lines, rasa, xml_tables
from catena.data.readers.delimited import to_rows
from catena.data.readers.format_rules import (
    COLUMN_ENDINGS,
    brackets_rule,
    columns_rule,
    conllu_rule,
    dialogue_rule,
    dictionary_rule,
    fasttext_rule,
    first_word_rule,
    has_tagged_words,
    slash_rule,
    text_rule,
    vectors_rule,
)
from catena.data.readers.layout import SEPARATORS, TableCandidate, find_layout, repeated_names
from catena.data.readers.objects import SeveralTablesError, parse_object
from catena.data.readers.other_kinds import AS_TEXT, is_tagged, named_kind, unnamed_kind
from catena.data.readers.sample import UNKNOWN, DetectedFormat, Sample, list_names, take_sample, unknown
from catena.data.roles import known_roles, names_texts_and_ids
from catena.data.tables import Table, open_table
from catena.data.task_rules import guess_task
from catena.errors import CatenaError, FormatError, MissingExtraError

__all__ = ["UNKNOWN", "DetectedFormat", "detect_format", "detect_task"]

_EVEN = 0.9
"""Fraction of lines with the same number of fields from which a file whose name does not show it is a table."""


def detect_format(path: Path | str, encoding: str | None = None) -> DetectedFormat:
    """The format of a file and the task that it implies.

    Args:
        path: a file or folder.
        encoding: UTF-8 if omitted.

    Raises:
        FormatError: if the file cannot be opened. A file of no known format has the format "unknown" instead.
    """
    path = Path(path)
    if not path.is_file():
        return _detect(path, encoding)
    state = path.stat()
    if time.time_ns() - state.st_mtime_ns < _SETTLED:
        return _detect(path, encoding)
    return _detect_file(path, encoding, (state.st_ino, state.st_size, state.st_mtime_ns))


_SETTLED = 2 * 10**9
"""Age in nanoseconds from which a file that is written again has another time: clocks of file systems are coarse."""


@lru_cache(maxsize=8)
def _detect_file(path: Path, encoding: str | None, state: tuple[int, int, int]) -> DetectedFormat:
    """The format of a file that has not changed since its ``state``: a command needs it several times."""
    return _detect(path, encoding)


def _detect(path: Path, encoding: str | None) -> DetectedFormat:
    sample = take_sample(path, encoding)
    for rule in _RULES:
        if (found := rule(sample)) is not None:
            return found
    return unnamed_kind(sample) or text_rule(sample)


def detect_task(path: Path | str, encoding: str | None = None) -> str:
    """The name of the task that a file is for. Raise FormatError with the cure if there is none."""
    found = detect_format(path, encoding)
    if found.task is not None:
        return found.task
    if not found.is_known or found.why.startswith(str(path)):
        raise FormatError(found.why)
    what = found.why.removesuffix(".")
    raise FormatError(f"{path} is {what}. To train on it, name a task, as in 'catena train TASK'.")


# --- folders and binary files -----------------------------------------------------------------------------------------


def _folder_rule(sample: Sample) -> DetectedFormat | None:
    if not sample.is_folder:
        return None
    path = sample.path
    if is_datasets_folder(path):
        return _datasets(path)
    if folders := label_folders(path):
        names = list_names(folder.name for folder in folders)
        return DetectedFormat("folders", f"a folder of text files for each label: {names}", task="classify")
    inner = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and label_folders(folder)]
    if inner := inner or split_folders(path):
        parts = {folder.name for folder in inner}
        others = f" --test {inner[0].with_name('test')}" * (parts >= {"train", "test"})
        return unknown(f"{path} has folders of labels in {list_names(f.name for f in inner)}. Pass one of them: "
                       f"{next((f for f in inner if f.name == 'train'), inner[0])}{others}.")  # fmt: skip
    if (media := label_media_folders(path)) is not None:
        kind, folders = media
        names = list_names(folder.name for folder in folders)
        return DetectedFormat(f"{kind}s", f"a folder of {kind}s for each label: {names}", task="classify")
    if any(path.glob("*.ann")):
        return unknown(
            f"{path} is a folder of annotations of brat (.ann). Convert them to a file with a word and its tag in each "
            f"line, or to JSON lines with text and spans."
        )
    return unknown(
        f"{path} is a folder without a dataset of Hugging Face (state.json) and without folders of .txt files, "
        f"pictures or sounds for each label. Pass a file in it."
    )


def _datasets(path: Path) -> DetectedFormat:
    try:
        if names := arrow.splits(path):
            return DetectedFormat(
                "datasets", f"a Hugging Face dataset with the splits {list_names(names)}: pass one, {path / names[0]}"
            )
        return _of_table(open_table(path, "datasets"), "datasets", "a Hugging Face dataset")
    except CatenaError as error:
        return DetectedFormat("datasets", f"a Hugging Face dataset ({str(error).removesuffix('.')})")


def _binary_rule(sample: Sample) -> DetectedFormat | None:
    head, path = sample.head, sample.path
    is_stream = head.startswith(b"\xff\xff\xff\xff") and b"\0" in head[4:8]
    if head.startswith((b"PAR1", b"ARROW1")) or is_stream:
        kind = "Parquet" if head.startswith(b"PAR1") else "Arrow"
        try:
            return _of_table(open_table(path, "parquet"), "parquet", f"a table in {kind}")
        except CatenaError as error:
            missing = isinstance(error, MissingExtraError)
            return DetectedFormat("parquet", f"a table in {kind}" + ("" if missing else f", damaged ({error})"))
    if head.startswith(b"PK\x03\x04"):
        if not xml_tables.is_workbook(path) and path.suffix.lower() == ".zip":
            return unknown(
                f"{path} has another archive or an office document inside. Unpack it and pass the file in it."
            )
        if not xml_tables.is_workbook(path):
            return unknown(f"{path} is an office document or a zip archive, not a text file. Save it as plain text.")
        try:
            sheets = xml_tables.sheet_names(path)
            others = f" (not read: {list_names(sheets[1:], 4)})" if len(sheets) > 1 else ""
            form = f"the sheet {sheets[0]!r}{others} of an Excel workbook"
            return _of_table(open_table(path, "xlsx"), "xlsx", form)
        except CatenaError as error:
            return unknown(str(error))
    if (name := binary_kind(head)) is not None:
        return unknown(f"{path} is {name}, not a text file. Pass a text file.")
    return None


def _no_text_rule(sample: Sample) -> DetectedFormat | None:
    path = sample.path
    if not sample.head:
        return unknown(f"{path} is empty. Pass a file with text.")
    if not sample.filled:
        return unknown(f"{path} has only blank lines. Pass a file with text.")
    nuls = sum("\0" in line for line in sample.filled)
    if nuls and not sample.most(len(sample.filled) - nuls, sample.filled):
        return unknown(f"{path} has NUL bytes in most lines: it is a binary file. Pass a text file.")
    return None


# --- markup and JSON --------------------------------------------------------------------------------------------------


def _rasa_rule(sample: Sample) -> DetectedFormat | None:
    """Intents of Rasa with their examples, in YAML or Markdown."""
    if not rasa.has_intents(sample.lines):
        return None
    form = "training data of Rasa in " + ("Markdown" if sample.is_named(".md") else "YAML")
    return _of_table(open_table(sample.path, "rasa", {}, sample.encoding), "rasa", form)


def _markup_rule(sample: Sample) -> DetectedFormat | None:
    first = sample.filled[0].lstrip().lower()
    if sample.is_named(".html", ".htm") and not first.startswith("<?xml"):
        return named_kind(sample)
    if not first.startswith(("<?xml", "<!doctype", "<html", "<tmx")) and not is_tagged(sample.filled):
        return named_kind(sample)
    start = "\n".join(sample.filled[:20]).lower()
    if "<tmx" in start:
        try:
            detected = _of_table(open_table(sample.path, "tmx"), "tmx", "a translation memory (TMX)")
            if detected.task == "transduce":  # short sentences
                why = detected.why.replace("pairs of words", "pairs of texts")
                return replace(detected, task="translate", why=why)
            return detected
        except CatenaError as error:
            return unknown(str(error))
    if "<html" in start or first.startswith("<!doctype html"):
        return unknown(f"{sample.path} is a web page (HTML). Extract the text first, for example with lynx -dump.")
    cure = "Export it as TMX" if "<xliff" in start else "Write its texts as CSV or in lines"
    return unknown(f"{sample.path} is {'XLIFF' if '<xliff' in start else 'XML'}. {cure}, or {AS_TEXT}.")


def _json_rule(sample: Sample) -> DetectedFormat | None:
    """JSON lines, or one JSON document. A file that is named so is never read as text."""
    path, lines = sample.path, sample.filled
    named = sample.is_named(".json", ".jsonl", ".ndjson", ".jl")
    first = lines[0].lstrip()
    if not named and not re.match(r'\{\s*("|\}|$)|\[\s*(\{|\[|"|$)', first):
        return None
    if first.startswith("{") and b'"paragraphs"' in sample.head and b'"qas"' in sample.head:
        return _of_table(open_table(path, "json", {}, sample.encoding), "json", "a JSON document")
    is_opened = sample.whole and first.strip() in ("{", "[")  # a document, with a line for each part
    good = 0 if is_opened else sum(parse_object(line) is not None for line in lines)
    is_cut = len(lines) == 1 and not sample.whole and first.startswith("{")
    if is_cut or (sample.most(good, lines) and (len(lines) > 1 or sample.is_named(".jsonl", ".ndjson", ".jl"))):
        return _of_table(open_table(path, "jsonl", {}, sample.encoding), "jsonl", "JSON lines")
    try:
        return _of_table(open_table(path, "json", {}, sample.encoding), "json", "a JSON document")
    except SeveralTablesError as error:
        return unknown(str(error))
    except FormatError as error:
        if not named and not good and not _is_json(sample):
            return None
        if good == len(lines) or 2 * good >= len(lines) > 1:
            return _of_table(open_table(path, "jsonl", {}, sample.encoding), "jsonl", "JSON lines")
        return unknown(str(error))


def _is_json(sample: Sample) -> bool:
    return re.match(r'\{\s*(["{\[]|$)|\[\s*([{\[]|$)', sample.filled[0].lstrip()) is not None and '"' in "".join(
        sample.filled[:5]
    )


# --- tables in text lines ---------------------------------------------------------------------------------------------


def _named_table_rule(sample: Sample) -> DetectedFormat | None:
    kind = "csv" if sample.is_named(".csv") else "tsv" if sample.is_named(".tsv", ".tab") else None
    if kind is None:
        return None
    if kind == "tsv" and has_tagged_words(sample):
        return columns_rule(sample)
    if kind == "tsv" and dialogue_lines.are_tabbed(sample.lines):
        return dialogue_rule(sample)
    if kind == "csv" and has_tagged_words(sample, ","):
        return unknown(
            f"{sample.path} has a word and its tag in each row, and blank lines between the sentences. Separate the "
            f"fields by tabs instead of commas and name the file .conll, or add a column sentence_id."
        )
    if kind == "tsv" and not any("\t" in line for line in sample.filled):
        return None if not known_roles([sample.filled[0]]) else _table(sample, "csv")
    return _table(sample, kind)


def _table_rule(sample: Sample) -> DetectedFormat | None:
    """A table by its content: tabs, known names in the first line, or the forms of R, psql and MySQL."""
    if sample.filled[0].strip('" \ufeff').lower() in ("text", "sentence"):
        one = find_layout(sample.numbered(), "csv", sample.whole)
        if one is not None and one.width == 1 and one.evenness == 1:
            return _table(sample, "csv", one)
    found = find_layout(sample.numbered(), "", sample.whole)
    if found is None or found.width < 2:
        return None
    layout = found.layout
    if layout.delimiter in ("\t", "|||", " ", "|", *SEPARATORS) or layout.boxed:
        is_table = found.evenness >= _EVEN or sample.most(round(found.evenness * len(found.filled)), sample.filled)
        is_table |= layout.header is not None and len(known_roles(layout.names)) > 1 and found.evenness >= 0.5
    else:
        named = len(known_roles(layout.names)) > 1 or names_texts_and_ids(layout.names)
        is_table = (layout.header is not None and named and found.evenness > 0.5) or _is_quoted(found)
        is_table |= layout.header is None and found.has_labels
    if is_table:
        return _table(sample, "tsv" if layout.delimiter == "\t" else "csv", found)
    return _ragged_tabs(sample, found) if layout.delimiter == "\t" else None


def _is_quoted(found: TableCandidate) -> bool:
    """Whether all records have the same number of fields, and most of them one in quotes, as programs write CSV."""
    quote, delimiter = found.layout.quote, found.layout.delimiter
    if quote is None or found.evenness < 1 or len(found.filled) < 3:
        return False
    quoted = sum(f"{quote}{delimiter}" in one.raw or f"{delimiter}{quote}" in one.raw for one in found.filled)
    return quoted > 0.5 * len(found.filled)


def _table(sample: Sample, kind: str, found: TableCandidate | None = None) -> DetectedFormat:
    found = found or find_layout(sample.numbered(), kind, sample.whole)
    if found is None:
        return unknown(f"{sample.path} is named .{kind} and has no columns. Rename it, or pass --input-format text.")
    layout = found.layout
    if layout.header is None and found.evenness <= 0.5:
        return _ragged(sample, found)
    rows = [row.values for row in to_rows(found.records, layout, str(sample.path)) if row.problem is None]
    rows += _later_rows(sample, found)
    table = Table(sample.path, layout.names, layout.header is not None, rows, lambda wide: iter(()), layout=layout)
    if not rows:
        damaged = (row for row in to_rows(found.records, layout, str(sample.path)) if row.damaged)
        if (first := next(damaged, None)) is not None:
            return unknown(
                f"{first.location} is a record {first.problem}, and no record fits the header. Put fields that contain "
                f"{found.layout.delimiter!r} in double quotes, or give every column a name."
            )
        return unknown(f"{sample.path} has a header and no records. Add records below it.")
    detected = _of_table(table, kind, _describe_layout(found, kind))
    if detected.format in ("csv", "tsv"):
        options: dict[str, Any] = {**detected.options, "layout": layout}
        return DetectedFormat(detected.format, detected.why, options, detected.task, detected.columns)
    return detected


def _later_rows(sample: Sample, found: TableCandidate) -> list[dict[str, Any]]:
    """Records from the middle and the end of a file, which a file sorted by label needs."""
    layout, rows = found.layout, []
    for line in sample.later:
        values = line.split(layout.delimiter)
        if len(values) == len(layout.names) and (layout.quote is None or layout.quote not in line):
            rows.append(dict(zip(layout.names, values, strict=True)))
    return rows


def _describe_layout(found: TableCandidate, kind: str) -> str:
    layout = found.layout
    parted = {"\t": "tabs", " ": "blanks, as R writes it", "|||": "'|||'"}.get(layout.delimiter, repr(layout.delimiter))
    words = f"a table of {len(layout.names)} columns separated by {parted}" if len(layout.names) > 1 else "one column"
    if layout.quote == "'":
        words += ", with single quotes around fields"
    if layout.escape:
        words += ", with quotes escaped by a backslash"
    if layout.header is None:
        return f"{words}, without a header"
    words += ", with a header" + (f" in line {layout.header}" if layout.header > 1 else "")
    numbered = [f"{name!r} again in column {i}" for i, name in enumerate(repeated_names(layout.names), 1) if name]
    return words + (f" ({', '.join(numbered[:4])})" if numbered else "")


def _ragged_tabs(sample: Sample, found: TableCandidate) -> DetectedFormat | None:
    """The error for tab-separated lines with different numbers of fields. Texts with a few tabs are not such lines."""
    plain = sum("\t" not in line for line in sample.filled)
    return _ragged(sample, found) if plain <= 0.2 * len(sample.filled) else None


def _ragged(sample: Sample, found: TableCandidate) -> DetectedFormat:
    counts = sorted({len(record.values) for record in found.filled})
    widths = " or ".join(map(str, counts[:4])) + (" or more" if len(counts) > 4 else "")
    delimiter = found.layout.delimiter
    parted = "tab-separated fields" if delimiter == "\t" else f"fields separated by {delimiter!r}"
    return unknown(
        f"{sample.path} has lines with {widths} {parted}, so it is not a table. Give every line the same number of "
        f"fields, or pass --input-format text to read each line as a text."
    )


def _of_table(table: Table, format: str, form: str) -> DetectedFormat:
    """The result for a table, with the task that its columns are for."""
    if not table.sample:
        return unknown(f"{table.path} has no records. Add records.")
    guess = guess_task(table)
    if guess.tokens is not None:
        options = {"separator": guess.tokens, "stored": format}
        return DetectedFormat("columns", f"{form}: {guess.why}", options, guess.task, guess.columns)
    why = f"{form}: {guess.why}" if guess.task or not guess.why.startswith(str(table.path)) else guess.why
    return DetectedFormat(format, why, {}, guess.task, guess.columns)


def _named_columns_rule(sample: Sample) -> DetectedFormat | None:
    return columns_rule(sample) if sample.is_named(*COLUMN_ENDINGS) else None


_RULES: tuple[Callable[[Sample], DetectedFormat | None], ...] = (
    _folder_rule,
    _binary_rule,
    _no_text_rule,
    _rasa_rule,
    _markup_rule,
    _json_rule,
    conllu_rule,
    brackets_rule,
    fasttext_rule,
    _named_columns_rule,
    _named_table_rule,
    dialogue_rule,
    dictionary_rule,
    vectors_rule,
    columns_rule,
    slash_rule,
    _table_rule,
    first_word_rule,
)
