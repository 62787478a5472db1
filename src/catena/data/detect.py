"""Which format a file is in, from a bounded sample, and what speaks for it; and reading labeled texts by it."""

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
    """The name of a format in FORMATS or "unknown", a sentence on why, and options for its reader."""

    format: str
    why: str
    options: dict[str, Any] = field(default_factory=dict)


def detect_format(path: Path | str, encoding: str | None = None) -> DetectedFormat:
    """Look at up to 192 KiB of a file. Raises :class:`FormatError` only if it cannot be read at all."""
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
        format: a name in FORMATS; recognized if omitted.
        options: of the format's reader, such as ``{"text_column": "review"}``; they go before recognized ones.
        labeled: False gives texts without labels, from plain text too.
        encoding: UTF-8 if omitted.
        tally: counts what was read. Texts without a character are then left out and counted as "empty"; without a
            tally nothing is left out.
    """
    given = dict(options or {})
    chosen = _chosen(path, format, given, encoding)
    if chosen.format == UNKNOWN:
        raise FormatError(f"the format of {path} is not known: {chosen.why}")
    reader = FORMATS[chosen.format]
    if reader.example is not LabeledText and not (reader.example is Text and not labeled):
        raise FormatError(
            f"{path} is read as {reader.title} ({chosen.why}), which has no labeled texts: "
            "name another format if that is wrong, such as 'tsv-label' or 'csv'"
        )
    merged = _options(path, reader, {**chosen.options, **given}, labeled, encoding)
    examples = (LabeledText(e.text, e.labels if labeled else (), e.place) for e in reader.read(path, **merged))
    if tally is None:
        yield from examples
    else:
        yield from tally.keep(tally.seen(examples), lambda example: None if example.text.strip() else "empty")


def _chosen(path: Path | str, format: str | None, given: Mapping[str, Any], encoding: str | None) -> DetectedFormat:
    """The format that was named, with the delimiter and quotes of its tables, or the one that is recognized."""
    if format in ("csv", "tsv"):
        sample = take_sample(path, encoding)
        sign = None if misfit(sample) else FORMATS[format].recognize(sample)
        return DetectedFormat(format, "it was asked for", sign.options if sign else {})
    if format is not None:
        return DetectedFormat(format, "it was asked for")
    asked = {str(given[key]) for key in ("text_column", "label_column") if given.get(key) is not None}
    if asked and (table := _table_with(take_sample(path, encoding), asked)):
        return table
    return detect_format(path, encoding)


def _table_with(sample: Sample, asked: set[str]) -> DetectedFormat | None:
    """The table whose first line holds the names of the columns that were asked for, if it is one."""
    first = sample.filled[0] if not misfit(sample) else ""
    for delimiter in ("\t", ",", ";", "|"):
        names = {name.strip() for row in csv.reader([first], delimiter=delimiter) for name in row}
        if delimiter in first and asked <= names:
            options = {} if delimiter in "\t," else {"delimiter": delimiter}
            return DetectedFormat("tsv" if delimiter == "\t" else "csv", "its first line names these columns", options)
    return None


def _options(
    path: Path | str, reader: Format, options: dict[str, Any], labeled: bool, encoding: str | None
) -> dict[str, Any]:
    """The options for a reader, all of them known to it."""
    known = [name for name in inspect.signature(reader.read).parameters if name != "path"]
    for name in options:
        if name not in known:
            raise FormatError(
                f"{path} is read as format {reader.name!r}, which has no option {name!r}: {did_you_mean(name, known)}. "
                "Leave it out, or name another format"
            )
    if encoding is not None and "encoding" in known:
        options["encoding"] = encoding
    if not labeled and "labeled" in known:
        options["labeled"] = False
    return options
