"""``catena average CHECKPOINTS… -o FOLDER``: one model with the mean of the weights of several."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import UsageError, parse_flags


@dataclass(frozen=True)
class AverageFlags:
    checkpoints: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Runs or checkpoint folders of models of the same make."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The folder to write the averaged model into; it must not exist."""


def run(argv: Sequence[str]) -> int:
    flags = parse_flags(
        AverageFlags, argv, "catena average", "Average the weights of several checkpoints of one model."
    )
    if len(flags.checkpoints) < 2 or flags.output is None:
        raise UsageError("an average needs two or more checkpoints and a folder: catena average A B … -o FOLDER")

    from catena.training.average import write_average

    written = write_average(flags.checkpoints, flags.output)
    sys.stdout.write(f"wrote {written.folder}, the mean of {len(flags.checkpoints)} models\n")
    return 0
