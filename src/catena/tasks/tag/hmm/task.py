"""The hidden Markov model as a task. Tested in tests/tasks/tag/test_chains.py."""

from __future__ import annotations

from typing import Self

import numpy as np

from catena.checkpoint import Checkpoint
from catena.randomness import Randomness
from catena.tasks.base import DataParts, Origin
from catena.tasks.config import model_section
from catena.tasks.fitted import SteppedFit
from catena.tasks.tag.chains import ChainTagTask, flat_tags
from catena.tasks.tag.config import HmmTaggerConfig, TagConfig
from catena.tasks.tag.data import TaggedSentence, describe_parts, fit_tags
from catena.tasks.tag.features.dictionary import sentence_blocks, sentence_starts
from catena.tasks.tag.hmm.model import HmmModel, HmmSymbols, best_names
from catena.tasks.tag.tag_set import TagSet

_NAMED_BY = 2000
"""Number of training sentences whose tags name the states of a model trained without tags."""


class HMMTagTask(ChainTagTask):
    """A hidden Markov model."""

    @classmethod
    def start(cls, config: TagConfig, parts: DataParts[TaggedSentence], origin: Origin) -> SteppedFit:
        return _HMMFit(config, parts, origin.randomness)

    @classmethod
    def load(cls, config: TagConfig, checkpoint: Checkpoint, device: str) -> Self:
        model = HmmModel.load(checkpoint.folder, checkpoint.arrays())
        return cls(config, TagSet.load(checkpoint.folder), model)


class _HMMFit(SteppedFit):
    """A hidden Markov model while it is fitted."""

    def __init__(self, config: TagConfig, parts: DataParts[TaggedSentence], randomness: Randomness) -> None:
        from catena.tasks.tag.hmm.em import EmLearner

        self.config, self.settings, self.train = config, model_section(config, HmmTaggerConfig), parts.train
        self.tag_set = fit_tags(config, parts.train)
        words = [one.sentence.words for one in parts.train]
        self.symbols = HmmSymbols.count(words, self.settings.minimum_count, self.settings.classes)
        self.tags = flat_tags(self.tag_set, parts.train)
        shown = self.tags if self.settings.learn == "counts" else np.full_like(self.tags, -1)
        k, v = len(self.tag_set.names), len(self.symbols)
        self.tokens, self.n_parameters = len(self.tags), k * v + k * k + 2 * k
        self.learner = self._learner = EmLearner(
            self.symbols.ids(words),
            sentence_starts([one.sentence for one in parts.train]),
            shown,
            k,
            v,
            self.settings,
            randomness,
        )
        counts = f"{len(self.symbols.words):,} words, and {len(self.symbols.looks):,} classes of rarer words"
        self.lines = [*describe_parts(self.tag_set, parts), counts]

    def task(self) -> HMMTagTask:
        """The current model; each state gets the tag it co-occurs with most often."""
        model = HmmModel(self._learner.tables, self.symbols)
        if self.settings.learn != "counts":
            model = model.renamed(self._names(model))
        return HMMTagTask(self.config, self.tag_set, model)

    def _names(self, model: HmmModel) -> list[int]:
        k = len(self.tag_set.names)
        meetings, at = np.zeros((k, k)), 0
        for block in sentence_blocks([one.sentence for one in self.train[:_NAMED_BY]]):
            best = model.chain(block).argmax().numpy()
            states = best[best >= 0]
            tags = self.tags[at : at + len(states)]
            np.add.at(meetings, (states[tags >= 0], tags[tags >= 0]), 1.0)
            at += len(states)
        return best_names(meetings)
