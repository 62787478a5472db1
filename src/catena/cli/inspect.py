"""``catena inspect FILES…``, which checks data files, and ``catena inspect RUN``, which describes a run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from catena.cli.flags import arg, check_minimum, parse_flags
from catena.cli.usage import UsageError

_USAGE = "catena inspect FILES… or catena inspect RUN"


@dataclass(frozen=True)
class InspectFlags:
    """Options of ``catena inspect``."""

    paths: Annotated[tyro.conf.Positional[tuple[Path, ...]], arg("FILES…|RUN")] = ()
    """Data files, or one run folder. Pass train, dev and test together to find texts that occur in two of them."""
    top: Annotated[int, arg("N", shown="(default: 10)")] = 10
    """For linear models: number of features to show for each class."""
    encoding: Annotated[str | None, arg("NAME")] = None
    """Encoding of the files, such as latin-1. Default: UTF-8."""
    format: Annotated[Literal["text", "json"], arg(shown="(default: text)")] = "text"
    """Output format: readable text, or one JSON object."""

    def __post_init__(self) -> None:
        check_minimum("--top", self.top, 1)


def run(argv: Sequence[str]) -> int:
    """Print a report on data files or on a run."""
    about = "Check data files, or describe a run. With data files, the exit code is 1 if one of them is unusable."
    flags = parse_flags(InspectFlags, argv, _USAGE, about)
    if not flags.paths:
        raise UsageError(f"FILES… or RUN is missing. Usage: {_USAGE}.")
    runs = [path for path in flags.paths if any((path / name).exists() for name in ("meta.json", "manifest.json"))]
    if runs and len(flags.paths) > 1:
        raise UsageError(f"{runs[0]} is a run and cannot be combined with other paths. Usage: {_USAGE}.")
    if runs:
        return _inspect_run(runs[0], flags)
    from catena.cli.machine import resolve_run_folder
    from catena.data.inspection import inspect

    report = inspect([resolve_run_folder(path) for path in flags.paths], encoding=flags.encoding)
    if flags.format == "json":
        sys.stdout.write(json.dumps(report.to_dict(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines()) + "\n")
    findings = [finding for file in report.files for finding in file.findings]
    return int(any(finding.level == "error" for finding in findings))


def _inspect_run(folder: Path, flags: InspectFlags) -> int:
    from catena.tasks.load import load

    about = load(folder, "cpu").describe(flags.top)
    told = _told(folder)
    if flags.format == "json":
        sys.stdout.write(json.dumps({**told, "model": about}, ensure_ascii=False) + "\n")
        return 0
    lines = []
    if told:
        lines = [f"run: {folder}", f"command: {told['command']}", f"seed: {told['seed']}, started {told['started']}"]
        lines += [f"{name}: {entry['path']} (sha256 {entry['sha256'][:12]}…)" for name, entry in told["data"].items()]
        lines += [f"evaluations: {len(told['evaluations'])}"]
        if told["best"]:
            scores = ", ".join(f"{name} {_number(value)}" for name, value in told["best"]["scores"].items())
            lines.append(f"best: step {told['best']['step']}, {scores}")
    sys.stdout.write("\n".join([*lines, *about]) + "\n")
    return 0


def _number(score: float | None) -> str:
    """A score of metrics.jsonl as text. Scores that are not finite are null there."""
    return "not finite" if score is None else f"{score:.4f}"


def _told(folder: Path) -> dict[str, Any]:
    """The meta.json and evaluations of a run, or an empty dict for a checkpoint outside a run."""
    from catena.checkpoint import META, read_meta
    from catena.training.run import RunFolder

    if not (folder / META).exists():
        return {}
    meta = read_meta(folder)
    evaluations = [row for row in RunFolder(folder).metrics() if "scores" in row]
    best = [row for row in evaluations if row["best"]]
    meta["command"] = shlex.join(meta["command"])
    return {**meta, "evaluations": evaluations, "best": best[-1] if best else None}
