"""Flags of the verbs that read data with a trained model."""

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
    """How a data file is read, where that is not as the training files were."""

    input_format: Annotated[str, arg("NAME", shown="(default: auto)")] = "auto"
    """Format of the file: a name that 'catena inspect' gives, or text for one text a line; auto looks at it."""
    encoding: Annotated[str | None, arg("NAME")] = None
    """Encoding of the file if it is not UTF-8, such as latin-1."""
    text_column: Annotated[str | None, arg("NAME")] = None
    """Column or key that holds the text, in files that name their columns."""
    label_column: Annotated[str | None, arg("NAME")] = None
    """Column or key that holds the label."""
    source_column: Annotated[str | None, arg("NAME")] = None
    """Column or key that holds the source, for models of pairs: its name, or its number from 1."""
    target_column: Annotated[str | None, arg("NAME")] = None
    """Column or key that holds the target."""

    def reading(self) -> ReadOptions:
        from catena.tasks.application import ReadOptions

        named = None if self.input_format == "auto" else self.input_format
        columns = self.text_column, self.label_column, self.source_column, self.target_column
        return ReadOptions(named, self.encoding, *columns)


@dataclass(frozen=True, kw_only=True)
class AnswerFlags(ReadingFlags):
    """The same for files with the right answers."""

    target: Annotated[Path | None, arg("FILE")] = None
    """The file of the right answers, line by line, where they are a file of their own, as in parallel text."""

    def reading(self) -> ReadOptions:
        return dataclasses.replace(super().reading(), target=self.target)


_COLUMNS = ("text_column", "label_column", "source_column", "target_column")
"""The parts of :class:`ReadingFlags` that name columns."""


def check_lines(flags: ReadingFlags) -> None:
    """Refuse the name of a column where texts are lines of standard input."""
    for name in _COLUMNS:
        if (value := getattr(flags, name)) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} {value} names a column of a file, and standard input is a text a line: name a file"
            )


def check_columns(model: Predictor, reading: ReadOptions) -> ReadOptions:
    """Refuse the name of a column where the files of a task have no such one."""
    for name in _COLUMNS:
        value = getattr(reading, name)
        if value is not None and name not in model.reads_columns:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {value} names a column, and {model.task_name} reads none by that: leave it out")
    return reading


def check_target(model: Predictor, reading: ReadOptions) -> ReadOptions:
    """Refuse a file of right answers where a task reads them from one file, and columns that are not there."""
    check_columns(model, reading)
    if reading.target is not None and not model.reads_targets:
        raise UsageError(
            f"--target {reading.target} is for tasks whose right answers are a file of their own: leave it out"
        )
    return reading
