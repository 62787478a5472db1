"""The tagger on features as part of the task: training into a run folder, and loading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import to_toml
from catena.randomness import Randomness
from catena.tasks.application import TrainResult
from catena.tasks.tag.chains import ChainCandidate, ChainScorer, flat_tags
from catena.tasks.tag.config import TagConfig
from catena.tasks.tag.dataset import TagDataset
from catena.tasks.tag.features.config import FeatureTaggerConfig
from catena.tasks.tag.features.dictionary import FeatureDictionary
from catena.tasks.tag.features.fitting import fit
from catena.tasks.tag.features.learners import FeatureLearner, build_learner
from catena.tasks.tag.features.model import FeatureModel
from catena.tasks.tag.features.templates import parse_templates
from catena.tasks.tag.features.weights import build_layout
from catena.tasks.tag.tagging import TagSet
from catena.training.report import Reporter
from catena.training.run import RunFolder


class FeatureCandidate(ChainCandidate):
    """A tagger on features during training."""

    def __init__(self, config: TagConfig, data: TagDataset, randomness: Randomness) -> None:
        settings = config.model
        assert isinstance(settings, FeatureTaggerConfig)
        self.config, self.data, self.settings = config, data, settings
        templates = [one for one in parse_templates(settings.templates) if one.atoms or not one.pairs]
        sentences, tags = [one.sentence for one in data.train], flat_tags(data)
        self.dictionary, ids = FeatureDictionary.count(sentences, templates, settings.minimum_count)
        alone = settings.structure == "softmax"
        self.layout = build_layout(
            ids, tags, len(self.dictionary), len(data.tagging.names),
            all_tags=settings.all_tags, transitions="none" if alone else settings.transitions,
            edges=settings.edges and not alone, of_pairs=self.dictionary.of_pairs,
        )  # fmt: skip
        self.tokens = ids.tokens
        self._learner = build_learner(ids, tags, self.layout, settings, randomness)

    @property
    def learner(self) -> FeatureLearner:
        return self._learner

    def model(self) -> FeatureModel:
        return FeatureModel(self.dictionary, self.layout, self._learner.vector(), self.settings.structure)

    def tensors(self) -> dict[str, Tensor]:
        return self.model().slim().tensors()

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(self.config), encoding="utf-8")
        self.data.tagging.save(folder)
        self.model().slim().dictionary.save(folder)

    def take(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        self.taken = FeatureModel.load(folder, self.settings.templates, self.settings.structure, tensors)

    def summary(self) -> tuple[str, ...]:
        pairs, how = int(self.layout.in_use[: self.layout.pairs].sum()), "" if self.settings.all_tags else " seen"
        return (*self.data.lines, f"{len(self.dictionary):,} features, {pairs:,}{how} with tags")

    def size(self) -> int:
        return int(self.layout.in_use.sum())


def fit_features(
    config: TagConfig, data: TagDataset, run: RunFolder, randomness: Randomness, reporter: Reporter
) -> TrainResult:
    """Train a tagger on features into a run, from scratch or from the last checkpoint."""
    return fit(FeatureCandidate(config, data, randomness), config.training, run, reporter)


def load_features(config: TagConfig, checkpoint: Checkpoint, tagging: TagSet) -> ChainScorer:
    """Load the tagger of a checkpoint."""
    settings = config.model
    assert isinstance(settings, FeatureTaggerConfig)
    model = FeatureModel.load(checkpoint.folder, settings.templates, settings.structure, checkpoint.weights())
    return ChainScorer(model, tagging)
