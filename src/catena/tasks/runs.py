"""Train, resume and load runs of any task: from a config to a run folder and back.

Tested in tests/tasks/test_runs.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.checkpoint import CONFIG, Checkpoint, lock_run, open_checkpoint, read_meta
from catena.config import to_toml
from catena.errors import CheckpointError, DataError
from catena.randomness import Randomness
from catena.tasks.base import BaseTask, Origin, TrainResult
from catena.tasks.baselines.runs import add_baselines, check_baselines
from catena.tasks.data_warnings import overlap_warnings
from catena.tasks.sources import Sources
from catena.tasks.spec import TaskSpec, get_spec, read_spec
from catena.training.config import ENDING_SCHEDULES
from catena.training.report import Reporter
from catena.training.resuming import load_config
from catena.training.run import RunFolder, create_run, open_run

_DROPPED = "dropped.tsv"
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
    check_baselines(config)
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
        return result if is_trial else add_baselines(result, config, Sources(family, config, examples), load_task)


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
    check_baselines(config)
    if family.uses_torch:
        set_threads(config.machine.threads or int(read_meta(folder)["threads"]))
    run.check_data(config.data.files())
    last = _last_checkpoint(run, is_counted)
    before = config.training
    config = load_config(spec.config_class(), folder, last, limits, getattr(family, "filled_keys", ()))
    origin = _origin(config, None if issubclass(family, FittedTask) else last)
    training = family.prepare(config, Sources(family, config, has_test=not is_trial), origin)
    if limits and before != config.training and config.training.schedule in ENDING_SCHEDULES:
        reporter.note(
            f"the {config.training.schedule} learning rate schedule now ends at the new last step: the result differs "
            f"from a run that had this limit from the start"
        )
    result = training.resume(run, reporter)
    return result if is_trial else add_baselines(result, config, Sources(family, config), load_task)


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
    return add_baselines(result, config, Sources(family, config), load_task)


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
