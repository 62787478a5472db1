"""Train, resume and load runs of any task: from a config to a run folder and back.

Tested in tests/cli/test_train.py, test_resume.py and tests/tasks/classify/test_baselines.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.checkpoint import CONFIG, LOG, METRICS, Checkpoint, is_run, lock_run, open_checkpoint, read_meta
from catena.config import parse, to_toml
from catena.errors import CheckpointError, DataError
from catena.extras import require
from catena.files import write_text_atomically
from catena.randomness import Randomness
from catena.tasks.base import BaseTask, Origin, TrainResult
from catena.tasks.sources import Sources, overlap_warnings
from catena.tasks.spec import TaskSpec, get_spec, read_spec
from catena.training.config import ENDING_SCHEDULES
from catena.training.report import Reporter
from catena.training.resuming import load_config
from catena.training.run import RunFolder, create_run, open_run

if TYPE_CHECKING:
    from catena.tasks.baselines.report import BaselineReport


_DROPPED = "dropped.tsv"
_BASELINES = "baselines.json"
"""The file of a run folder that holds the comparison."""
NO_LIMITS: Mapping[str, object] = {}
"""No new limits: a resumed run ends where its config says."""


def train_run(
    config: Any,
    folder: Path,
    reporter: Reporter,
    *,
    init_from: Path | None = None,
    overwrite: bool = False,
    command: Sequence[str] = (),
    examples: Mapping[str, Iterable[Any]] | None = None,
    notes: Sequence[str] = (),
    is_trial: bool = False,
) -> TrainResult:
    """Train into a new run folder, from scratch or from the weights of an old run.

    Args:
        config: the config of a task.
        folder: the run folder to create.
        reporter: receives the progress.
        init_from: a run or checkpoint whose weights are the initial ones.
        overwrite: replace an existing folder.
        command: the command line, stored in the run.
        examples: the examples of ``train`` and optionally ``dev`` and ``test``, instead of the files of the config.
        notes: lines for the log of the run, such as why this model was chosen.
        is_trial: neither score the test set nor fit baselines, which :func:`conclude_run` does later.
    """
    from catena.training.device import choose_device, set_threads

    spec = get_spec(config.task)
    if not spec.has_examples:
        return spec.get_runner().train(
            config, folder, reporter, init_from=init_from, overwrite=overwrite, command=command
        )
    family = spec.family(config)
    if family.uses_torch:
        set_threads(config.machine.threads)
    elif config.machine.device not in ("auto", "cpu"):
        choose_device(config.machine.device)  # a wrong name is an error although the model computes on the CPU
    old = open_checkpoint(init_from, reporter.note) if init_from else None
    config = family.complete(config, reporter.note)
    origin = _origin(config, old)
    if origin.pretrained is not None:
        config = family.adopt(config, origin.pretrained)
    if old is not None:
        _check_start(spec, config, old)
    _check_baselines(config)
    sources = Sources(family, config, examples, has_test=not is_trial)
    training = family.prepare(config, sources, origin)
    if old is not None:
        training.load_weights(old)
    files = {} if examples is not None else config.data.files()
    with lock_run(folder):
        run = create_run(
            folder, to_toml(config), seed=config.seed, command=command, data=files, started_from=init_from,
            overwrite=overwrite,
        )  # fmt: skip
        if sources.counter.dropped:
            sources.counter.write(folder / _DROPPED)
        for line in notes:
            run.log(line)
        for warning in overlap_warnings(files, config.data.encoding):
            reporter.note(warning)
            run.log(warning)
        result = training.train(run, reporter, saves_start=old is not None or origin.pretrained is not None)
        return result if is_trial else _add_baselines(result, config, Sources(family, config, examples))


def resume_run(
    folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS, *, is_trial: bool = False
) -> TrainResult:
    """Resume a run from its last complete checkpoint.

    Args:
        folder: the run folder.
        reporter: receives the progress.
        limits: new values of ``max_epochs``, ``max_steps``, ``max_time`` or ``patience``, stored in the run's config.
        is_trial: as in :func:`train_run`.
    """
    run = open_run(folder)
    spec = read_spec(folder / CONFIG)
    if not spec.has_examples:
        return spec.get_runner().resume(folder, reporter, limits)
    with lock_run(folder):
        return _resume(run, spec, reporter, limits, is_trial)


def _resume(
    run: RunFolder, spec: TaskSpec, reporter: Reporter, limits: Mapping[str, object], is_trial: bool
) -> TrainResult:
    from catena.tasks.fitted import FittedTask, SteppedTask
    from catena.training.device import set_threads

    folder = run.path
    config: Any = spec.load_config(folder / CONFIG)
    family = spec.family(config)
    is_counted = issubclass(family, FittedTask) and not issubclass(family, SteppedTask)
    family.check_limits(config, limits, folder)
    _check_baselines(config)
    if family.uses_torch:
        set_threads(config.machine.threads or int(read_meta(folder)["threads"]))
    run.check_data(config.data.files())
    last = _last_checkpoint(run, is_counted)
    before = config.training
    config = load_config(spec.config_class(), folder, last, limits, getattr(family, "filled_keys", ()))
    origin = _origin(config, None if issubclass(family, FittedTask) else last)
    training = family.prepare(config, Sources(family, config, has_test=not is_trial), origin)
    if limits and before != config.training and getattr(config.training, "schedule", None) in ENDING_SCHEDULES:
        reporter.note(
            f"the {config.training.schedule} learning rate schedule now ends at the new last step: the result differs "
            f"from a run that had this limit from the start"
        )
    result = training.resume(run, reporter)
    return result if is_trial else _add_baselines(result, config, Sources(family, config))


def conclude_run(folder: Path, config: Any) -> TrainResult:
    """Score the test set, if any, with the best checkpoint of a trial, and fit the baselines of its config."""
    task = load_task(folder, config.machine.device)
    family, run = type(task), open_run(folder)
    best = [row for row in run.metrics() if row.get("best")][-1]
    scores: dict[str, float] = {}
    sources: Sources[Any] = Sources(family, config)
    if "test" in sources:
        scores = task.evaluate(list(sources.read("test"))).scores()
        run.append_metrics({"step": best["step"], "part": "test", **scores})
    result = TrainResult(folder, config.training.metric or task.metric, best["scores"], scores)
    return _add_baselines(result, config, Sources(family, config))


def load_task(folder: Path, device: str = "auto", seed: int | None = None) -> BaseTask[Any, Any, Any, Any]:
    """The trained model of a run or checkpoint folder.

    Args:
        folder: the run or checkpoint.
        device: where its networks compute.
        seed: the seed of torch's global generators; they are not seeded if it is None or if the model needs no torch.
    """
    from catena.training.device import check_device_name

    check_device_name(device)
    checkpoint = open_checkpoint(folder)
    spec = read_spec(checkpoint.folder / CONFIG)
    if not spec.has_examples:
        raise DataError(
            f"{folder} holds an agent, which acts in an environment. Use 'catena play {folder}' or 'catena evaluate "
            f"{folder}'."
        )
    config = spec.load_config(checkpoint.folder / CONFIG)
    with checkpoint.reading():
        family = spec.family(config)
        if seed is not None and "torch" in sys.modules:
            Randomness(seed).seed_torch("global")
        return family.load(config, checkpoint, device)


def _origin(config: Any, old: Checkpoint | None) -> Origin:
    folder = getattr(config, "pretrained", None)
    if not folder or old is not None:
        return Origin(Randomness(config.seed), old.folder if old else None)
    from catena.tasks.pretrained import open_pretrained

    return Origin(Randomness(config.seed), None, open_pretrained(folder))


def _check_start(spec: TaskSpec, config: Any, old: Checkpoint) -> None:
    """Raise CheckpointError if the weights of an older run do not fit the model of a config."""
    theirs = spec.load_config(old.folder / CONFIG)
    spec.family(config).check_model(theirs, config, old.folder)
    spec.family(config).check_start(theirs, config, old.folder)


def _last_checkpoint(run: RunFolder, is_counted: bool) -> Checkpoint | None:
    """The checkpoint to resume from. The loop reports errors in it; a counted model is created again."""
    try:
        return run.last(lambda words: None)
    except CheckpointError:
        if is_counted:
            return None
        raise


# --- baselines --------------------------------------------------------------------------------------------------------


def _check_baselines(config: Any) -> None:
    """Raise MissingExtraError before training if a config has baselines and scikit-learn is not installed."""
    if _baseline_names(config):
        require("sklearn", "sklearn", "--baseline")


def _add_baselines(result: TrainResult, config: Any, sources: Sources[Any]) -> TrainResult:
    """The result of training with a table of the baselines of its config, which is also stored in the run.

    The table is about the test set, or about dev if there is none.
    """
    if not _baseline_names(config) or result.interrupted:
        return result
    from catena.tasks.writing import to_json

    task = load_task(result.folder, config.machine.device)
    parts = task.training_parts(sources)
    part = "test" if len(parts.test) else "dev"
    report = _compare_baselines(task, config, parts, getattr(parts, part), part, result.folder)
    write_text_atomically(result.folder / _BASELINES, to_json(report.to_dict(), indent=1) + "\n")
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

    suite = task.baselines()  # raises if the task has none
    if not is_run(run):
        raise CheckpointError(
            f"--baseline needs the training files of a run, which {run} does not name. Pass a folder of 'catena train'."
        )
    open_run(run).check_data(task.config.data.files())
    if isinstance(suite, OwnBaselines):
        return suite.report(run, names, examples, file)
    config = _with_baselines(task.config, names)
    _check_baselines(config)
    parts = task.training_parts(Sources(type(task), config))
    return _compare_baselines(task, config, parts, examples, file, run)


def _compare_baselines(
    task: Any, config: Any, parts: Any, examples: Sequence[Any], part: str, run: Path
) -> BaselineReport:
    from catena.tasks.baselines.fitting import fit_baselines
    from catena.tasks.baselines.report import compare_baselines

    metric = config.training.metric or task.metric
    suite = task.baselines()
    fitted = fit_baselines(suite, config.baselines, parts, metric)
    return compare_baselines(
        suite, fitted, examples, part=part, metric=metric, own_name=config.model.kind,
        own_bytes=sum(tensor.nbytes for tensor in task.tensors().values()), own_seconds=_training_seconds(run),
    )  # fmt: skip


def _baseline_names(config: Any) -> tuple[str, ...]:
    section = getattr(config, "baselines", None)
    return () if section is None else section.baseline


def _with_baselines(config: Any, names: Sequence[str]) -> Any:
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
