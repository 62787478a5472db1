"""Options of the commands that read data for a trained model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from catena.cli.flags import arg
from catena.cli.usage import UsageError

if TYPE_CHECKING:
    from catena.tasks.application import Predictor, ReadOptions


@dataclass(frozen=True, kw_only=True)
class ReadingFlags:
    """How a data file is read if it differs from the training files."""

    input_format: Annotated[str, arg("NAME", shown="(default: auto)")] = "auto"
    """Format of the file: a name that 'catena inspect' prints, or text for one text per line. auto: detect it."""
    encoding: Annotated[str | None, arg("NAME")] = None
    """Encoding of the file, such as latin-1. Default: UTF-8."""
    text_column: Annotated[str | None, arg("NAME")] = None
    """Column or key of the text, in files with named columns."""
    label_column: Annotated[str | None, arg("NAME")] = None
    """Column or key of the label."""
    source_column: Annotated[str | None, arg("NAME")] = None
    """Column or key of the source, for models of pairs, by name or by number from 1."""
    target_column: Annotated[str | None, arg("NAME")] = None
    """Column or key of the target."""

    def reading(self) -> ReadOptions:
        from catena.tasks.application import ReadOptions

        named = None if self.input_format == "auto" else self.input_format
        columns = self.text_column, self.label_column, self.source_column, self.target_column
        return ReadOptions(named, self.encoding, *columns)


@dataclass(frozen=True, kw_only=True)
class AnswerFlags(ReadingFlags):
    """How a labeled data file is read if it differs from the training files."""

    target: Annotated[Path | None, arg("FILE")] = None
    """File of references, line by line, if they are in a separate file as in parallel text."""

    def reading(self) -> ReadOptions:
        return dataclasses.replace(super().reading(), target=self.target)


_COLUMNS = ("text_column", "label_column", "source_column", "target_column")
"""The fields of :class:`ReadingFlags` that name columns."""


def check_lines(flags: ReadingFlags) -> None:
    """Raise UsageError if a column is named although the texts are lines of standard input."""
    for name in _COLUMNS:
        if (value := getattr(flags, name)) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} {value} does not apply to standard input, which has one text per line. Pass FILE."
            )


def check_columns(model: Predictor, reading: ReadOptions) -> ReadOptions:
    """Return ``reading``. Raise UsageError if it names a column that the task does not read."""
    for name in _COLUMNS:
        value = getattr(reading, name)
        if value is not None and name not in model.reads_columns:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {value} does not apply to {model.task_name}. Remove the option.")
    return reading


def check_target(model: Predictor, reading: ReadOptions) -> ReadOptions:
    """Return ``reading``. Raise UsageError for a reference file or a column that the task does not read."""
    check_columns(model, reading)
    if reading.target is not None and not model.reads_targets:
        raise UsageError(
            f"--target {reading.target} does not apply to {model.task_name}, which reads references from FILE. Remove "
            f"it."
        )
    return reading
