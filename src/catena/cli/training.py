"""Training for ``train`` and ``resume``: reporters, run folders, several seeds and folds."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.checkpoint import RUNS, is_run
from catena.errors import CheckpointError, ConfigError
from catena.files import escape_controls, write_text_atomically
from catena.metrics.intervals import mean_interval
from catena.tasks.base import TrainResult
from catena.tasks.runs import train_run
from catena.tasks.spec import TaskSpec
from catena.tasks.writing import to_json
from catena.training.report import LinesReporter, Reporter, ReporterGroup, SilentReporter
from catena.training.run import make_room

if TYPE_CHECKING:
    from catena.tasks.auto.table import Candidate


@dataclass(frozen=True)
class TrainRequest:
    """The options of one training command."""

    spec: TaskSpec
    config: Any
    options: Any
    """The options of the command, such as those of :class:`~catena.cli.common.TrainingOptions`."""
    command: tuple[str, ...] = ()
    """The command line."""
    chosen: tuple[str, ...] = ()
    """What was chosen automatically, in words."""


def run_training(plan: TrainRequest) -> int:
    """Train one model, or one for each seed and fold, and print the result."""
    config, options = plan.config, plan.options
    if plan.spec.has_examples:
        config = config.model_copy(update={"data": with_absolute_paths(config.data)})
    folder = options.output or next_folder(f"{plan.spec.name}-{config.model.kind}")
    parts = list(_parts(config, options.seeds))
    for name, _ in parts:
        check_run_folder_is_free(folder if len(parts) == 1 else folder / name, options.overwrite)
    if not options.quiet:
        for line in plan.chosen:
            print_line(line)
    if len(parts) == 1:
        trained = _one(plan, parts[0][1], folder)
        print_result(trained, options.quiet)
        return 130 if trained.interrupted else 0
    if is_run(folder):
        raise ConfigError(f"{folder} is a run and cannot hold {len(parts)} runs. Choose another --output.")
    results = []
    for name, part in parts:
        if not options.quiet:
            print_line(f"--- {name} ---")
        trained = _one(plan, part, folder / name)
        if trained.interrupted:
            print_line(f"the parts after {name} were not trained; finished runs are in {folder}")
            return 130
        for line in trained.notes:
            print_line(line)
        results.append((name, trained))
    _summarize(results, folder)
    return 0


def run_search(
    plan: TrainRequest,
    values: dict[str, Any],
    source: str,
    candidates: Sequence[tuple[Candidate, dict[str, Any]]] | None = None,
    unlabeled: Path | None = None,
) -> int:
    """Train the best model that a search finds within the time limit, and print the result.

    Args:
        plan: the options of the command, with the config without a model.
        values: the config values that the user set.
        source: where they come from, for errors.
        candidates: the candidates of ``catena tune``; default: those of the task's table.
        unlabeled: text on which word vectors are trained first.
    """
    from catena.tasks.auto.search import search_model

    folder = plan.options.output or next_folder(f"{plan.spec.name}-{'auto' if candidates is None else 'tune'}")
    check_run_folder_is_free(folder, plan.options.overwrite)
    if folder.is_dir() and any(folder.iterdir()):
        make_room(folder, plan.options.overwrite)
    note = (lambda line: None) if plan.options.quiet else print_line
    for line in plan.chosen:
        note(line)
    paths = with_absolute_paths(plan.config.data).model_dump(include=set(plan.config.data.PATHS))
    named = {**values, "data": {**values.get("data", {}), **{key: value for key, value in paths.items() if value}}}
    seconds = plan.config.training.max_seconds
    result = search_model(
        plan.spec, named, folder, seconds, note, command=plan.command, source=source, candidates=candidates,
        unlabeled=() if unlabeled is None else (unlabeled,),
    )  # fmt: skip
    print_result(result, plan.options.quiet)
    return 130 if result.interrupted else 0


def check_run_folder_is_free(folder: Path, overwrite: bool) -> None:
    """Raise CheckpointError if the run folder exists, before any data is read."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"Cannot write the run to {folder}: it is a file. Choose another --output.")
    if is_run(folder) and not overwrite:
        raise CheckpointError(
            f"Cannot write the run to {folder}: it contains a run. Continue it with 'catena resume {folder}', replace "
            f"it with --overwrite, or choose another --output."
        )


