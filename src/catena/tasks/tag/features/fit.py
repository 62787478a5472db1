"""The tagger on features in the task: learnt into a run folder, loaded, and asked like any other tagger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int32
from torch import Tensor

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import to_toml
from catena.randomness import Randomness
from catena.structure.chain import LinearChain
from catena.structure.constraints import ChainConstraint
from catena.tasks.application import Trained
from catena.tasks.tag.dataset import TagDataset, Tagged
from catena.tasks.tag.distribution import ChainDistribution
from catena.tasks.tag.features.dictionary import FeatureDictionary
from catena.tasks.tag.features.fitting import Candidate, fit
from catena.tasks.tag.features.learners import Learner, learner_of
from catena.tasks.tag.features.model import FeatureModel
from catena.tasks.tag.features.settings import FeatureTagger
from catena.tasks.tag.features.templates import parse_templates
from catena.tasks.tag.features.weights import layout_of
from catena.tasks.tag.scorer import Scorer, best_tags
from catena.tasks.tag.scoring import metric_of, scores_of
from catena.tasks.tag.settings import TagConfig
from catena.tasks.tag.tagging import Tagging
from catena.tasks.words.sentences import Sentence
from catena.training.report import Reporter
from catena.training.run import RunFolder


class FeatureScorer(Scorer):
    """Weights of features, asked for tags."""

    def __init__(self, model: FeatureModel, tagging: Tagging) -> None:
        self.model, self.tagging = model, tagging

    def distribution(self, sentences: Sequence[Sentence]) -> ChainDistribution:
        return distribution_of(self.model.chain(sentences), self.tagging, sentences)

    def describe(self, top: int) -> list[str]:
        return self.model.describe(self.tagging.names.names, top)


def distribution_of(chain: LinearChain, tagging: Tagging, sentences: Sequence[Sentence]) -> ChainDistribution:
    """The chain of some sentences, with those sequences alone that the scheme of the tags allows."""
    rules = tagging.rules()
    if rules is not None:
        after, begin, end = (torch.from_numpy(mask) for mask in rules)
        chain = chain.given(ChainConstraint(transitions=after, start=begin, end=end), impossible="-inf")
    return ChainDistribution(chain, tagging, [len(sentence) for sentence in sentences])


def judged(scorer: Scorer, sentences: Sequence[Tagged], tokens_at_once: int) -> dict[str, float]:
    """The scores of a tagger on sentences; none where there are no sentences."""
    if not sentences:
        return {}
    found = best_tags(scorer, [one.sentence for one in sentences], tokens_at_once)
    return scores_of(scorer.tagging, [one.tags for one in sentences], found)


def flat_tags(data: TagDataset) -> Int32[np.ndarray, " n"]:
    """The model's tags of all training words, one after another; -1 where one is not known."""
    return np.concatenate(data.learnt_ids(data.train)).astype(np.int32)


class FeatureCandidate(Candidate):
    """A tagger on features that is being learnt."""

    def __init__(self, config: TagConfig, data: TagDataset, randomness: Randomness) -> None:
        settings = config.model
        assert isinstance(settings, FeatureTagger)
        self.config, self.data, self.settings = config, data, settings
        templates = [one for one in parse_templates(settings.templates) if one.atoms or not one.pairs]
        sentences, tags = [one.sentence for one in data.train], flat_tags(data)
        self.dictionary, ids = FeatureDictionary.count(sentences, templates, settings.minimum_count)
        alone = settings.structure == "softmax"
        self.layout = layout_of(
            ids, tags, len(self.dictionary), len(data.tagging.names),
            all_tags=settings.all_tags, transitions="none" if alone else settings.transitions,
            edges=settings.edges and not alone, of_pairs=self.dictionary.of_pairs,
        )  # fmt: skip
        self.tokens = ids.tokens
        self._learner = learner_of(ids, tags, self.layout, settings, randomness)
        self._taken: FeatureScorer | None = None

    @property
    def learner(self) -> Learner:
        return self._learner

    @property
    def metric(self) -> str:
        return metric_of(self.data.tagging)

    def model(self) -> FeatureModel:
        """The model as it stands."""
        return FeatureModel(self.dictionary, self.layout, self._learner.vector(), self.settings.structure)

    def tensors(self) -> dict[str, Tensor]:
        return self.model().slim().tensors()

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.tagging.save(folder)
        self.model().slim().dictionary.save(folder)

    def take(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        model = FeatureModel.load(folder, self.settings.templates, self.settings.structure, tensors)
        self._taken = FeatureScorer(model, self.data.tagging)

    def dev_scores(self) -> dict[str, float]:
        return self._judged(FeatureScorer(self.model(), self.data.tagging), self.data.dev)

    def test_scores(self) -> dict[str, float]:
        assert self._taken is not None
        return self._judged(self._taken, self.data.test)

    def _judged(self, scorer: Scorer, sentences: Sequence[Tagged]) -> dict[str, float]:
        return judged(scorer, sentences, self.config.evaluation.tokens_at_once)

    def summary(self) -> tuple[str, ...]:
        pairs, how = int(self.layout.in_use[: self.layout.pairs].sum()), "" if self.settings.all_tags else " seen"
        return (*self.data.lines, f"{len(self.dictionary):,} features, {pairs:,}{how} with tags")

    def size(self) -> int:
        return int(self.layout.in_use.sum())


def fit_features(
    config: TagConfig, data: TagDataset, run: RunFolder, randomness: Randomness, reporter: Reporter
) -> Trained:
    """Learn a tagger on features into a run, from the start or from where it stands."""
    return fit(FeatureCandidate(config, data, randomness), config.training, run, reporter)


def load_features(config: TagConfig, checkpoint: Checkpoint, tagging: Tagging) -> FeatureScorer:
    """The tagger of a checkpoint."""
    settings = config.model
    assert isinstance(settings, FeatureTagger)
    model = FeatureModel.load(checkpoint.folder, settings.templates, settings.structure, checkpoint.weights())
    return FeatureScorer(model, tagging)
