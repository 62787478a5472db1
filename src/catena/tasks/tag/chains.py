"""Taggers that are linear chains without a network: prediction, and scores during training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int32

from catena.structure.chain import LinearChain
from catena.structure.constraints import ChainConstraint
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.dataset import TagDataset, TaggedSentence
from catena.tasks.tag.distribution import ChainDistribution
from catena.tasks.tag.features.fitting import Candidate
from catena.tasks.tag.scorer import Scorer, best_tags
from catena.tasks.tag.scoring import compute_scores, default_metric
from catena.tasks.tag.tagging import TagSet
from catena.tasks.words.sentences import Sentence


class ChainModel(ABC):
    """A model that scores the tags of sentences and can describe its parameters."""

    @abstractmethod
    def chain(self, sentences: Sequence[Sentence]) -> LinearChain:
        """The distribution over the tags of each sentence."""

    @abstractmethod
    def describe(self, labels: Sequence[str], top: int) -> list[str]:
        """Lines that describe the model's parameters, with the names of the tags."""


class ChainScorer(Scorer):
    """A chain model restricted to the tag sequences that the scheme allows."""

    def __init__(self, model: ChainModel, tagging: TagSet) -> None:
        self.model, self.tagging = model, tagging

    def distribution(self, sentences: Sequence[Sentence]) -> ChainDistribution:
        chain, rules = self.model.chain(sentences), self.tagging.rules()
        if rules is not None:
            after, begin, end = (torch.from_numpy(mask) for mask in rules)
            chain = chain.given(ChainConstraint(transitions=after, start=begin, end=end), on_infeasible="-inf")
        return ChainDistribution(chain, self.tagging, [len(sentence) for sentence in sentences])

    def describe(self, top: int) -> list[str]:
        return self.model.describe(self.tagging.names.names, top)


class ChainCandidate(Candidate):
    """A chain model during training. ``taken`` is the model that :meth:`take` loaded."""

    config: TagConfig
    data: TagDataset
    taken: ChainModel | None = None

    @abstractmethod
    def model(self) -> ChainModel:
        """The current model."""

    @property
    def metric(self) -> str:
        return default_metric(self.data.tagging)

    def dev_scores(self) -> dict[str, float]:
        return self._judged(self.model(), self.data.dev)

    def test_scores(self) -> dict[str, float]:
        assert self.taken is not None
        return self._judged(self.taken, self.data.test)

    def _judged(self, model: ChainModel, sentences: Sequence[TaggedSentence]) -> dict[str, float]:
        if not sentences:
            return {}
        scorer, at_once = ChainScorer(model, self.data.tagging), self.config.evaluation.tokens_at_once
        found = best_tags(scorer, [one.sentence for one in sentences], at_once)
        return compute_scores(self.data.tagging, [one.tags for one in sentences], found)


def flat_tags(data: TagDataset) -> Int32[np.ndarray, " n"]:
    """The model's tags of all training words, concatenated; -1 if a tag is not known."""
    return np.concatenate(data.learned_ids(data.train)).astype(np.int32)
