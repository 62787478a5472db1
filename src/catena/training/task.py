"""The interface between the training loop and a task: batches, loss, evaluation, saving.

The loop uses nothing else of a task, and a task is independent of optimizers, schedules and checkpoints.

Tested in tests/training/test_loop.py and tests/training/test_memory.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from catena.training.report import RunResult

Batch = Any
"""Any type of batch. The loop passes it from :meth:`EpochPlan.batch` to :meth:`Task.loss`."""


@dataclass(frozen=True)
class BatchLoss:
    """The loss of one batch.

    Args:
        total: the **mean** over the items, with its gradient. Micro-batches are weighted by their items, so
            that accumulating them equals one large batch.
        items: number of items in the mean: examples of a classifier, predicted tokens of a language model.
        tokens: number of tokens read, for the reported speed.
    """

    total: Float[Tensor, ""]
    items: int
    tokens: int


@dataclass(frozen=True)
class Evaluation:
    """Scores on the development set by name, and a few predictions to show (up to three)."""

    scores: dict[str, float]
    samples: list[str] = field(default_factory=list)


class EpochPlan(ABC):
    """The batches of one epoch, accessible by index, so that a resumed run can start in the middle."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of batches in the epoch, at least one."""

    @abstractmethod
    def batch(self, i: int) -> Batch:
        """Batch ``i`` on the device of the model, independent of the order of access."""


class Task(ABC):
    """A model, its data and its metric. Its random choices depend only on its seed and the epoch number.

    Random numbers that :meth:`loss` samples from torch's global generators (dropout) are repeated exactly by a resumed
    run.
    """

    what_next: tuple[str, ...] = RunResult.what_next
    """Commands to suggest when training ends."""
    unit: str = "tokens"
    """What :attr:`BatchLoss.tokens` counts, for the reported speed."""
    ties: str = ""
    """The score (lower is better) that breaks ties of :attr:`metric`, for coarse metrics: BLEU stays at 0 for many
    steps while a model learns."""

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The model to train, on its device."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """The key of :attr:`Evaluation.scores` that selects the best checkpoint."""

    @abstractmethod
    def higher_is_better(self, metric: str) -> bool:
        """Whether a higher value of a score is better (accuracy) or a lower one (perplexity)."""

    @abstractmethod
    def epoch(self, number: int) -> EpochPlan:
        """The batches of epoch ``number`` (the first is 1), the same on every call with the same seed."""

    def before_step(self, step: int) -> None:
        """Called before each step with the number of previous steps, for models with their own schedules."""
        return None

    @abstractmethod
    def loss(self, batch: Batch) -> BatchLoss:
        """The loss of one batch. The model is in training mode."""

    @abstractmethod
    def evaluate(self) -> Evaluation:
        """Score the development set.

        The model is in evaluation mode and gradients are off. The loop seeds the global generators for the evaluation
        and restores them afterwards.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except the weights into a checkpoint folder: config.toml, vocabulary, labels."""

    @abstractmethod
    def describe_batch(self, batch: Batch) -> str:
        """A description of a batch for out-of-memory errors: "50 examples, longest 56 tokens"."""

    def tensors(self) -> dict[str, Tensor]:
        """State that the next batch depends on: the carried state of truncated backpropagation."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that :meth:`tensors` returned."""
        return None

    def summary(self) -> Sequence[str]:
        """Lines about the data for the start of the report: "train: 9,596 examples, 2 labels"."""
        return ()
