"""Language models as a whole: train, resume, load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint, read_meta
from catena.config import Config, to_toml
from catena.errors import CheckpointError, DataError
from catena.lm.neural_masked import MaskedLanguageModel
from catena.randomness import Randomness
from catena.tasks.application import Application, Predictor, Trained
from catena.tasks.lm.auto import fit_to_time
from catena.tasks.lm.dataset import Dataset, files_of, prepare
from catena.tasks.lm.encoding import load_encoding
from catena.tasks.lm.model import Network, new_network
from catena.tasks.lm.ngram import train_ngram
from catena.tasks.lm.predictor import load_predictor
from catena.tasks.lm.settings import LmConfig
from catena.tasks.lm.task import LmTask, MaskedTask, NextTokenTask
from catena.tasks.machine import choose_device, set_threads
from catena.training.loop import resume, train
from catena.training.report import Outcome, Reporter
from catena.training.run import RunFolder, create_run, open_run


class LmApplication(Application):
    """p(next token | those before it)."""

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> Trained:
        assert isinstance(config, LmConfig)
        set_threads(config.machine.threads)
        randomness = Randomness(config.seed)
        old = open_checkpoint(start_from, reporter.note) if start_from else None
        data = _dataset(config, randomness, old.folder if old else None)
        model = new_network(config, data.encoding.vocabulary, data.counts, randomness) if config.is_neural else None
        if old is not None:
            if model is None:
                raise CheckpointError(f"--from {old.folder} starts a network, and an n-gram model is counted anew")
            old.load_into(model)
        files = files_of(config.data)
        run = create_run(folder, to_toml(config), seed=config.seed, command=command, data=files, overwrite=overwrite)
        if model is None:
            return train_ngram(config, data, run, reporter)
        task = _task(config, data, model, randomness)
        outcome = train(task, config.training, run, randomness, reporter, save_start=old is not None)
        return _trained(task, outcome, run)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, LmConfig)
        return fit_to_time(config)

    def resume(self, folder: Path, reporter: Reporter) -> Trained:
        config = configs.load(LmConfig, folder / CONFIG)
        set_threads(config.machine.threads or int(read_meta(folder)["threads"]))
        run = open_run(folder)
        run.check_data(files_of(config.data))
        randomness = Randomness(config.seed)
        if not config.is_neural:
            return train_ngram(config, prepare(config, randomness), run, reporter)
        last = run.last(lambda words: None)  # the loop tells what is wrong with it
        data = _dataset(config, randomness, last.folder if last else None)
        model = new_network(config, data.encoding.vocabulary, data.counts, randomness)
        task = _task(config, data, model, randomness)
        return _trained(task, resume(task, config.training, run, randomness, reporter), run)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))


def _dataset(config: LmConfig, randomness: Randomness, old: Path | None) -> Dataset:
    """The data of a run; with an old model, in its encoding."""
    if old is None:
        return prepare(config, randomness)
    theirs = configs.load(LmConfig, old / CONFIG)
    if theirs.model != config.model or theirs.objective.kind != config.objective.kind:
        raise CheckpointError(
            f"--from {old} holds a model of another make ({theirs.model.kind!r}) than the one asked for "
            f"({config.model.kind!r}): leave the model's flags out to go on with it"
        )
    return prepare(config, randomness, load_encoding(old, config.data.unit))


def _task(config: LmConfig, data: Dataset, model: Network, randomness: Randomness) -> LmTask:
    device = choose_device(config.machine.device)
    if isinstance(model, MaskedLanguageModel):
        return MaskedTask(config, data, model, device, randomness)
    task = NextTokenTask(config, data, model, device, randomness)
    if len(task.epoch(1)) == 0:
        raise DataError("there is nothing to train on: every line is longer than data.max_length; raise it")
    return task


def _trained(task: LmTask, outcome: Outcome, run: RunFolder) -> Trained:
    test: dict[str, float] = {}
    if task.data.test is not None and not outcome.interrupted:
        task.model.eval()
        if isinstance(task, NextTokenTask):
            test = task.judge(task.data.test).scores()
        elif isinstance(task, MaskedTask):
            test = task.scores(task.data.test)
        row = {"step": outcome.best_step or outcome.steps, "part": "test", **test}
        if row not in run.metrics():  # it is there if a run that came to its end is resumed
            run.append_metrics(row)
    return Trained(run.path, outcome.metric, outcome.scores, test, outcome.interrupted)