def print_result(trained: TrainResult, quiet: bool) -> None:
    """Print the test scores, if any. If nothing else was printed, also the dev scores."""
    if trained.interrupted:
        if quiet:
            print_line(f"interrupted; to continue: catena resume {trained.folder}")
        return
    if quiet and trained.scores:
        print_line(f"dev: {_scores(trained.scores)}   {trained.folder}")
    if trained.test_scores:
        print_line(f"test: {_scores(trained.test_scores)}")
    for line in trained.notes:
        print_line(line)


def _one(plan: TrainRequest, config: Any, folder: Path) -> TrainResult:
    reporter = make_reporter(plan.options.quiet, plan.options.track, folder)
    try:
        return train_run(
            config,
            folder,
            reporter,
            init_from=plan.options.init_from,
            overwrite=plan.options.overwrite,
            command=plan.command,
            notes=plan.chosen,
        )
    finally:
        reporter.close()


def _parts(config: Any, seeds: int) -> Iterator[tuple[str, Any]]:
    """The config of every seed and fold, with the name of its folder."""
    data = getattr(config, "data", None)
    n_folds, fold = getattr(data, "folds", None), getattr(data, "fold", None)
    folds = range(n_folds) if n_folds is not None and fold is None else [fold]
    for seed in range(config.seed, config.seed + seeds):
        for fold in folds:
            name = "-".join([f"seed-{seed}"] * (seeds > 1) + [f"fold-{fold}"] * (fold is not None)) or "only"
            update: dict[str, Any] = {"seed": seed}
            if fold is not None:
                update["data"] = config.data.model_copy(update={"fold": fold})
            yield name, config.model_copy(update=update)


def _summarize(results: list[tuple[str, TrainResult]], folder: Path) -> None:
    """Print the mean and 95 % interval of every score over the runs, and write them to summary.json."""
    summary: dict[str, Any] = {"runs": {name: {"dev": t.scores, "test": t.test_scores} for name, t in results}}
    for part in ("dev", "test"):
        rows = [t.scores if part == "dev" else t.test_scores for _, t in results]
        for score in rows[0]:
            values = [row[score] for row in rows]
            found = mean_interval(values)
            ends = {"mean": found.value, "low": found.low, "high": found.high, "n": len(values)}
            summary.setdefault(part, {})[score] = ends
            interval = f"95 % interval {found.low:.4f} to {found.high:.4f}, n={len(values)}"
            print_line(f"{part} {score}: {found.value:.4f} ({interval})")
    write_text_atomically(folder / "summary.json", to_json(summary, indent=1) + "\n")
    print_line(f"runs: {folder}, summary: {folder / 'summary.json'}")


def _scores(scores: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def with_absolute_paths(data: Any) -> Any:
    """Data options with absolute paths, so that a run can be resumed from any folder."""

    def full(path: str | None) -> str | None:
        return None if path is None else str(Path(path).absolute())  # resolving /dev/stdin would name no file

    named = {key: getattr(data, key) for key in data.PATHS}
    return data.model_copy(
        update={
            key: tuple(str(full(path)) for path in value) if isinstance(value, tuple) else full(value)
            for key, value in named.items()
        }
    )


def next_folder(stem: str) -> Path:
    """The next free folder, such as runs/classify-cnn-001."""
    taken = [int(m[1]) for p in RUNS.glob(f"{stem}-*") if (m := re.fullmatch(rf"{re.escape(stem)}-(\d+)", p.name))]
    return RUNS / f"{stem}-{max(taken, default=0) + 1:03d}"


def make_reporter(quiet: bool, track: str | None, folder: Path) -> Reporter:
    """A progress bar in a terminal, lines elsewhere, nothing if quiet; and TensorBoard if requested."""
    reporters: list[Reporter] = []
    if quiet:
        reporters.append(SilentReporter())
    elif sys.stdout.isatty():
        from rich.console import Console

        from catena.training.progress_bar import BarReporter

        reporters.append(BarReporter(Console()))
    else:
        reporters.append(LinesReporter(print_line))
    if track == "tensorboard":
        from catena.training.tensorboard import TensorBoardReporter

        reporters.append(TensorBoardReporter(folder / "tensorboard"))
    elif track is not None:
        raise ConfigError(f"--track must be 'tensorboard', got {track!r}. Use --track tensorboard.")
    return reporters[0] if len(reporters) == 1 else ReporterGroup(reporters)


def print_line(line: str) -> None:
    """Print a line. If standard output is closed, as by `| head`, training continues without it."""
    try:
        sys.stdout.write(escape_controls(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        with contextlib.suppress(BrokenPipeError):  # both may be the same pipe
            sys.stderr.write("standard output is closed; training continues and writes to the run's log.txt\n")
            sys.stderr.flush()
