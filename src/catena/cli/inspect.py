"""``catena inspect FILES…``: the data doctor. ``catena inspect RUN``: look inside a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from catena.cli.flags import UsageError, parse_flags


@dataclass(frozen=True)
class InspectFlags:
    paths: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Data files (give train, dev and test together to find texts that are in two of them), or one run folder."""
    top: int = 10
    """Of a linear model: how many features to show for each class."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8."""
    format: Literal["text", "json"] = "text"
    """Lines for a person, or one JSON object."""


def run(argv: Sequence[str]) -> int:
    flags = parse_flags(InspectFlags, argv, "catena inspect", "Look at data files, or inside a run.")
    if not flags.paths:
        raise UsageError("name the data files, or the run folder, to look at")
    first = flags.paths[0]
    if any((first / name).exists() for name in ("meta.json", "manifest.json")):
        return _inspect_run(first, flags)
    from catena.data.doctor import inspect

    report = inspect(flags.paths, encoding=flags.encoding)
    if flags.format == "json":
        sys.stdout.write(json.dumps(report.to_dict(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join(report.lines()) + "\n")
    return 0


def _inspect_run(folder: Path, flags: InspectFlags) -> int:
    from catena.checkpoint import META, read_meta
    from catena.tasks.load import load

    lines = []
    if (folder / META).exists():
        meta = read_meta(folder)
        lines += [
            f"run: {folder}",
            f"command: {' '.join(meta['command'])}",
            f"seed: {meta['seed']}, started {meta['started']}",
        ]
        lines += [f"{name}: {entry['path']} (sha256 {entry['sha256'][:12]}…)" for name, entry in meta["data"].items()]
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        lines.append(f"evaluations: {len(rows)}")
    lines += load(folder, "cpu").describe(flags.top)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
