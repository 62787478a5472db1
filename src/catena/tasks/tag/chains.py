"""Taggers that are linear chains without a network: prediction, and fitting in steps.

The best tags of a few sentences are found without torch. Tested in tests/tasks/tag/test_chains.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int32

from catena.accelerators import can_skip_kernels
from catena.tasks.base import DataParts, Origin
from catena.tasks.fitted import SteppedTask
from catena.tasks.sources import Sources
from catena.tasks.tag.base import TagTask
from catena.tasks.tag.config import TagConfig, TagOptions
from catena.tasks.tag.data import TaggedSentence, limit_length, tag_ids
from catena.tasks.tag.distribution import ChainDistribution, ChainScores, viterbi_microseconds
from catena.tasks.tag.predict import TagPrediction
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.word_inputs.sentences import Sentence

if TYPE_CHECKING:
    from torch import Tensor

    from catena.structure.chain import LinearChain


class ChainModel(ABC):
    """A model that scores the tags of sentences and can describe its parameters."""

    @abstractmethod
    def scores(self, sentences: Sequence[Sentence]) -> ChainScores:
        """The scores of the tags of each sentence."""

    def chain(self, sentences: Sequence[Sentence]) -> LinearChain:
        """The distribution over the tags of each sentence."""
        return self.scores(sentences).to_chain()

    @abstractmethod
    def describe(self, labels: Sequence[str], top: int) -> list[str]:
        """Lines that describe the model's parameters, with the names of the tags."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """The weights to store."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except the arrays into a checkpoint folder."""


class ScoredChainDistribution(ChainDistribution):
    """Tags of a linear chain whose scores are arrays."""

    def __init__(
        self, scores: ChainScores, rules: tuple[np.ndarray, np.ndarray, np.ndarray] | None, tagging: TagSet
    ) -> None:
        self.scores, self.rules = scores, rules
        self.tagging, self.lengths = tagging, scores.lengths.tolist()

    @cached_property
    def chain(self) -> LinearChain:  # type: ignore[override]
        """The distribution, restricted to the tag sequences that the scheme allows."""
        import torch

        from catena.structure.constraints import ChainConstraint

        if self.rules is None:
            return self.scores.to_chain()
        after, begin, end = (torch.from_numpy(mask) for mask in self.rules)
        constraint = ChainConstraint(transitions=after, start=begin, end=end)
        return self.scores.to_chain().given(constraint, on_infeasible="-inf")

    def best(self) -> list[list[str]]:
        if not can_skip_kernels(viterbi_microseconds(sum(self.lengths), len(self.tagging.names))):
            return super().best()
        scores = self.scores if self.rules is None else self.scores.restricted(*self.rules)
        return [self._names(scores.best(row), n) for row, n in enumerate(self.lengths)]


class ChainTagTask(SteppedTask[TagConfig, TaggedSentence, TagPrediction, TagOptions], TagTask):
    """A chain model restricted to the tag sequences that the scheme allows."""

    def __init__(self, config: TagConfig, tags: TagSet, model: ChainModel) -> None:
        self.config, self.tags, self.model = config, tags, model

    @classmethod
    def gather(
        cls, config: TagConfig, sources: Sources[TaggedSentence], origin: Origin
    ) -> tuple[DataParts[TaggedSentence], list[str]]:
        lines, parts = sources.describe(), sources.split()
        train = sources.keep_usable(parts.train, lambda example: limit_length(config.data, example))
        parts = DataParts(train, parts.dev, parts.test)
        return parts, [*lines, sources.counts(parts)]

    def distribution(self, examples: Sequence[TaggedSentence]) -> ChainDistribution:
        scores = self.model.scores([one.sentence for one in examples])
        bonus = self.tags.bonus([one.sentence.words for one in examples])
        if bonus is not None:
            scores = replace(scores, emissions=scores.emissions + bonus)
        return ScoredChainDistribution(scores, self.tags.rules(), self.tags)

    def describe(self, top: int) -> list[str]:
        return [*super().describe(top), *self.model.describe(self.tags.names.names, top)]

    def tensors(self) -> dict[str, Tensor]:
        import torch

        return {name: torch.from_numpy(np.array(array)) for name, array in self.model.arrays().items()}

    def save(self, folder: Path) -> None:
        self.tags.save(folder)
        self.model.save(folder)


def flat_tags(tags: TagSet, train: Sequence[TaggedSentence]) -> Int32[np.ndarray, " n"]:
    """The model's tags of all training words, concatenated; -1 if a tag is not known."""
    return np.concatenate(tag_ids(tags, train)).astype(np.int32)
