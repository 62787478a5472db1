"""A task that trains in milliseconds: whether the sum of a few numbers exceeds a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.task import Batch, BatchLoss, EpochPlan, Evaluation, Task


class TinyModel(nn.Module):
    """A table, a hidden layer with dropout and normalization, an output layer."""

    def __init__(self, words: int = 12, d: int = 4, dropout: float = 0.3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, d)
        self.norm = nn.LayerNorm(d)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.dropout(self.norm(self.embedding(ids).mean(1).tanh())))


class TiedModel(TinyModel):
    """The same, with a second name for the table and a buffer that counts the batches."""

    def __init__(self) -> None:
        super().__init__()
        self.twin = nn.Embedding(12, 4)
        self.twin.weight = self.embedding.weight
        self.batches: Tensor
        self.register_buffer("batches", torch.tensor(0))

    def forward(self, ids: Tensor) -> Tensor:
        if self.training:
            self.batches += 1
        return super().forward(ids) + self.twin(ids).mean()


@dataclass(frozen=True)
class TinyPlan(EpochPlan):
    ids: Tensor
    labels: Tensor
    order: Tensor
    size: int

    def __len__(self) -> int:
        return -(-len(self.order) // self.size)

    def batch(self, i: int) -> Batch:
        rows = self.order[i * self.size : (i + 1) * self.size]
        return self.ids[rows], self.labels[rows]


class TinyTask(Task):
    """``scores`` replaces the measured score by a list with one value for each evaluation."""

    metric = "accuracy"

    def higher_is_better(self, metric: str) -> bool:
        return metric != "loss"

    def __init__(
        self,
        seed: int = 0,
        *,
        examples: int = 22,
        batch_size: int = 4,
        dropout: float = 0.3,
        scores: list[float] | None = None,
    ) -> None:
        self.randomness = Randomness(seed)
        draw = self.randomness.torch("data")
        self.ids = torch.randint(0, 12, (examples, 5), generator=draw)
        self.labels = (self.ids.sum(1) > 27).long()
        self.batch_size = batch_size
        self.scores = scores
        self.evaluations = 0
        self.randomness.seed_torch("weights")
        self._model = TinyModel(dropout=dropout)

    @property
    def model(self) -> nn.Module:
        return self._model

    def epoch(self, number: int) -> EpochPlan:
        order = torch.from_numpy(self.randomness.numpy("order", number).permutation(len(self.ids)))
        return TinyPlan(self.ids, self.labels, order, self.batch_size)

    def loss(self, batch: Batch) -> BatchLoss:
        ids, labels = batch
        total = nn.functional.cross_entropy(self.model(ids), labels)
        return BatchLoss(total, items=len(ids), tokens=ids.numel())

    def evaluate(self) -> Evaluation:
        torch.rand(3)  # an evaluation may sample without disturbing training
        logits = self.model(self.ids)
        right = float((logits.argmax(1) == self.labels).double().mean())
        if self.scores is not None:
            right = self.scores[min(self.evaluations, len(self.scores) - 1)]
        self.evaluations += 1
        loss = float(nn.functional.cross_entropy(logits, self.labels))
        return Evaluation({"accuracy": right, "loss": loss}, [f"{row.tolist()} -> 1" for row in self.ids[:5]])

    def save(self, folder: Path) -> None:
        (folder / "config.toml").write_text('kind = "tiny"\n', encoding="utf-8")
        (folder / "labels").mkdir()
        (folder / "labels" / "labels.json").write_text('["no", "yes"]\n', encoding="utf-8")

    def describe_batch(self, batch: Batch) -> str:
        return f"{len(batch[0])} examples, longest {batch[0].shape[1]} tokens"

    def summary(self) -> list[str]:
        return [f"train: {len(self.ids)} examples"]


def make_task() -> Task:
    """The task of the subprocess tests."""
    return TinyTask(seed=3)


def make_settings() -> TrainingConfig:
    """Settings under which a checkpoint falls into the middle of an epoch of six steps."""
    return TrainingConfig(optimizer="adam", learning_rate=0.05, max_epochs=4, eval_every=4, patience=0)
