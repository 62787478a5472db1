"""The common part of tasks whose models are trained by the training loop: from the config to the run folder.

A subclass defines how to read its data and build its model. Files, threads, seeds, starts from an old or pretrained
model, the run folder and the test scores are the same for all. Models that need no loop, such as counted ones, are
created by :meth:`LoopedApplication.fit` and stored in the same kind of folder.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, Checkpoint, open_checkpoint, read_meta
from catena.config import Config, to_toml
from catena.data.batches import BatchPlan
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError
from catena.randomness import Randomness
from catena.seq2seq.base import EncoderDecoder
from catena.tasks.application import NO_LIMITS, TaskApplication, TrainResult
from catena.tasks.machine import choose_device, set_threads
from catena.tasks.overlap import overlap_warnings
from catena.tasks.pretrained import Pretrained, open_pretrained
from catena.tasks.resuming import load_config
from catena.training.loop import resume, train
from catena.training.report import Reporter, RunResult
from catena.training.run import RunFolder, create_run, open_run
from catena.training.selection import finite
from catena.training.task import Batch, EpochPlan, Task

_DROPPED = "dropped.tsv"
C = TypeVar("C", bound=Config)
D = TypeVar("D")


class NeuralTask(Task):
    """A task that can score its test file once, with the best checkpoint."""

    def before_step(self, step: int) -> None:
        """Give encoder-decoders the progress of training, which scheduled sampling depends on."""
        for part in self.model.modules():
            if isinstance(part, EncoderDecoder):
                part.set_progress(step)

    @abstractmethod
    def test_scores(self) -> dict[str, float]:
        """The scores on test; empty without a test file. The model is in evaluation mode."""


class BatchedEpoch(EpochPlan):
    """An epoch from a plan of rows and a function that makes a batch of some rows."""

    def __init__(self, plan: BatchPlan, batch_of: Callable[[np.ndarray], Batch]) -> None:
        self.plan, self.batch_of = plan, batch_of

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, i: int) -> Batch:
        return self.batch_of(self.plan[i])


class LoopedApplication(TaskApplication, Generic[C, D]):
    """An application with a config ``C`` (with seed, machine, data and training) and prepared data ``D``."""

    settings: ClassVar[type[Config]]

    # --- defined by each task -----------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, config: C, randomness: Randomness, old: Path | None, start: Pretrained | None) -> D:
        """Read the data, in the encoding of an old or pretrained model if one is given."""

    @abstractmethod
    def task(self, config: C, data: D, device: torch.device, randomness: Randomness) -> NeuralTask:
        """The task with a model of new random weights, initialized by the seed."""

    def dropped(self, data: D) -> ReadCounter | None:
        """The counts of examples read and dropped, to be listed in the run folder."""
        return None

    def adopted(self, config: C, start: Pretrained) -> C:
        """The config with all options that the pretrained model determines filled in."""
        raise NotImplementedError(f"{type(self).__name__} does not support pretrained models")

    def start(self, task: NeuralTask, start: Pretrained) -> None:
        """Copy pretrained weights into the model."""
        raise NotImplementedError(f"{type(self).__name__} does not support pretrained models")

    def fits(self, config: C) -> bool:
        """Whether the model is created by :meth:`fit`, without the loop."""
        return False

    def fit(self, config: C, data: D, run: RunFolder, randomness: Randomness, reporter: Reporter) -> TrainResult:
        """Create a model that needs no loop and store it in the run (:mod:`catena.tasks.fitted`)."""
        raise NotImplementedError(f"{type(self).__name__} trains all its models in the training loop")

    def is_counted(self, config: C) -> bool:
        """Whether the model is created in one pass, so that it cannot be trained for longer."""
        return self.fits(config)

    def filled_keys(self, config: C) -> Sequence[str]:
        """Keys, or sections with their dot, that :meth:`fit` sets in the config of its checkpoint."""
        return ()

    # --- common to all tasks ------------------------------------------------------------------------------------------

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        own: Any = config
        set_threads(own.machine.threads)
        randomness = Randomness(own.seed)
        old = open_checkpoint(start_from, reporter.note) if start_from else None
        start = _pretrained(own) if old is None else None
        own = self.adopted(own, start) if start else own
        if old is not None and self.fits(own):
            raise CheckpointError(
                f"--from {old.folder} needs a network to initialize, but a model of kind {own.model.kind!r} is always "
                f"created from scratch. Remove --from."
            )
        data = self.prepare(own, randomness, old.folder if old else None, start)
        task = None if self.fits(own) else self.task(own, data, choose_device(own.machine.device), randomness)
        if task is not None and old is not None:
            old.load_into(task.model)
        elif task is not None and start is not None:
            self.start(task, start)
        run = create_run(
            folder,
            to_toml(own),
            seed=own.seed,
            command=command,
            data=own.data.files(),
            started_from=start_from,
            overwrite=overwrite,
        )
        tally = self.dropped(data)
        if tally is not None and tally.dropped:
            tally.write(folder / _DROPPED)
        for warning in overlap_warnings(own.data.files(), own.data.encoding):
            reporter.note(warning)
            run.log(warning)
        if task is None:
            return self.fit(own, data, run, randomness, reporter)
        saved = old is not None or start is not None
        return _tested(task, train(task, own.training, run, randomness, reporter, save_start=saved), run)

    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS) -> TrainResult:
        run = open_run(folder)
        config: Any = configs.load(self.settings, folder / CONFIG)
        if limits and self.is_counted(config):
            raise CheckpointError(
                f"{' and '.join(limits)} must be left out for a model of kind {config.model.kind!r}, which is made in "
                f"one pass, got {', '.join(map(str, limits.values()))}. Run 'catena resume {folder}' without them."
            )
        set_threads(config.machine.threads or int(read_meta(folder)["threads"]))
        run.check_data(config.data.files())
        last = self._last(run, config)
        before = config.training
        config = load_config(self.settings, folder, last, limits, self.filled_keys(config))
        randomness = Randomness(config.seed)
        if self.fits(config):
            return self.fit(config, self.prepare(config, randomness, None, None), run, randomness, reporter)
        start = _pretrained(config) if last is None else None
        data = self.prepare(config, randomness, last.folder if last else None, start)
        task = self.task(config, data, choose_device(config.machine.device), randomness)
        if start is not None:
            self.start(task, start)
        if limits and before != config.training and config.training.schedule in ("cosine", "linear"):
            reporter.note(
                f"the {config.training.schedule} learning rate schedule now ends at the new last step: the result "
                f"differs from a run that had this limit from the start"
            )
        return _tested(task, resume(task, config.training, run, randomness, reporter), run)

    def _last(self, run: RunFolder, config: C) -> Checkpoint | None:
        """The checkpoint to resume from. The loop reports errors in it; a counted model is created again."""
        try:
            return run.last(lambda words: None)
        except CheckpointError:
            if self.is_counted(config):
                return None
            raise


def check_same_model_kind(old: Path, theirs: Any, own: Any) -> None:
    """Raise CheckpointError if two configs, ``theirs`` and ``own``, do not have the same model."""
    if theirs.model != own.model:
        raise CheckpointError(
            f"the model must have the options of the one in {old} (kind {theirs.model.kind!r}), got kind "
            f"{own.model.kind!r} or other options. Remove the options of the model, or train without --from."
        )


def _pretrained(config: Any) -> Pretrained | None:
    folder = getattr(config, "pretrained", None)
    return open_pretrained(folder) if folder else None


def _tested(task: NeuralTask, outcome: RunResult, run: RunFolder) -> TrainResult:
    """Score the test file with the best checkpoint and store the scores once."""
    test: dict[str, float] = {}
    if not outcome.interrupted:
        task.model.eval()
        test = task.test_scores()
    if test:
        row = {"step": outcome.best_step or outcome.steps, "part": "test", **finite(test)}
        if row not in run.metrics():  # it is there if a finished run is resumed
            run.append_metrics(row)
    return TrainResult(run.path, outcome.metric, outcome.scores, test, outcome.interrupted)
