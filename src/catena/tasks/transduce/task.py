"""The edit transducer as the training loop sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan, pad
from catena.randomness import Randomness
from catena.tasks.looped import PlannedEpoch, TestedTask
from catena.tasks.transduce.dataset import Dataset, Word
from catena.tasks.transduce.predictor import EditModel, save_cutting
from catena.tasks.transduce.scoring import first_answers, scores_of
from catena.tasks.transduce.settings import METRICS, WHAT_NEXT, TransduceConfig
from catena.training.task import EpochPlan, Evaluation, LossOutput
from catena.transduction.edit import EditTransducer, source_ids


@dataclass(frozen=True)
class PairBatch:
    """Padded sources and targets."""

    ids: Tensor
    lengths: Tensor
    targets: Tensor
    target_lengths: Tensor


class TransduceTask(TestedTask):
    """An edit transducer, its data and its metric."""

    what_next = WHAT_NEXT

    def __init__(
        self, config: TransduceConfig, data: Dataset, model: EditModel, device: torch.device, randomness: Randomness
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._edits = model
        model.network.to(device)
        self._sources: list[np.ndarray] = []
        self._targets: list[np.ndarray] = []
        for x, y in data.pairs():
            self._sources.append(np.array(source_ids(model.source, x), np.int64))
            self._targets.append(np.array(model.target.ids(y), np.int64) - 1)
        self._lengths = np.array([len(x) for x in self._sources])

    @property
    def model(self) -> nn.Module:
        return self._edits.network

    @property
    def metric(self) -> str:
        return METRICS[0]

    @property
    def higher_is_better(self) -> bool:
        return False

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        return PlannedEpoch(BatchPlan.shuffled(self._lengths, self.config.batches, generator), self.batch)

    def batch(self, rows: np.ndarray) -> PairBatch:
        """Some pairs of train as tensors."""
        sides = [pad([side[r] for r in rows.tolist()]) for side in (self._sources, self._targets)]
        tensors = [tensor.to(self.device) for side in sides for tensor in side]
        return PairBatch(tensors[0], tensors[1], tensors[2], tensors[3])

    def loss(self, batch: PairBatch) -> LossOutput:
        network = self._edits.network
        assert isinstance(network, EditTransducer)
        losses = network.loss(batch.ids, batch.lengths, batch.targets, batch.target_lengths)
        return LossOutput(losses.mean(), len(losses), int(batch.lengths.sum()))

    def evaluate(self) -> Evaluation:
        answers = first_answers(self._edits, self.data.dev)
        return Evaluation(scores_of(self.data.dev, answers), self._samples(self.data.dev, answers))

    def test_scores(self) -> dict[str, float]:
        return scores_of(self.data.test, first_answers(self._edits, self.data.test)) if self.data.test else {}

    def _samples(self, words: Sequence[Word], answers: Sequence[Sequence[str]]) -> list[str]:
        cutting, lines = self.data.cutting, []
        for word, answer in list(zip(words, answers, strict=True))[:3]:
            right = tuple(answer) in word.targets
            mark = "✓" if right else f"✗ (is {cutting.join(word.targets[0])})"
            lines.append(f"{cutting.join_source(word.source)}  →  {cutting.join(answer)} {mark}")
        return lines

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        save_cutting(self.data.cutting, folder)
        self._edits.save(folder)

    def describe_batch(self, batch: PairBatch) -> str:
        return f"{len(batch.ids)} pairs, longest source {batch.ids.shape[1]} symbols"

    def summary(self) -> Sequence[str]:
        return self.data.lines
