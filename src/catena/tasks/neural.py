"""Tasks whose network is trained by gradient steps, and their training.

Tested in tests/tasks/test_neural.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from catena.checkpoint import Checkpoint
from catena.data.batches import BatchPlan
from catena.encoders.init import build_to_load
from catena.randomness import Randomness
from catena.seq2seq.base import EncoderDecoder
from catena.tasks.base import (
    BaseTask,
    C,
    DataParts,
    E,
    EvaluationResult,
    O,
    Origin,
    P,
    Training,
    TrainResult,
    store_test_scores,
)
from catena.tasks.pretrained import Pretrained, unfreeze_top_layers
from catena.tasks.sources import Sources
from catena.training import loop
from catena.training.device import choose_device
from catena.training.report import Reporter, RunResult
from catena.training.run import RunFolder
from catena.training.task import BatchLoss, EpochPlan, Evaluation
from catena.training.task import Task as LoopTask


class EncodedRows(Protocol):
    """Encoded examples, accessed by index."""

    @property
    def lengths(self) -> np.ndarray:
        """The length of each example, by which batches are planned."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Dataset:
    """The encoded examples of train, dev and test, and lines about them for the start of the report."""

    train: Any
    dev: Any
    test: Any
    lines: list[str] = field(default_factory=list)


