"""``catena resume RUN``, which continues an interrupted run exactly where it stopped, or trains for longer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from catena.cli.common import parse_plain, resolve_run_folder
from catena.cli.parser import Arg, CommandOptions

_LIMITS = ("max_epochs", "max_steps", "max_time", "patience")


class ResumeCommand(CommandOptions):
    """Resume an interrupted run exactly where it stopped, or train a run for longer."""

    usage = "catena resume RUN [--options]"
    example = "catena resume runs/first --max-epochs 20"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run folder. Its config determines everything else: data, device, threads."""
    max_epochs: int | None = Field(None, ge=1)
    """Train for at most N epochs, counted from the start of the run."""
    max_steps: int | None = Field(None, ge=1)
    """Train for at most N steps, counted from the start of the run."""
    max_time: Annotated[str | None, Arg("TIME")] = None
    """Train for at most this time in total, such as 5m, including the time already spent."""
    patience: int | None = Field(None, ge=0)
    """Stop after N evaluations without improvement. 0: never stop early."""
    track: Annotated[str | None, Arg("NAME")] = None
    """Also log the curves to: tensorboard."""
    quiet: Annotated[bool, Arg(short="-q")] = False
    """Print only the result."""


def run(argv: Sequence[str]) -> int:
    """Continue training from the last complete checkpoint."""
    options = parse_plain(ResumeCommand, argv)
    limits = {name: value for name in _LIMITS if (value := getattr(options, name)) is not None}

    from catena.checkpoint import read_meta
    from catena.cli.training import make_reporter, print_line, print_result
    from catena.tasks.auto.search import continue_search, is_unfinished
    from catena.tasks.runs import resume_run

    if is_unfinished(options.run) and not limits:
        result = continue_search(options.run, (lambda line: None) if options.quiet else print_line)
        print_result(result, options.quiet)
        return 130 if result.interrupted else 0
    read_meta(resolve_run_folder(options.run))  # raises if it is not a run
    reporter = make_reporter(options.quiet, options.track, options.run)
    try:
        result = resume_run(options.run, reporter, limits)
    finally:
        reporter.close()
    print_result(result, options.quiet)
    return 130 if result.interrupted else 0
