"""``catena inspect FILES…``, which checks data files, and ``catena inspect RUN``, which describes a run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import parse_plain, resolve_run_folder
from catena.cli.parser import Arg, CommandOptions, UsageError

_RUN_FILES = ("meta.json", "manifest.json", "checkpoints")
"""Files of a run or checkpoint folder. In a damaged one, some may be missing."""


class InspectCommand(CommandOptions):
    """Check data files, or describe a run. With data files, the exit code is 1 if one of them is unusable."""

    usage = "catena inspect FILES… or catena inspect RUN"
    example = "catena inspect train.csv dev.csv"

    paths: Annotated[tuple[Path, ...], Arg("FILES…|RUN", positional=True)] = ()
    """Data files, or one run folder. Pass train, dev and test together to find texts that occur in two of them."""
    top: int = Field(10, ge=1)
    """For linear models: number of features to show for each class."""
    encoding: Annotated[str | None, Arg("NAME")] = None
    """Encoding of the files, such as latin-1. Default: UTF-8."""
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
    from catena.data.inspection import inspect

    report = inspect([resolve_run_folder(path) for path in flags.paths], encoding=flags.encoding)
    if flags.format == "json":
        sys.stdout.write(json.dumps(report.to_dict(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines()) + "\n")
    findings = [finding for file in report.files for finding in file.findings]
    return int(any(finding.level == "error" for finding in findings))


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
    sys.stdout.write("\n".join([*lines, *about]) + "\n")
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
