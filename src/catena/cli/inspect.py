"""``catena inspect FILES…``, which checks data files, and ``catena inspect RUN``, which describes a run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import parse_plain, resolve_run_folder, write_output
from catena.cli.parser import Arg, CommandOptions, UsageError

if TYPE_CHECKING:
    from catena.data.inspection import Report

_RUN_FILES = ("meta.json", "manifest.json", "checkpoints")
"""Files of a run or checkpoint folder. In a damaged one, some may be missing."""
_SEARCH = "search.json"


class InspectCommand(CommandOptions):
    """Check data files as 'catena train' reads them, or describe a run. The exit code is 1 if training would fail."""

    usage = "catena inspect [TASK] FILES… [--options] or catena inspect RUN"
    example = "catena inspect train.csv dev.csv --label-column folder"

    paths: Annotated[tuple[Path, ...], Arg("[TASK] FILES…|RUN", positional=True)] = ()
    """Data files, or one run folder. Pass train, dev and test together to find texts that occur in two of them. A task,
    such as classify, in front of them sets how they are read."""
    top: int = Field(10, ge=1)
    """For linear models: number of features to show for each class."""
    input_format: Annotated[str | None, Arg("NAME")] = None
    """Format of the files, such as csv. Default: detected."""
    encoding: Annotated[str | None, Arg("NAME")] = None
    """Encoding of the files, such as latin-1. Default: UTF-8."""
    text_column: Annotated[str | None, Arg("NAME")] = None
    """Column of texts, by name or number from 1."""
    label_column: Annotated[str | None, Arg("NAME")] = None
    """Column of labels, by name or number from 1."""
    source_column: Annotated[str | None, Arg("NAME")] = None
    """Column of sources of pairs, by name or number from 1."""
    target_column: Annotated[str | None, Arg("NAME")] = None
    """Column of targets of pairs, by name or number from 1."""
    context_column: Annotated[str | None, Arg("NAME")] = None
    """Column of contexts of conversations, by name or number from 1."""
    response_column: Annotated[str | None, Arg("NAME")] = None
    """Column of responses of conversations, by name or number from 1."""
    target: Annotated[Path | None, Arg("FILE")] = None
    """File with the target of each line of the first file."""
    multilabel: bool = False
    """Whether texts may have several labels."""
    label_separator: Annotated[str | None, Arg("TEXT")] = None
    """Separator of several labels in one cell, such as ;."""
    unit: Literal["line", "paragraph"] = "line"
    """The unit of plain text: a line, or the lines between blank lines."""
    max_length: int | None = Field(None, ge=1)
    """Maximum number of tokens of a training text. Default: that of the task."""
    format: Literal["text", "json"] = "text"
    """Output format: readable text, or one JSON object."""


def run(argv: Sequence[str]) -> int:
    """Print a report on data files or on a run."""
    flags = parse_plain(InspectCommand, argv)
    if not flags.paths:
        raise UsageError(f"FILES… or RUN is missing. Usage: {InspectCommand.usage}.")
    runs = [path for path in flags.paths if any((path / name).exists() for name in _RUN_FILES)]
    if runs and len(flags.paths) > 1:
        raise UsageError(f"{runs[0]} is a run and cannot be combined with other paths. Usage: {InspectCommand.usage}.")
    if runs:
        return _inspect_run(runs[0], flags)
    if len(flags.paths) == 1 and (flags.paths[0] / _SEARCH).is_file():
        return _inspect_search(flags.paths[0], flags)
    report = _inspect_files(flags)
    if flags.format == "json":
        sys.stdout.write(json.dumps(report.to_dict(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines()) + "\n")
    return int(not report.is_usable)


def _inspect_files(flags: InspectCommand) -> Report:
    from catena.data.inspection import inspect
    from catena.tasks.spec import TASKS

    first, *others = flags.paths
    task = str(first) if str(first) in TASKS and others and not first.exists() else None
    roles = ("text", "label", "source", "target", "context", "response")
    columns = {role: column for role in roles if (column := getattr(flags, f"{role}_column")) is not None}
    return inspect(
        [resolve_run_folder(path) for path in (others if task else flags.paths)],
        flags.encoding,
        task=task or _implied_task(columns),
        format=flags.input_format,
        columns=columns,
        target=flags.target,
        multilabel=flags.multilabel,
        label_separator=flags.label_separator,
        paragraphs=flags.unit == "paragraph",
        max_length=flags.max_length,
    )


def _implied_task(columns: Mapping[str, str]) -> str | None:
    """The task that named columns are for, if it is not detected from the file."""
    implied = {"label": "classify", "source": "translate", "target": "translate"}
    implied |= {"context": "converse", "response": "converse"}
    return next((implied[role] for role in columns if role in implied), None)


def _inspect_run(folder: Path, flags: InspectCommand) -> int:
    from catena.tasks.auto.record import read_record
    from catena.tasks.load import load, load_model, task_of_model
    from catena.tasks.spec import get_spec

    has_examples = get_spec(task_of_model(folder)).has_examples
    about = (load_model if has_examples else load)(folder, "cpu").describe(flags.top)
    meta = _read_meta(folder)
    if flags.format == "json":
        sys.stdout.write(json.dumps({**meta, "model": about}, ensure_ascii=False) + "\n")
        return 0
    lines = []
    if meta:
        lines = [f"run: {folder}", f"command: {meta['command']}", f"seed: {meta['seed']}, started {meta['started']}"]
        lines += [f"{name}: {entry['path']} (sha256 {entry['sha256'][:12]}…)" for name, entry in meta["data"].items()]
        lines += [f"evaluations: {len(meta['evaluations'])}"]
        if meta["best"]:
            scores = ", ".join(f"{name} {_number(value)}" for name, value in meta["best"]["scores"].items())
            lines.append(f"best: step {meta['best']['step']}, {scores}")
        search = read_record(folder)
        lines += search.lines() if search else []
    write_output([*lines, *about], None)
    return 0


def _inspect_search(folder: Path, flags: InspectCommand) -> int:
    """Print the candidates of a search that was killed before it had a model."""
    from catena.tasks.auto.record import read_record

    record = read_record(folder)
    assert record is not None
    if flags.format == "json":
        sys.stdout.write(json.dumps({"search": asdict(record)}, ensure_ascii=False) + "\n")
        return 0
    head = [f"unfinished search: {folder}", f"command: {shlex.join(record.command)}"]
    write_output([*head, *record.lines(), f"to continue: catena resume {folder}"], None)
    return 0


def _number(score: float | None) -> str:
    """A score of metrics.jsonl as text. Scores that are not finite are null there."""
    return "not finite" if score is None else f"{score:.4f}"


def _read_meta(folder: Path) -> dict[str, Any]:
    """The meta.json and evaluations of a run, or an empty dict for a checkpoint outside a run."""
    from catena.checkpoint import META, read_meta
    from catena.training.run import RunFolder

    if not (folder / META).exists():
        return {}
    meta = read_meta(folder)
    evaluations = [row for row in RunFolder(folder).metrics() if "scores" in row]
    best = [row for row in evaluations if row.get("best")]
    meta["command"] = shlex.join(meta["command"])
    return {**meta, "evaluations": evaluations, "best": best[-1] if best else None}
