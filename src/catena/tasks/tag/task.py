"""A neural tagger as a task of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.batches import BatchPlan, pad
from catena.randomness import Randomness
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.pretrained import unfreeze_top_layers
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.dataset import TagDataset, TaggedSentence
from catena.tasks.tag.model import TagBatch, TagModel
from catena.tasks.tag.scorer import NeuralScorer, plan_batches
from catena.tasks.tag.scoring import compute_scores, default_metric
from catena.tasks.words.pretrained import pretrained_layer_groups
from catena.training.task import BatchLoss, EpochPlan, Evaluation

_SAMPLES = 3
"""Number of dev sentences that are shown with their predictions at each evaluation."""
_WIDTH = 90


class TagTask(NeuralTask):
    """Tagged sentences, a neural model, and its metric."""

    def __init__(
        self, config: TagConfig, data: TagDataset, model: TagModel, device: torch.device, randomness: Randomness
    ) -> None:
        assert data.encoding is not None
        assert data.encoded is not None
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._model, self.encoded = model.to(device), data.encoded
        self.scorer = NeuralScorer(self._model, data.encoding, data.tagging, device)
        self.tags = data.learned_ids(data.train)
        self._frozen_at_first = pretrained_layer_groups(model.encoder.reader) if config.pretrained else []

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def metric(self) -> str:
        return default_metric(self.data.tagging)

    @property
    def higher_is_better(self) -> bool:
        return True

    def epoch(self, number: int) -> EpochPlan:
        unfreeze_top_layers(self._frozen_at_first, number, self.config.unfreeze)
        lengths = self.encoded.lengths[: len(self.data.train)]
        plan = BatchPlan.shuffled(lengths, self.config.batches, self.randomness.numpy("batches", number))
        return BatchedEpoch(plan, self.batch)

    def batch(self, rows: np.ndarray) -> TagBatch:
        """Some of the training sentences with their tags."""
        tags, lengths = pad([self.tags[int(i)] for i in rows], -1)
        return TagBatch(self.encoded.batch(rows, self.device), tags, lengths)

    def loss(self, batch: TagBatch) -> BatchLoss:
        mean = self._model.losses(batch).mean().to(self.device)
        return BatchLoss(mean, batch.words.size, batch.words.tokens)

    def evaluate(self) -> Evaluation:
        first = len(self.data.train)
        found = self._best(range(first, first + len(self.data.dev)))
        scores = compute_scores(self.data.tagging, [one.tags for one in self.data.dev], found)
        return Evaluation(scores, self._samples(found))

    def test_scores(self) -> dict[str, float]:
        if not self.data.test:
            return {}
        first = len(self.data.train) + len(self.data.dev)
        found = self._best(range(first, first + len(self.data.test)))
        return compute_scores(self.data.tagging, [one.tags for one in self.data.test], found)

    def _best(self, rows: range) -> list[list[str]]:
        """The best tags of encoded sentences, in the scheme of the files."""
        data, found = self.data, {}
        sentences = [*data.train, *data.dev, *data.test]
        for part in plan_batches(self.encoded.lengths[rows.start : rows.stop], self.config.evaluation.tokens_at_once):
            chosen = [rows[i] for i in part]
            for i, tags in zip(chosen, self.scorer.of_encoded(self.encoded, chosen).best(), strict=True):
                found[i] = data.tagging.shown(sentences[i].sentence.words, tags)
        return [found[i] for i in rows]

    def _samples(self, found: Sequence[Sequence[str]]) -> list[str]:
        dev = self.data.dev
        chosen = np.linspace(0, len(dev) - 1, min(_SAMPLES, len(dev))).astype(int)
        return [_shown(dev[i], found[i]) for i in chosen]

    def save(self, folder: Path) -> None:
        assert self.data.encoding is not None
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.tagging.save(folder)
        self.data.encoding.save(folder)

    def describe_batch(self, batch: TagBatch) -> str:
        return f"{batch.words.size} sentences, longest {batch.words.longest} words"

    def summary(self) -> Sequence[str]:
        return self.data.lines


def _shown(one: TaggedSentence, found: Sequence[str]) -> str:
    """Words with their tags other than O, and a mark for wrong tags."""
    parts = []
    for word, right, tag in zip(one.sentence.words, one.tags, found, strict=True):
        mark = "" if tag == right else f"✗{right}"
        parts.append(word if tag == "O" and not mark else f"{word}/{tag}{mark}")
    line = " ".join(parts)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
