"""Format detection from a bounded sample of a file, and reading of labeled texts."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.data.examples import LabeledText, Text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import first_sign, misfit
from catena.data.readers.sample import Sample, take_sample
from catena.data.readers.table import FORMATS
from catena.data.reading import ReadCounter
from catena.errors import FormatError
from catena.registry import did_you_mean

UNKNOWN = "unknown"


@dataclass(frozen=True)
class DetectedFormat:
    """The name of a format in FORMATS or "unknown", a sentence with the evidence, and options of its reader."""

    format: str
    why: str
    options: dict[str, Any] = field(default_factory=dict)


def detect_format(path: Path | str, encoding: str | None = None) -> DetectedFormat:
    """The format of a file, from its first 192 KiB. Raises :class:`FormatError` only if it cannot be read."""
    name, sign = first_sign(take_sample(path, encoding))
    return DetectedFormat(name, sign.why, sign.options)


# --- reading labeled texts -------------------------------------------------------------------------------------------


def read_examples(
    path: Path | str,
    format: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    labeled: bool = True,
    encoding: str | None = None,
    tally: ReadCounter | None = None,
) -> Iterator[LabeledText]:
    """Yield the labeled texts of a file in any format that has them.

    Args:
        path: a file, or a Hugging Face datasets folder.
        format: a name in FORMATS. Detected if omitted.
        options: options of the format's reader, such as ``{"text_column": "review"}``. They override detected ones.
        labeled: False gives texts without labels, also from plain text.
        encoding: UTF-8 if omitted.
        tally: counts the examples. With a tally, texts without a character are dropped and counted as "empty"; without
            one, nothing is dropped.
    """
    given = dict(options or {})
    chosen = _chosen(path, format, given, encoding)
    if chosen.format == UNKNOWN:
        raise FormatError(f"Cannot detect the format of {path}: {chosen.why}")
    reader = FORMATS[chosen.format]
    if reader.example is not LabeledText and not (reader.example is Text and not labeled):
        raise FormatError(
            f"{path} was read as {reader.title} ({chosen.why}), which has no labeled texts. "
            "If the format is wrong, pass another, such as --input-format tsv-label or csv."
        )
    merged = _options(path, reader, {**chosen.options, **given}, labeled, encoding)
    examples = (LabeledText(e.text, e.labels if labeled else (), e.place) for e in reader.read(path, **merged))
    if tally is None:
        yield from examples
    else:
        yield from tally.keep(tally.seen(examples), lambda example: None if example.text.strip() else "empty")


def _chosen(path: Path | str, format: str | None, given: Mapping[str, Any], encoding: str | None) -> DetectedFormat:
    """The given format with the delimiter and quotes of its tables, or the detected format."""
    if format in ("csv", "tsv"):
        sample = take_sample(path, encoding)
        sign = None if misfit(sample) else FORMATS[format].recognize(sample)
        return DetectedFormat(format, "it was set", sign.options if sign else {})
    if format is not None:
        return DetectedFormat(format, "it was set")
    asked = {str(given[key]) for key in ("text_column", "label_column") if given.get(key) is not None}
    if asked and (table := _table_with(take_sample(path, encoding), asked)):
        return table
    return detect_format(path, encoding)


def _table_with(sample: Sample, asked: set[str]) -> DetectedFormat | None:
    """The table whose first line has the requested column names, if there is one."""
    first = sample.filled[0] if not misfit(sample) else ""
    for delimiter in ("\t", ",", ";", "|"):
        names = {name.strip() for row in csv.reader([first], delimiter=delimiter) for name in row}
        if delimiter in first and asked <= names:
            options = {} if delimiter in "\t," else {"delimiter": delimiter}
            return DetectedFormat(
                "tsv" if delimiter == "\t" else "csv", "its first line has these column names", options
            )
    return None


def _options(
    path: Path | str, reader: Format, options: dict[str, Any], labeled: bool, encoding: str | None
) -> dict[str, Any]:
    """The options for a reader. Raise FormatError for unknown ones."""
    known = [name for name in inspect.signature(reader.read).parameters if name != "path"]
    for name in options:
        if name not in known:
            raise FormatError(
                f"{path} was read as format {reader.name!r}, which has no option {name!r}: "
                f"{did_you_mean(name, known)}. Remove it, or pass another format."
            )
    if encoding is not None and "encoding" in known:
        options["encoding"] = encoding
    if not labeled and "labeled" in known:
        options["labeled"] = False
    return options
