"""Load the trained model of a run, a checkpoint or a file, for every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.errors import ConfigError, DataError
from catena.tasks.runs import load_task, train_run
from catena.tasks.spec import get_spec, read_spec

if TYPE_CHECKING:
    from catena.training.report import Reporter


def load(folder: str | PathLike[str], device: str = "auto", quantization: str | None = None) -> Any:
    """Load a trained model as the estimator of its task, such as :class:`catena.Tagger`.

    Args:
        folder: a run folder, its ``best`` or ``last``, a checkpoint folder, a folder that ``save`` wrote, or a file of
            an n-gram model (ARPA, or written by ``NgramModel.save``). Names on a model hub are not supported.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``; ``auto`` uses a GPU if there is one.
        quantization: ``int8`` stores the matrices of the networks in 8 bits, on a CPU. It needs a quarter of the memory
            and multiplies integers (:mod:`catena.kernels.linear.cpu_int8`).
    """
    if holds_ngrams(Path(folder)) or quantization is not None:
        task = load_model(folder, device, quantization)
        estimator = get_spec(task.name).estimator_class(_kind_of(task.config))()
        return estimator.use_task(task)
    path = open_checkpoint(Path(folder)).folder / CONFIG
    spec = read_spec(path)
    if not spec.has_examples:
        return spec.get_runner().load(Path(folder), device)
    return spec.estimator_class(_kind_of(spec.load_config(path))).load(folder, device)


def _kind_of(config: Any) -> str:
    """The kind of model of a config; empty if its task has only one."""
    return str(getattr(getattr(config, "model", None), configs.KIND, ""))


def train(
    files: str | PathLike[str] | Sequence[str | PathLike[str]],
    task: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    output: str | PathLike[str],
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> Any:
    """Train a model on files, as ``catena train`` does, and return it as the estimator of its task.

    Args:
        files: one or more training files.
        task: the name of the task; detected from the first file if None.
        options: config options by the names that they have on the command line, such as ``{"max_epochs": 5}``. With
            ``max_time`` and without ``model``, the model is searched for; without both, it depends on the size of the
            data.
        output: the run folder to create.
        overwrite: replace an older run.
        reporter: receives the progress; None for silence.
    """
    from catena.tasks.auto.search import search_model
    from catena.tasks.auto.table import default_values, read_candidates
    from catena.tasks.spec import detect_spec
    from catena.training.report import SilentReporter

    paths = [files] if isinstance(files, str | PathLike) else list(files)
    spec = get_spec(task) if task else detect_spec(Path(paths[0]))
    if not spec.has_examples:
        raise ConfigError(f"task must be one that learns from files, got {spec.name!r}. Use catena.agents.DQN.")
    chosen = spec.choose_kind({}, [Path(path) for path in paths]).get("model", {})
    given = {**({"model": chosen[configs.KIND]} if chosen else {}), **dict(options or {})}
    values = spec.estimator_class(str(given.get("model", "")))(**given).config_values()
    values.setdefault("data", {})["train"] = [str(Path(path).resolve()) for path in paths]
    config: Any = configs.parse(spec.config_class(), values, source="train")
    if read_candidates(spec.name) and "model" not in given and config.training.max_time is not None:
        note = reporter.note if reporter else (lambda words: None)
        search_model(spec, values, Path(output), config.training.max_seconds, note, source="train")
        return load(output)
    reporter, line = reporter or SilentReporter(), ""
    if "model" not in given:
        values, line = default_values(spec, values)
        config = configs.parse(spec.config_class(), values, source="train")
        if line:
            reporter.note(line)
    train_run(config, Path(output), reporter, overwrite=overwrite, notes=[line] if line else [])
    return load(output)


def load_model(
    folder: str | PathLike[str], device: str = "auto", quantization: str | None = None, seed: int | None = None
) -> Any:
    """Load a trained model as a task. Arguments as in :func:`load` and :func:`catena.tasks.runs.load_task`."""
    if quantization not in (None, "int8"):
        raise ConfigError(f"quantization must be 'int8' or None, got {quantization!r}. Use None for single precision.")
    if holds_ngrams(Path(folder)):
        if quantization is not None:
            raise DataError(f"{folder} holds n-grams, which cannot be quantized. Remove quantization.")
        from catena.tasks.lm.counted import NgramLmTask

        return NgramLmTask.open_file(Path(folder))
    if quantization is None:
        return load_task(Path(folder), device, seed)
    model = load_task(Path(folder), "cpu" if device == "auto" else device, seed)
    networks = model.networks
    if not networks or not model.quantizable:
        raise DataError(
            f"{folder} is a model of the task {model.name}, which cannot be quantized; networks of translate, "
            f"transduce, converse and lm can. Remove quantization."
        )
    from catena.engine.int8 import quantize_int8_

    for network in networks:
        quantize_int8_(network)
    return model


def task_of_model(path: Path) -> str:
    """The task of the model that :func:`load` would load from this path."""
    return "lm" if holds_ngrams(path) else read_spec(open_checkpoint(path).folder / CONFIG).name


def holds_ngrams(path: Path) -> bool:
    """Whether this is a file of an n-gram model."""
    if not path.is_file():
        return False
    from catena.lm.ngram.arpa import is_arpa
    from catena.lm.ngram.binary import is_binary

    return is_binary(path) or is_arpa(path)
