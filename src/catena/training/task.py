"""The task as the loop sees it: batches by number, a loss, an evaluation, what to save beside the weights.

The loop knows nothing else of a task, and a task knows nothing of optimizers, schedules or checkpoints.
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
"""Whatever a task makes of a batch: handed from :meth:`EpochPlan.batch` to :meth:`Task.loss` unread."""


@dataclass(frozen=True)
class BatchLoss:
    """What one batch cost.

    Args:
        total: the **mean** over the items, with its gradient. Micro-batches are weighted by their items, so
            that accumulating them equals the one large batch.
        items: what the mean is over: examples of a classifier, predicted tokens of a language model.
        tokens: tokens read, for the speed that is reported.
    """

    total: Float[Tensor, ""]
    items: int
    tokens: int


@dataclass(frozen=True)
class Evaluation:
    """Scores on the development set by name, and a few predictions to look at (up to three are shown)."""

    scores: dict[str, float]
    samples: list[str] = field(default_factory=list)


class EpochPlan(ABC):
    """The batches of one epoch, each at hand by its number, so that a resumed run starts in the middle."""

    @abstractmethod
    def __len__(self) -> int:
        """How many batches the epoch has; at least one."""

    @abstractmethod
    def batch(self, i: int) -> Batch:
        """Batch ``i``, always the same one, whatever was asked for before; on the device of the model."""


class Task(ABC):
    """A model, its data and its metric. What it draws depends on its seed and the number of the epoch alone.

    What :meth:`loss` draws from torch's global generators (dropout) is repeated exactly by a resumed run.
    """

    what_next: tuple[str, ...] = RunResult.what_next
    """Commands that the trained model is good for, told when training ends."""
    ties: str = ""
    """The score, less being better, that decides between evaluations of equal :attr:`metric`, where a metric is coarse:
    BLEU stays at 0 for many steps while a model learns."""

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The parameters to train, on the device they are trained on."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """The key of :attr:`Evaluation.scores` that decides which checkpoint is best."""

    @property
    @abstractmethod
    def higher_is_better(self) -> bool:
        """Whether a greater value of :attr:`metric` is better (accuracy) or a smaller one (perplexity)."""

    @abstractmethod
    def epoch(self, number: int) -> EpochPlan:
        """The batches of epoch ``number`` (the first is 1): the same for the same seed, whenever asked."""

    def before_step(self, step: int) -> None:
        """Told before each step how many came before it; for models that train by a schedule of their own."""
        return None

    @abstractmethod
    def loss(self, batch: Batch) -> BatchLoss:
        """The loss of one batch. The loop has put the model into training mode."""

    @abstractmethod
    def evaluate(self) -> Evaluation:
        """Score the development set.

        The loop has put the model into evaluation mode and switched gradients off; it seeds the global
        generators for the evaluation and gives them back afterwards as they were.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write all but the weights into a checkpoint folder: config.toml, vocabulary, tokenizer, labels."""

    @abstractmethod
    def describe_batch(self, batch: Batch) -> str:
        """For the answer to running out of memory: "50 examples, longest 56 tokens"."""

    def tensors(self) -> dict[str, Tensor]:
        """What the next batch depends on beside the weights: the carried state of a truncated backpropagation."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what :meth:`tensors` gave, which a resumed run has read from its checkpoint."""
        return None

    def summary(self) -> Sequence[str]:
        """Lines about the data for the start of the report: "train: 9,596 examples, 2 labels"."""
        return ()
