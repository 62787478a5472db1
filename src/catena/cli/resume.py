"""``catena resume RUN``: go on with a run that was stopped, exactly where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import arg, parse_flags


@dataclass(frozen=True)
class ResumeFlags:
    """The run to go on with, and who hears of its progress."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """The run folder. Its config says all else: the data, the device, the threads."""
    track: Annotated[str | None, arg("NAME")] = None
    """Also write the curves for: tensorboard."""
    quiet: Annotated[bool, arg(None, "-q")] = False
    """Print the result alone."""


def run(argv: Sequence[str]) -> int:
    """Train on from the last whole checkpoint."""
    about = "Go on with a run that was stopped, exactly where it was."
    flags = parse_flags(ResumeFlags, argv, "catena resume RUN", about)

    from catena.checkpoint import CONFIG, read_meta
    from catena.cli.machine import one_run
    from catena.cli.training import make_reporter, say_result
    from catena.tasks.table import task_of_config

    read_meta(one_run(flags.run))  # says what is wrong if it is no run
    reporter = make_reporter(flags.quiet, flags.track, flags.run)
    try:
        trained = task_of_config(flags.run / CONFIG).open().resume(flags.run, reporter)
    finally:
        reporter.close()
    say_result(trained, flags.quiet)
    return 130 if trained.interrupted else 0
