"""``catena average CHECKPOINTS… -o FOLDER``, which averages the weights of several checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from catena.cli.common import parse_plain, resolve_run_folder
from catena.cli.parser import Arg, CommandOptions, UsageError


class AverageCommand(CommandOptions):
    """Average the weights of several checkpoints of one model."""

    usage = "catena average CHECKPOINTS… -o FOLDER"
    example = "catena average runs/mt/checkpoints/step-0010* -o runs/averaged"

    checkpoints: Annotated[tuple[Path, ...], Arg("CHECKPOINTS…", positional=True)] = ()
    """Run or checkpoint folders of the same model: from one run, or from runs with the same config and vocabulary."""
    output: Annotated[Path | None, Arg("FOLDER", "-o")] = None
    """Folder for the averaged model. It must not exist yet."""


def run(argv: Sequence[str]) -> int:
    """Write a model whose weights are the mean of several checkpoints."""
    options = parse_plain(AverageCommand, argv)
    n = len(options.checkpoints)
    if n < 2 or options.output is None:
        raise UsageError(
            f"The number of checkpoints must be 2 or more and -o must be set, got {n} checkpoints and -o "
            f"{options.output}. Usage: {options.usage}."
        )

    from catena.training.average import write_average

    written = write_average([resolve_run_folder(path) for path in options.checkpoints], options.output)
    sys.stdout.write(f"wrote {written.folder}, the mean of {n} models\n")
    return 0
