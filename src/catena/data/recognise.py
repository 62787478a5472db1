"""Which format a file is in, from a bounded sample, and what speaks for it; and reading labelled texts by
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catena.data.examples import LabelledText, Text
from catena.data.readers.sample import take_sample
from catena.data.readers.signs import first_sign
from catena.data.readers.table import FORMATS
from catena.data.reading import Tally
from catena.errors import FormatError

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Recognised:
    """The name of a format in FORMATS or "unknown", a sentence on why, and options for its reader."""

    format: str
    why: str
    options: dict[str, Any] = field(default_factory=dict)


def recognise(path: Path | str, encoding: str | None = None) -> Recognised:
    """Look at up to 192 KiB of a file. Raises :class:`FormatError` only if it cannot be read at all."""
    name, sign = first_sign(take_sample(path, encoding))
    return Recognised(name, sign.why, sign.options)


def read_examples(
    path: Path | str,
    format: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    labelled: bool = True,
    encoding: str | None = None,
    tally: Tally | None = None,
) -> Iterator[LabelledText]:
    """Yield the labelled texts of a file in any format that has them.

    Args:
        path: a file, or a Hugging Face datasets folder.
        format: a name in FORMATS; recognised if omitted.
        options: of the format's reader, such as ``{"text_column": "review"}``; they go before recognised
        ones. labelled: False gives texts without labels, from plain text too.
        encoding: UTF-8 if omitted.
        tally: counts what was read; texts without a character are left out and counted here as "empty".
    """
    chosen = Recognised(format, "it was asked for") if format is not None else recognise(path, encoding)
    if chosen.format == UNKNOWN:
        raise FormatError(f"the format of {path} is not known: {chosen.why}")
    reader = FORMATS[chosen.format]
    if reader.example is not LabelledText and not (reader.example is Text and not labelled):
        raise FormatError(
            f"{path} is read as {reader.title} ({chosen.why}), which has no labelled texts: "
            "name another format if that is wrong, such as 'tsv-label' or 'csv'"
        )
    merged = {**chosen.options, **(options or {})}
    if encoding is not None and chosen.format not in ("parquet", "datasets"):
        merged["encoding"] = encoding
    if not labelled and chosen.format in ("csv", "tsv", "jsonl", "parquet", "datasets"):
        merged["labelled"] = False
    tally = tally if tally is not None else Tally()
    examples = (LabelledText(e.text, e.labels if labelled else (), e.place) for e in reader.read(path, **merged))
    yield from tally.keep(tally.seen(examples), lambda example: None if example.text.strip() else "empty")
