"""``catena average CHECKPOINTS… -o FOLDER``: one model with the mean of the weights of several."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import arg, parse_flags
from catena.cli.usage import UsageError

_USAGE = "catena average CHECKPOINTS… -o FOLDER"


@dataclass(frozen=True)
class AverageFlags:
    """Which models are averaged, and where the mean goes."""

    checkpoints: Annotated[tyro.conf.Positional[tuple[Path, ...]], arg("CHECKPOINTS…")] = ()
    """Runs or checkpoint folders of one model: of one run, or of runs with the same config and vocabulary."""
    output: Annotated[Path | None, arg("FOLDER", "-o")] = None
    """The folder to write the averaged model into; it must not exist."""


def run(argv: Sequence[str]) -> int:
    """Write the mean of the weights of several checkpoints as a model of its own."""
    flags = parse_flags(AverageFlags, argv, _USAGE, "Average the weights of several checkpoints of one model.")
    if len(flags.checkpoints) < 2 or flags.output is None:
        raise UsageError(f"an average needs two or more checkpoints and a folder to write into: {_USAGE}")

    from catena.cli.machine import resolve_run_folder
    from catena.training.average import write_average

    written = write_average([resolve_run_folder(path) for path in flags.checkpoints], flags.output)
    sys.stdout.write(f"wrote {written.folder}, the mean of {len(flags.checkpoints)} models\n")
    return 0
