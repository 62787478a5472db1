"""``catena resume RUN``, which continues an interrupted run exactly where it stopped, or trains for longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from catena.cli.flags import arg, check_minimum, parse_flags


@dataclass(frozen=True)
class ResumeFlags:
    """Options of ``catena resume``."""

    run: Annotated[tyro.conf.Positional[Path], arg("RUN")]
    """Run folder. Its config determines everything else: data, device, threads."""
    max_epochs: Annotated[int | None, arg("N", shown="(default: as in the run's config)")] = None
    """Train for at most N epochs, counted from the start of the run."""
    max_steps: Annotated[int | None, arg("N", shown="(default: as in the run's config)")] = None
    """Train for at most N steps, counted from the start of the run."""
    max_time: Annotated[str | None, arg("TIME", "--time", shown="(default: as in the run's config)")] = None
    """Train for at most this time in total, such as 5m, including the time already spent."""
    patience: Annotated[int | None, arg("N", shown="(default: as in the run's config)")] = None
    """Stop after N evaluations without improvement. 0: never stop early."""
    track: Annotated[str | None, arg("NAME")] = None
    """Also log the curves to: tensorboard."""
    quiet: Annotated[bool, arg(None, "-q")] = False
    """Print only the result."""

    def limits(self) -> dict[str, object]:
        """The limits that are set, by config key."""
        named = {name: getattr(self, name) for name in ("max_epochs", "max_steps", "max_time", "patience")}
        return {name: value for name, value in named.items() if value is not None}

    def __post_init__(self) -> None:
        check_minimum("--max-epochs", self.max_epochs, 1)
        check_minimum("--max-steps", self.max_steps, 1)
        check_minimum("--patience", self.patience, 0)


def run(argv: Sequence[str]) -> int:
    """Continue training from the last complete checkpoint."""
    about = "Resume an interrupted run exactly where it stopped, or train a run for longer."
    flags = parse_flags(ResumeFlags, argv, "catena resume RUN", about)

    from catena.checkpoint import CONFIG, read_meta
    from catena.cli.machine import resolve_run_folder
    from catena.cli.training import make_reporter, say_result
    from catena.tasks.table import task_of_config

    read_meta(resolve_run_folder(flags.run))  # raises if it is not a run
    reporter = make_reporter(flags.quiet, flags.track, flags.run)
    try:
        trained = task_of_config(flags.run / CONFIG).open().resume(flags.run, reporter, flags.limits())
    finally:
        reporter.close()
    say_result(trained, flags.quiet)
    return 130 if trained.interrupted else 0
