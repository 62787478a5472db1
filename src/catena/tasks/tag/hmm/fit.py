"""The hidden Markov model as part of the task: training into a run folder, and loading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import to_toml
from catena.randomness import Randomness
from catena.tasks.application import TrainResult
from catena.tasks.tag.chains import ChainCandidate, ChainScorer, flat_tags
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.dataset import TagDataset
from catena.tasks.tag.features.dictionary import sentence_blocks, sentence_starts
from catena.tasks.tag.features.fitting import fit
from catena.tasks.tag.features.learners import FeatureLearner
from catena.tasks.tag.hmm.config import HmmTaggerConfig
from catena.tasks.tag.hmm.em import EmLearner
from catena.tasks.tag.hmm.model import HmmModel, best_names
from catena.tasks.tag.hmm.symbols import HmmSymbols
from catena.tasks.tag.tagging import TagSet
from catena.training.report import Reporter
from catena.training.run import RunFolder

_NAMED_BY = 2000
"""Number of training sentences whose tags name the states of a model trained without tags."""


class HmmCandidate(ChainCandidate):
    """A hidden Markov model during training."""

    def __init__(self, config: TagConfig, data: TagDataset, randomness: Randomness) -> None:
        settings = config.model
        assert isinstance(settings, HmmTaggerConfig)
        self.config, self.data, self.settings = config, data, settings
        words = [one.sentence.words for one in data.train]
        self.symbols = HmmSymbols.count(words, settings.minimum_count, settings.classes)
        self.tags = flat_tags(data)
        shown = self.tags if settings.learn == "counts" else np.full_like(self.tags, -1)
        self.tokens = len(self.tags)
        self._learner = EmLearner(
            self.symbols.ids(words),
            sentence_starts([one.sentence for one in data.train]),
            shown,
            len(data.tagging.names),
            len(self.symbols),
            settings,
            randomness,
        )

    @property
    def learner(self) -> FeatureLearner:
        return self._learner

    def model(self) -> HmmModel:
        """The current model; each state gets the tag it co-occurs with most often."""
        model = HmmModel(self._learner.tables, self.symbols)
        return model if self.settings.learn == "counts" else model.renamed(self._names(model))

    def _names(self, model: HmmModel) -> list[int]:
        k = len(self.data.tagging.names)
        meetings, at = np.zeros((k, k)), 0
        for block in sentence_blocks([one.sentence for one in self.data.train[:_NAMED_BY]]):
            found = model.chain(block).argmax().numpy()
            states = found[found >= 0]
            tags = self.tags[at : at + len(states)]
            np.add.at(meetings, (states[tags >= 0], tags[tags >= 0]), 1.0)
            at += len(states)
        return best_names(meetings)

    def tensors(self) -> dict[str, Tensor]:
        return self.model().tensors()

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.tagging.save(folder)
        self.symbols.save(folder)

    def take(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        self.taken = HmmModel.load(folder, tensors)

    def summary(self) -> tuple[str, ...]:
        words, looks = len(self.symbols.words), len(self.symbols.looks)
        return (*self.data.lines, f"{words:,} words, and {looks:,} classes of rarer words")

    def size(self) -> int:
        k, v = len(self.data.tagging.names), len(self.symbols)
        return k * v + k * k + 2 * k


def fit_hmm(
    config: TagConfig, data: TagDataset, run: RunFolder, randomness: Randomness, reporter: Reporter
) -> TrainResult:
    """Train a hidden Markov model into a run, from scratch or from the last checkpoint."""
    return fit(HmmCandidate(config, data, randomness), config.training, run, reporter)


def load_hmm(checkpoint: Checkpoint, tagging: TagSet) -> ChainScorer:
    """Load the model of a checkpoint."""
    return ChainScorer(HmmModel.load(checkpoint.folder, checkpoint.weights()), tagging)
