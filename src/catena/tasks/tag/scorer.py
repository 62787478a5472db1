"""The common interface of trained taggers: from sentences to a distribution over their tags."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.structure.chain import LinearChain
from catena.structure.semimarkov import SemiMarkov
from catena.tasks.tag.distribution import ChainDistribution, SegmentDistribution, TagDistribution
from catena.tasks.tag.model import TagModel
from catena.tasks.tag.segments import SemiMarkovStructure
from catena.tasks.tag.tagging import TagSet
from catena.tasks.words.encoding import EncodedSentences, WordEncoding
from catena.tasks.words.sentences import Sentence


class Scorer(ABC):
    """A trained tagger of any kind."""

    tagging: TagSet

    @abstractmethod
    def distribution(self, sentences: Sequence[Sentence]) -> TagDistribution:
        """The distribution over the tags of some nonempty sentences, as one batch."""

    @abstractmethod
    def describe(self, top: int) -> list[str]:
        """Lines that describe the model's parameters."""


class NeuralScorer(Scorer):
    """A network and its encoding."""

    def __init__(self, model: TagModel, encoding: WordEncoding, tagging: TagSet, device: torch.device) -> None:
        self.model, self.encoding, self.tagging, self.device = model, encoding, tagging, device

    def distribution(self, sentences: Sequence[Sentence]) -> TagDistribution:
        return self.of_encoded(self.encoding.encode(sentences), range(len(sentences)))

    def of_encoded(self, encoded: EncodedSentences, rows: Sequence[int]) -> TagDistribution:
        """The same for encoded sentences."""
        with torch.no_grad():  # not inference mode: confidences are gradients of the result
            lengths = torch.from_numpy(encoded.lengths[list(rows)])
            structure = self.model.distribution(encoded.batch(rows, self.device), lengths)
        if isinstance(structure, LinearChain):
            return ChainDistribution(structure, self.tagging, lengths.tolist())
        assert isinstance(structure, SemiMarkov)
        assert isinstance(self.model.structure, SemiMarkovStructure)
        return SegmentDistribution(structure, self.model.structure.kinds, self.tagging, lengths.tolist())

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.model.parameters())
        return [f"{len(self.encoding.words):,} words, {n:,} parameters, {type(self.model.structure).__name__.lower()}"]


def plan_batches(lengths: Sequence[int] | np.ndarray, tokens_at_once: int) -> Iterator[list[int]]:
    """Batches of sentences with similar length, longest first, with at most ``tokens_at_once`` words and padding."""
    settings = BatchConfig(batch_size=tokens_at_once, batch_by="tokens")
    for part in BatchPlan.by_length(np.asarray(lengths, np.int64), settings):
        yield [int(i) for i in part]


def best_tags(scorer: Scorer, sentences: Sequence[Sentence], tokens_at_once: int) -> list[list[str]]:
    """The best tags of any number of sentences, in the scheme of the files."""
    found: list[list[str]] = [[] for _ in sentences]
    filled = [i for i, sentence in enumerate(sentences) if len(sentence)]
    for part in plan_batches([len(sentences[i]) for i in filled], tokens_at_once):
        rows = [filled[i] for i in part]
        for i, tags in zip(rows, scorer.distribution([sentences[i] for i in rows]).best(), strict=True):
            found[i] = scorer.tagging.shown(sentences[i].words, tags)
    return found
