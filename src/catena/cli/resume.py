"""``catena resume RUN``: go on with a run that was stopped, exactly where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import parse_flags


@dataclass(frozen=True)
class ResumeFlags:
    run: tyro.conf.Positional[Path]
    """The run folder."""
    track: str | None = None
    """Also write the curves for: tensorboard."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """Print the result alone."""


def run(argv: Sequence[str]) -> int:
    flags = parse_flags(ResumeFlags, argv, "catena resume", "Go on with a run that was stopped, exactly where it was.")

    from catena.checkpoint import CONFIG, read_meta
    from catena.cli.training import make_reporter, say
    from catena.tasks.table import task_of_config

    read_meta(flags.run)  # says what is wrong if it is no run
    reporter = make_reporter(flags.quiet, flags.track, flags.run)
    try:
        trained = task_of_config(flags.run / CONFIG).open().resume(flags.run, reporter)
    finally:
        reporter.close()
    if trained.test_scores:
        say("test: " + ", ".join(f"{name} {value:.4f}" for name, value in trained.test_scores.items()))
    return 130 if trained.interrupted else 0