class NeuralTask(BaseTask[C, E, P, O]):
    """A task whose network is trained by gradient steps.

    Args:
        config: the config.
        encoding: maps examples to ids; a value with a method ``save(folder)``.
        network: the network.
    """

    tie_breaker: ClassVar[str] = ""
    """The score (lower is better) that decides if the metric is equal, for coarse metrics such as BLEU."""
    encoding_class: ClassVar[Any]
    """The class of encodings, if they are loaded from a folder without the config."""

    def __init__(self, config: C, encoding: Any, network: nn.Module) -> None:
        self.config, self.encoding, self._network = config, encoding, network

    # --- defined by each task -----------------------------------------------------------------------------------------

    @classmethod
    def fit_encoding(cls, config: C, train: Sequence[E], origin: Origin) -> Any:
        """The encoding that the training examples determine: vocabularies, labels. Define this, or ``prepare``."""
        raise NotImplementedError("prepare() fits the encoding while it stores the examples")

    @classmethod
    def load_encoding(cls, config: C, folder: Path) -> Any:
        """The encoding that :meth:`save` wrote; by default of the class ``encoding_class``."""
        return cls.encoding_class.load(folder)

    @classmethod
    @abstractmethod
    def build_network(cls, config: C, encoding: Any, report: list[str] | None = None) -> nn.Module:
        """The network. With ``report`` it is a new one: files of vectors are read, and lines about them added.

        Without ``report`` its weights are loaded afterwards.
        """

    @abstractmethod
    def encode(self, examples: Sequence[E], *, gold: bool = True) -> Any:
        """The examples as :class:`EncodedRows` of ids. With ``gold=False`` labels and references may be missing."""

    def collate(self, rows: Any, index: np.ndarray) -> Any:
        """The training batch of the rows at ``index``, padded, on the device of the network. Or define ``epoch``."""
        raise NotImplementedError("epoch() makes the batches")

    @abstractmethod
    def loss(self, batch: Any) -> BatchLoss:
        """The loss of a batch. The network is in training mode."""

    @abstractmethod
    def evaluate_rows(self, rows: Any) -> EvaluationResult:
        """Predict encoded examples and compare. The network is in evaluation mode and gradients are off."""

    @abstractmethod
    def describe_batch(self, batch: Any) -> str:
        """A description of a batch for out-of-memory errors: "50 examples, longest 56 tokens"."""

    # --- optional -----------------------------------------------------------------------------------------------------

    def load_pretrained(self, pretrained: Pretrained) -> None:
        """Copy the weights of a language model into the new network."""
        raise NotImplementedError(f"{type(self).__name__} does not support pretrained models")

    def usable(self, example: E) -> E | str:
        """The example to train on, possibly truncated, or the reason why it is dropped."""
        return example

    def summarize(self, parts: DataParts[E], data: Dataset) -> list[str]:
        """Lines about the data for the start of the report."""
        return []

    def evaluate_dev(self, rows: Any) -> EvaluationResult:
        """Evaluate dev during training, and fit on it what is not trained, such as a temperature."""
        return self.evaluate_rows(rows)

    def evaluate_test(self, rows: Any) -> EvaluationResult:
        """Evaluate the test set at the end of training."""
        return self.evaluate_rows(rows)

    def show(self, rows: Any, result: Any) -> list[str]:
        """A few dev examples with their predictions, one line each."""
        return []

    def frozen_layers(self) -> Sequence[Sequence[nn.Parameter]]:
        """The pretrained layers from top to bottom, which are frozen first and then unfrozen one by one."""
        return ()

    def epoch(self, rows: Any, number: int, randomness: Randomness) -> EpochPlan:
        """The training batches of an epoch; by default shuffled and bucketed by length."""
        config: Any = self.config
        plan = BatchPlan.shuffled(rows.lengths, config.batches, randomness.numpy("batches", number))
        return PlannedEpoch(plan, lambda index: self.collate(rows, index))

    def before_step(self, step: int) -> None:
        """Called before each training step with the number of previous steps, the only clock of schedules."""
        for part in self._network.modules():
            if isinstance(part, EncoderDecoder):
                part.set_progress(step)

    def training_tensors(self) -> dict[str, Tensor]:
        """State that the next batch depends on, such as the carried state of truncated backpropagation."""
        return {}

    def restore_training(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`training_tensors` returned."""

    # --- derived ------------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: C, sources: Sources[E], origin: Origin) -> NetworkTraining:
        lines, parts = sources.describe(), sources.split()
        task = cls.new(config, parts.train, origin, lines)
        parts = DataParts(sources.keep_usable(parts.train, task.usable), parts.dev, parts.test)
        data = Dataset(*(task.encode(part) for part in (parts.train, parts.dev, parts.test)))
        data.lines.extend([*lines, sources.counts(parts), *task.summarize(parts, data)])
        return NetworkTraining(task, data, origin.randomness)

    def training_parts(self, sources: Sources[E]) -> DataParts[E]:
        parts = sources.split()
        return DataParts(sources.keep_usable(parts.train, self.usable), parts.dev, parts.test)

    @classmethod
    def new(cls, config: C, train: Sequence[E], origin: Origin, report: list[str]) -> Self:
        """A task with new weights, in the encoding of an older run if there is one."""
        encoding = cls.choose_encoding(config, train, origin)
        origin.randomness.seed_torch("weights")
        task = cls(config, encoding, cls.build_network(config, encoding, report))
        if origin.pretrained is not None:
            task.load_pretrained(origin.pretrained)
        return task

    @classmethod
    def choose_encoding(cls, config: C, train: Sequence[E], origin: Origin) -> Any:
        """The encoding of an older run if there is one, otherwise that of the training examples."""
        if origin.folder is not None:
            return cls.load_encoding(config, origin.folder)
        return cls.fit_encoding(config, train, origin)

    @property
    def networks(self) -> Sequence[nn.Module]:
        return (self._network,)

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self._network.parameters()).device

    def evaluate_examples(self, examples: Sequence[E]) -> EvaluationResult:
        with torch.no_grad():
            return self.evaluate_rows(self.encode(examples))

    def save(self, folder: Path) -> None:
        self.encoding.save(folder)

    def tensors(self) -> dict[str, Tensor]:
        return self._network.state_dict()

    @classmethod
    def load(cls, config: C, checkpoint: Checkpoint, device: str) -> Self:
        encoding = cls.load_encoding(config, checkpoint.folder)
        with build_to_load():
            network = cls.build_network(config, encoding)
        checkpoint.load_into(network)
        return cls(config, encoding, network.to(choose_device(device)).eval())

    @property
    def n_parameters(self) -> int:
        """The number of parameters of the network."""
        return sum(p.numel() for p in self._network.parameters())


class PlannedEpoch(EpochPlan):
    """An epoch from a plan of rows and a function that makes a batch of some rows."""

    def __init__(self, plan: BatchPlan, batch_of: Callable[[np.ndarray], Any]) -> None:
        self.plan, self.batch_of = plan, batch_of

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, i: int) -> Any:
        return self.batch_of(self.plan[i])


class NetworkTraining(LoopTask, Training):
    """A neural task and its data, as the training loop sees them."""

    def __init__(self, task: NeuralTask[Any, Any, Any, Any], data: Dataset, randomness: Randomness) -> None:
        self.task, self.data, self.randomness = task, data, randomness
        self.config = task.config
        self._network = task.network.to(choose_device(self.config.machine.device))
        self._frozen = task.frozen_layers()
        self.what_next, self.ties = task.next_commands, task.tie_breaker

    def load_weights(self, checkpoint: Checkpoint) -> None:
        checkpoint.load_into(self._network)

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        settings = self.config.training
        outcome = loop.train(self, settings, run, self.randomness, reporter, save_start=saves_start)
        return self._tested(outcome, run)

    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        return self._tested(loop.resume(self, self.config.training, run, self.randomness, reporter), run)

    def _tested(self, outcome: RunResult, run: RunFolder) -> TrainResult:
        """Score the test set with the best checkpoint and store the scores once."""
        test: dict[str, float] = {}
        if not outcome.interrupted and len(self.data.test):
            self._network.eval()
            with torch.no_grad():
                scores = self.task.evaluate_test(self.data.test).scores()
            test = store_test_scores(run, outcome.best_step or outcome.steps, scores)
        return TrainResult(run.path, outcome.metric, outcome.scores, test, outcome.interrupted)

    # --- what the loop calls ------------------------------------------------------------------------------------------

    @property
    def model(self) -> nn.Module:
        return self._network

    @property
    def metric(self) -> str:
        return self.task.metric

    def higher_is_better(self, metric: str) -> bool:
        return self.task.find_metric(metric).higher_is_better

    def epoch(self, number: int) -> EpochPlan:
        if self._frozen:
            unfreeze_top_layers(self._frozen, number, getattr(self.config, "unfreeze", 0))
        return self.task.epoch(self.data.train, number, self.randomness)

    def before_step(self, step: int) -> None:
        self.task.before_step(step)

    def loss(self, batch: Any) -> BatchLoss:
        return self.task.loss(batch)

    def evaluate(self) -> Evaluation:
        result = self.task.evaluate_dev(self.data.dev)
        return Evaluation(result.scores(), self.task.show(self.data.dev, result))

    def save(self, folder: Path) -> None:
        self.task.save_all(folder)

    def describe_batch(self, batch: Any) -> str:
        return self.task.describe_batch(batch)

    def tensors(self) -> dict[str, Tensor]:
        return self.task.training_tensors()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.task.restore_training(tensors)

    def summary(self) -> Sequence[str]:
        return self.data.lines
