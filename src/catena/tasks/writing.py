"""Predictions as text, TSV, CSV and JSON lines. Imports no torch.

A blank input, such as an empty line, has an empty prediction without a score, so that output lines match input lines.
A score that does not exist is empty in a table and null in JSON, since 0 would look like certainty.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from catena.tasks.base import Prediction

_CONTROL = re.compile("[\x7f-\x9f]")
"""Control characters that JSON allows in strings, but a terminal may act on."""
_DIGITS = 6
"""Digits of floats in JSON."""


class PredictionWriter:
    """Writes predictions in one format.

    Args:
        format: ``text``, ``tsv``, ``csv``, ``jsonl``, or a format of the task's own.
    """

    def __init__(self, format: str) -> None:
        self.format = format
        self._header: list[str] | None = None

    def lines(self, prediction: Prediction, columns: Mapping[str, Any] | None = None) -> Iterator[str]:
        """The lines of one prediction; ``columns`` are ids of its input, for the formats that name their columns."""
        ids = columns or {}
        if self.format == "jsonl":
            yield to_json({**ids, **prediction.to_dict()})
        elif self.format in ("tsv", "csv"):
            for row in prediction.to_rows():
                yield from self._row(row if self.format == "tsv" else {**ids, **row})
        else:
            yield prediction.to_text(self.format)

    def _row(self, row: Mapping[str, Any]) -> Iterator[str]:
        cells = [_cell(value) for value in row.values()]
        if self.format == "tsv":
            yield "\t".join(" ".join(cell.split()) for cell in cells)
            return
        if self._header is None:
            self._header = list(row)
            yield _csv_line(self._header)
        yield _csv_line(cells)


def _csv_line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)  # an empty line terminator would leave line breaks without quotes
    return buffer.getvalue().removesuffix("\r\n")


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return value if isinstance(value, str) else to_json(value)


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON that every parser accepts, without control characters: floats that are not finite become null."""
    text = json.dumps(_rounded(value), allow_nan=False, ensure_ascii=False, indent=indent)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        return round(float(value), _DIGITS) if math.isfinite(value) else None
    return value


def unknown_input_warning(item: str, part: str) -> str:
    """The warning about inputs with nothing known in them; ``item`` and ``part`` are, say, "text" and "word"."""
    return f"{{n}} {item}{{s}} had no {part} that the model knows; the output for it is a guess"
