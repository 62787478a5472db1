"""Train a model of your own: implement the task interface, and the loop resumes, averages and stops it for you.

Here a small network learns exclusive or, which no linear model can.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from catena.randomness import Randomness
from catena.training import BatchLoss, EpochPlan, Evaluation, Task, TrainingConfig, train
from catena.training.report import LinesReporter

INPUTS = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
ANSWERS = torch.tensor([0, 1, 1, 0])


class AllAtOnce(EpochPlan):
    def __len__(self) -> int:
        return 1

    def batch(self, i: int) -> tuple[Tensor, Tensor]:
        return INPUTS, ANSWERS


class ExclusiveOr(Task):
    metric = "accuracy"

    def __init__(self, randomness: Randomness) -> None:
        randomness.seed_torch("weights")
        self.network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    @property
    def model(self) -> nn.Module:
        return self.network

    def higher_is_better(self, metric: str) -> bool:
        return True

    def epoch(self, number: int) -> EpochPlan:
        return AllAtOnce()

    def loss(self, batch: tuple[Tensor, Tensor]) -> BatchLoss:
        inputs, answers = batch
        return BatchLoss(nn.functional.cross_entropy(self.network(inputs), answers), len(inputs), len(inputs))

    def evaluate(self) -> Evaluation:
        guesses = self.network(INPUTS).argmax(1)
        shown = [f"{a:.0f} xor {b:.0f} = {g}" for (a, b), g in zip(INPUTS.tolist(), guesses.tolist(), strict=True)]
        return Evaluation({"accuracy": (guesses == ANSWERS).float().mean().item()}, shown)

    def save(self, folder: Path) -> None:
        pass  # only the weights

    def describe_batch(self, batch: tuple[Tensor, Tensor]) -> str:
        return f"{len(batch[0])} examples"


randomness = Randomness(0)
settings = TrainingConfig(learning_rate=0.05, max_epochs=100, eval_every=25, patience=0)
outcome = train(ExclusiveOr(randomness), settings, None, randomness, LinesReporter(print))
print(f"accuracy {outcome.score:.0%}")
