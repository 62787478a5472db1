"""Baselines of a run: fitted to its training data when training ends, or later to evaluate another file.

Tested in tests/tasks/baselines/test_runs.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.checkpoint import LOG, METRICS, is_run, write_text_atomically
from catena.config import parse
from catena.errors import CheckpointError
from catena.extras import require
from catena.tasks.base import TrainResult
from catena.tasks.sources import Sources

if TYPE_CHECKING:
    from catena.tasks.baselines.report import BaselineReport

FILE = "baselines.json"
"""The file of a run folder that holds the comparison."""


def check_baselines(config: Any) -> None:
    """Raise MissingExtraError before training if a config has baselines and scikit-learn is not installed."""
    if _names(config):
        require("sklearn", "sklearn", "--baseline")


def add_baselines(
    result: TrainResult, config: Any, sources: Sources[Any], load: Callable[[Path, str], Any]
) -> TrainResult:
    """The result of training with a table of the baselines of its config, which is also stored in the run.

    The table is about the test set, or about dev if there is none.

    Args:
        result: the result of training.
        config: the config of the run.
        sources: its training data.
        load: loads the model of a run folder on a device.
    """
    if not _names(config) or result.interrupted:
        return result
    from catena.tasks.writing import to_json

    task = load(result.folder, config.machine.device)
    parts = task.training_parts(sources)
    part = "test" if len(parts.test) else "dev"
    report = _report(task, config, parts, getattr(parts, part), part, result.folder)
    write_text_atomically(result.folder / FILE, to_json(report.to_dict(), indent=1) + "\n")
    lines = report.lines()
    if part == "dev":
        lines.append("dev also chose the checkpoint and the penalties; pass --test FILE for other examples")
    with (result.folder / LOG).open("a", encoding="utf-8", newline="\n") as log:
        log.writelines(f"{line}\n" for line in lines)
    return replace(result, notes=(*result.notes, *lines))


def evaluate_baselines(
    task: Any, run: Path, names: Sequence[str], examples: Sequence[Any], file: str
) -> BaselineReport:
    """Fit baselines to the training data of a run, and compare its model with them on other examples.

    Args:
        task: the model of the run.
        run: the run folder, whose data files must be unchanged.
        names: the names of the baselines.
        examples: examples with gold labels.
        file: the name of their file.
    """
    from catena.tasks.baselines.report import OwnBaselines
    from catena.training.run import open_run

    suite = task.baselines()  # raises if the task has none
    if not is_run(run):
        raise CheckpointError(
            f"--baseline needs the training files of a run, which {run} does not name. Pass a folder of 'catena train'."
        )
    open_run(run).check_data(task.config.data.files())
    if isinstance(suite, OwnBaselines):
        return suite.report(run, names, examples, file)
    config = _with_names(task.config, names)
    check_baselines(config)
    parts = task.training_parts(Sources(type(task), config))
    return _report(task, config, parts, examples, file, run)


def _report(task: Any, config: Any, parts: Any, examples: Sequence[Any], part: str, run: Path) -> BaselineReport:
    from catena.tasks.baselines.fitting import fit_baselines
    from catena.tasks.baselines.report import compare_baselines

    metric = config.training.metric or task.metric
    suite = task.baselines()
    fitted = fit_baselines(suite, config.baselines, parts, metric)
    return compare_baselines(
        suite, fitted, examples, part=part, metric=metric, own_name=config.model.kind,
        own_bytes=sum(tensor.nbytes for tensor in task.tensors().values()), own_seconds=_training_seconds(run),
    )  # fmt: skip


def _names(config: Any) -> tuple[str, ...]:
    section = getattr(config, "baselines", None)
    return () if section is None else section.baseline


def _with_names(config: Any, names: Sequence[str]) -> Any:
    """The config with other baselines. Raise ConfigError for an unknown name."""
    section = parse(
        type(config.baselines), {**config.baselines.model_dump(), "baseline": list(names)}, source="the options"
    )
    return config.model_copy(update={"baselines": section})


def _training_seconds(run: Path) -> float | None:
    """The time of the training of a run, from its metrics."""
    path = run / METRICS
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return max((float(row["seconds"]) for row in rows if row.get("seconds") is not None), default=None)
