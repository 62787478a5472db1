"""Models of texts with an agenda as a task of the training loop."""

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
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.compose.config import METRICS, WHAT_NEXT, ComposeConfig
from catena.tasks.compose.dataset import ComposeDataset
from catena.tasks.compose.model import perplexity, total_nll, write
from catena.tasks.compose.reading import Composition
from catena.tasks.compose.scoring import compute_scores
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.training.task import BatchLoss, EpochPlan, Evaluation


@dataclass(frozen=True)
class ComposeBatch:
    """Padded sources and targets."""

    source: Source
    targets: Tensor
    lengths: Tensor
    tokens: int


class ComposeTask(NeuralTask):
    """Training task of a model of texts with an agenda: its data and metric."""

    what_next = WHAT_NEXT

    def __init__(
        self,
        config: ComposeConfig,
        data: ComposeDataset,
        model: EncoderDecoder,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._model = model.to(device)
        self._sources, self._targets = data.ids("train", config.data.max_length)
        self._lengths = np.array([len(ids) for ids in self._targets])

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def metric(self) -> str:
        return METRICS[0]

    @property
    def higher_is_better(self) -> bool:
        return False

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        return BatchedEpoch(BatchPlan.shuffled(self._lengths, self.config.batches, generator), self.batch)

    def batch(self, rows: np.ndarray) -> ComposeBatch:
        """A batch of the training examples at ``rows``."""
        source, lengths = pad([self._sources[row] for row in rows.tolist()])
        targets, target_lengths = pad([self._targets[row] for row in rows.tolist()])
        there = Source(source, lengths).to(self.device)
        tokens = int(target_lengths.sum())
        return ComposeBatch(there, targets.to(self.device), target_lengths.to(self.device), tokens)

    def loss(self, batch: ComposeBatch) -> BatchLoss:
        return BatchLoss(self._model.loss(batch.source, batch.targets, batch.lengths), batch.tokens, batch.tokens)

    def evaluate(self) -> Evaluation:
        dev = self.data.parts["dev"]
        scores = {"perplexity": perplexity(*total_nll(self._model, self.data.encoding, dev))}
        some = dev[: self.config.evaluation.texts]
        if not some:
            return Evaluation(scores)
        texts = self.written(some)
        samples = [f"{example.goal}: {text}" for example, text in zip(some, texts, strict=True)]
        return Evaluation({**scores, **compute_scores(some, texts, self.data.encoding)}, samples[:2])

    def test_scores(self) -> dict[str, float]:
        test = self.data.parts["test"]
        if not test:
            return {}
        scores = {"perplexity": perplexity(*total_nll(self._model, self.data.encoding, test))}
        return {**scores, **compute_scores(test, self.written(test), self.data.encoding)}

    def written(self, examples: Sequence[Composition]) -> list[str]:
        """The best generated text of each example."""
        generator = torch.Generator().manual_seed(self.config.seed)
        found = write(self._model, self.data.encoding, examples, self.config.search, generator)
        return [self.data.encoding.text(listed[0].ids) if listed else "" for listed in found]

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.encoding.save(folder)

    def describe_batch(self, batch: ComposeBatch) -> str:
        return f"{len(batch.targets)} texts, longest {batch.targets.shape[1]} tokens"

    def summary(self) -> Sequence[str]:
        return self.data.lines
