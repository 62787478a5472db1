"""Transducer networks as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan, pad
from catena.errors import DataError
from catena.randomness import Randomness
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.transduce.config import METRICS, WHAT_NEXT, TransduceConfig
from catena.tasks.transduce.dataset import StringPair, TransduceDataset
from catena.tasks.transduce.predictor import save_cutting
from catena.tasks.transduce.scoring import compute_scores, first_answers
from catena.training.task import BatchLoss, EpochPlan, Evaluation
from catena.transduction.network import NetworkTransducer, StringPairBatch


class TransduceTask(NeuralTask):
    """Training task of a transducer network: its data and metric."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: TransduceConfig,
        data: TransduceDataset,
        model: NetworkTransducer,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._transducer = model
        model.network.to(device)
        pairs = data.pairs()
        known = [(x, y) for x, y in pairs if all(symbol in model.target for symbol in y)]
        if len(known) < len(pairs):
            data.lines.append(f"{len(pairs) - len(known):,} targets have a symbol unknown to the old model")
        if not known:
            raise DataError("Every target has symbols unknown to the old model. Remove --from.")
        self._sources = [model.source_ids(x) for x, _ in known]
        self._targets = [model.target_ids(y) for _, y in known]
        self._lengths = np.array([len(x) for x in self._sources])

    @property
    def model(self) -> nn.Module:
        return self._transducer.network

    @property
    def metric(self) -> str:
        return self.config.training.metric or METRICS[0]

    @property
    def higher_is_better(self) -> bool:
        return False

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        return BatchedEpoch(BatchPlan.shuffled(self._lengths, self.config.batches, generator), self.batch)

    def batch(self, rows: np.ndarray) -> StringPairBatch:
        """A batch of the training pairs at ``rows``."""
        sides = [pad([side[r] for r in rows.tolist()]) for side in (self._sources, self._targets)]
        symbols, written = (int(lengths.sum()) for _, lengths in sides)
        tensors = [tensor.to(self.device, non_blocking=True) for side in sides for tensor in side]
        return StringPairBatch(tensors[0], tensors[1], tensors[2], tensors[3], symbols, written)

    def loss(self, batch: StringPairBatch) -> BatchLoss:
        total, items = self._transducer.loss(batch)
        return BatchLoss(total, items, batch.symbols)

    def evaluate(self) -> Evaluation:
        answers = first_answers(self._transducer, self.data.dev)
        return Evaluation(compute_scores(self.data.dev, answers), self._samples(self.data.dev, answers))

    def test_scores(self) -> dict[str, float]:
        return compute_scores(self.data.test, first_answers(self._transducer, self.data.test)) if self.data.test else {}

    def _samples(self, words: Sequence[StringPair], answers: Sequence[Sequence[str]]) -> list[str]:
        cutting, lines = self.data.cutting, []
        for word, answer in list(zip(words, answers, strict=True))[:3]:
            right = tuple(answer) in word.targets
            mark = "✓" if right else f"✗ (is {cutting.join(word.targets[0])})"
            lines.append(f"{cutting.join_source(word.source)}  →  {cutting.join(answer)} {mark}")
        return lines

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        save_cutting(self.data.cutting, folder)
        self._transducer.save(folder)

    def describe_batch(self, batch: StringPairBatch) -> str:
        return f"{len(batch.ids)} pairs, longest source {batch.ids.shape[1]} symbols"

    def summary(self) -> Sequence[str]:
        return self.data.lines
