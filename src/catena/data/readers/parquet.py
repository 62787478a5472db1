"""Parquet and Arrow files of labeled texts, read in batches with pyarrow (the extra ``parquet``)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from catena.data.examples import LabeledText, SourceLocation
from catena.data.files import decompress
from catena.data.readers.format import Format
from catena.data.readers.format_rules import hint, parquet_sign
from catena.data.readers.names import SelectedColumns, choose_columns, parse_labels, whole_text
from catena.errors import CatenaError, FormatError
from catena.extras import require

PURPOSE = "reading Parquet and Arrow files"
_BATCH_ROWS = 1024


def read(
    path: Path | str,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
    labeled: bool = True,
) -> Iterator[LabeledText]:
    """Yield one example for each row. The line of its location is the number of the row, from 1.

    Numbered classes become their names if the file has them, as in Hugging Face datasets.

    Args:
        path: the file.
        text_column: detected by common names if omitted.
        label_column: detected by common names if omitted; strings, integers or lists of them.
        separator: separator of several labels in one string, such as "|".
        labeled: False reads only texts.
    """
    require("pyarrow", "parquet", PURPOSE)
    with decompress(path) as plain:
        yield from read_arrow(path, [plain], {}, text_column, label_column, separator, labeled)


def read_arrow(
    shown: Path | str,
    files: Sequence[Path],
    features: dict[str, Any],
    text_column: str | None,
    label_column: str | None,
    separator: str | None,
    labeled: bool,
) -> Iterator[LabeledText]:
    """The examples of Parquet or Arrow files in order. Errors and locations name ``shown``, the path of the user."""
    row = 0
    for file in files:
        names, described = _described(shown, file)
        chosen = choose_columns(str(shown), names, text_column, label_column, labeled)
        described = features or described
        class_names = _class_names(described.get(chosen.label)) if chosen.label is not None else ()
        for batch in _batches(shown, file, chosen):
            for text, value in batch:
                row += 1
                yield _example(text, value, chosen, class_names, separator, SourceLocation(str(shown), row))


def _example(
    text: Any,
    value: Any,
    chosen: SelectedColumns,
    class_names: Sequence[str],
    separator: str | None,
    place: SourceLocation,
) -> LabeledText:
    key = chosen.text
    try:
        text = whole_text(text)
        if chosen.label is None:
            return LabeledText(text, (), place)
        key = chosen.label
        labels = parse_labels(value, separator, class_names)
        if not labels and not separator and not isinstance(value, list):
            raise ValueError("is empty")
    except ValueError as error:
        cure = "Correct it, or set other columns by --text-column and --label-column."
        raise FormatError(f"row {place.line} of {place.file} has a {key!r} that {error}. {cure}") from None
    return LabeledText(text, labels, place)


# --- pyarrow ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _explained(shown: Path | str) -> Iterator[None]:
    """Context that turns errors of pyarrow into a FormatError."""
    try:
        yield
    except CatenaError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        cure = hint(shown, "parquet") or "It may be truncated or damaged: copy or download it again."
        raise FormatError(f"Cannot read {shown} as Parquet or Arrow ({reason}). {cure}") from None


def _is_parquet(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == b"PAR1"


def _open_arrow(file: Path) -> Any:
    """An Arrow file or stream; both yield batches. Hugging Face writes streams."""
    ipc = require("pyarrow.ipc", "parquet", PURPOSE)
    with open(file, "rb") as stream:
        is_file = stream.read(6) == b"ARROW1"
    return ipc.open_file(str(file)) if is_file else ipc.open_stream(str(file))


def _described(shown: Path | str, file: Path) -> tuple[list[str], dict[str, Any]]:
    """The column names, and the features of Hugging Face."""
    with _explained(shown):
        if _is_parquet(file):
            schema = require("pyarrow.parquet", "parquet", PURPOSE).read_schema(file)
        else:
            with _open_arrow(file) as reader:
                schema = reader.schema
        return list(schema.names), _features(schema)


def _batches(shown: Path | str, file: Path, chosen: SelectedColumns) -> Iterator[list[tuple[Any, Any]]]:
    names = [name for name in (chosen.text, chosen.label) if name is not None]
    with _explained(shown):
        for batch in _record_batches(file, names):
            batch.validate(full=True)
            text = batch.column(batch.schema.get_field_index(chosen.text)).to_pylist()
            label: list[Any] = [None] * len(text)
            if chosen.label is not None:
                label = batch.column(batch.schema.get_field_index(chosen.label)).to_pylist()
            yield list(zip(text, label, strict=True))


def _record_batches(file: Path, names: list[str]) -> Iterator[Any]:
    if _is_parquet(file):
        with require("pyarrow.parquet", "parquet", PURPOSE).ParquetFile(file) as reader:
            yield from reader.iter_batches(batch_size=_BATCH_ROWS, columns=names)
        return
    with _open_arrow(file) as reader:
        if hasattr(reader, "num_record_batches"):
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)
        else:
            yield from reader


def _features(schema: Any) -> dict[str, Any]:
    """The features of Hugging Face in the metadata of a file."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        described = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return described if isinstance(described, dict) else {}
    return {}


def _class_names(feature: Any) -> tuple[str, ...]:
    """The names of numbered classes, of a column of classes or of lists of classes."""
    if isinstance(feature, list) and feature:
        feature = feature[0]
    if isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


FORMAT = Format("parquet", "Parquet or Arrow", LabeledText, read, parquet_sign)
