"""Taggers that are linear chains without a network: prediction, and fitting in steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int32
from torch import Tensor

from catena.structure.chain import LinearChain
from catena.structure.constraints import ChainConstraint
from catena.tasks.base import DataParts, Origin
from catena.tasks.fitted import SteppedTask
from catena.tasks.sources import Sources
from catena.tasks.tag.config import TagConfig, TagOptions
from catena.tasks.tag.data import TaggedSentence, limit_length, tag_ids
from catena.tasks.tag.distribution import ChainDistribution
from catena.tasks.tag.predict import TagPrediction
from catena.tasks.tag.tag_set import TagSet
from catena.tasks.tag.task import TagTask
from catena.tasks.word_inputs.sentences import Sentence


class ChainModel(ABC):
    """A model that scores the tags of sentences and can describe its parameters."""

    @abstractmethod
    def chain(self, sentences: Sequence[Sentence]) -> LinearChain:
        """The distribution over the tags of each sentence."""

    @abstractmethod
    def describe(self, labels: Sequence[str], top: int) -> list[str]:
        """Lines that describe the model's parameters, with the names of the tags."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The weights to store."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except the tensors into a checkpoint folder."""


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
        sentences = [one.sentence for one in examples]
        chain, rules = self.model.chain(sentences), self.tags.rules()
        if rules is not None:
            after, begin, end = (torch.from_numpy(mask) for mask in rules)
            chain = chain.given(ChainConstraint(transitions=after, start=begin, end=end), on_infeasible="-inf")
        return ChainDistribution(chain, self.tags, [len(sentence) for sentence in sentences])

    def describe(self, top: int) -> list[str]:
        return [*super().describe(top), *self.model.describe(self.tags.names.names, top)]

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()

    def save(self, folder: Path) -> None:
        self.tags.save(folder)
        self.model.save(folder)


def flat_tags(tags: TagSet, train: Sequence[TaggedSentence]) -> Int32[np.ndarray, " n"]:
    """The model's tags of all training words, concatenated; -1 if a tag is not known."""
    return np.concatenate(tag_ids(tags, train)).astype(np.int32)
