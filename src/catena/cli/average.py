"""``catena average CHECKPOINTS… -o FOLDER``, which averages the weights of several checkpoints."""

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
    """Options of ``catena average``."""

    checkpoints: Annotated[tyro.conf.Positional[tuple[Path, ...]], arg("CHECKPOINTS…")] = ()
    """Run or checkpoint folders of the same model: from one run, or from runs with the same config and vocabulary."""
    output: Annotated[Path | None, arg("FOLDER", "-o")] = None
    """Folder for the averaged model. It must not exist yet."""


def run(argv: Sequence[str]) -> int:
    """Write a model whose weights are the mean of several checkpoints."""
    flags = parse_flags(AverageFlags, argv, _USAGE, "Average the weights of several checkpoints of one model.")
    if len(flags.checkpoints) < 2 or flags.output is None:
        raise UsageError(
            f"The number of checkpoints must be 2 or more and -o must be set, got {len(flags.checkpoints)} checkpoints "
            f"and -o {flags.output}. Usage: {_USAGE}."
        )

    from catena.cli.machine import resolve_run_folder
    from catena.training.average import write_average

    written = write_average([resolve_run_folder(path) for path in flags.checkpoints], flags.output)
    sys.stdout.write(f"wrote {written.folder}, the mean of {len(flags.checkpoints)} models\n")
    return 0
