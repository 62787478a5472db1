"""The tagger on features as a task. Tested in tests/tasks/tag/features/test_fit.py."""

from __future__ import annotations

from typing import Self

from catena.checkpoint import Checkpoint
from catena.randomness import Randomness
from catena.tasks.base import DataParts, Origin
from catena.tasks.config import model_section
from catena.tasks.fitted import SteppedFit
from catena.tasks.tag.chains import ChainTagTask, flat_tags
from catena.tasks.tag.config import FeatureTaggerConfig, TagConfig
from catena.tasks.tag.data import TaggedSentence, describe_parts, fit_tags
from catena.tasks.tag.features.dictionary import FeatureDictionary
from catena.tasks.tag.features.model import FeatureModel, build_layout
from catena.tasks.tag.features.templates import parse_templates
from catena.tasks.tag.tag_set import TagSet


class FeatureTagTask(ChainTagTask):
    """A tagger on sparse features of words."""

    @classmethod
    def start(cls, config: TagConfig, parts: DataParts[TaggedSentence], origin: Origin) -> SteppedFit:
        return _FeatureFit(config, parts, origin.randomness)

    @classmethod
    def load(cls, config: TagConfig, checkpoint: Checkpoint, device: str) -> Self:
        settings, tags = model_section(config, FeatureTaggerConfig), TagSet.load(checkpoint.folder)
        arrays = checkpoint.arrays()
        return cls(config, tags, FeatureModel.load(checkpoint.folder, settings.templates, settings.structure, arrays))


class _FeatureFit(SteppedFit):
    """A tagger on features while it is fitted."""

    def __init__(self, config: TagConfig, parts: DataParts[TaggedSentence], randomness: Randomness) -> None:
        from catena.tasks.tag.features.learners import build_learner

        self.config, self.settings = config, model_section(config, FeatureTaggerConfig)
        settings = self.settings
        self.tags = fit_tags(config, parts.train)
        templates = [one for one in parse_templates(settings.templates) if one.atoms or not one.pairs]
        sentences, tags = [one.sentence for one in parts.train], flat_tags(self.tags, parts.train)
        self.dictionary, ids = FeatureDictionary.count(sentences, templates, settings.minimum_count)
        alone = settings.structure == "softmax"
        self.layout = build_layout(
            ids, tags, len(self.dictionary), len(self.tags.names),
            all_tags=settings.all_tags, transitions="none" if alone else settings.transitions,
            edges=settings.edges and not alone, of_pairs=self.dictionary.of_pairs,
        )  # fmt: skip
        self.tokens, self.n_parameters = ids.tokens, int(self.layout.in_use.sum())
        self.learner = self._learner = build_learner(ids, tags, self.layout, settings, randomness)
        pairs, how = int(self.layout.in_use[: self.layout.pairs].sum()), "" if settings.all_tags else " seen"
        counts = f"{len(self.dictionary):,} features, {pairs:,}{how} with tags"
        self.lines = [*describe_parts(self.tags, parts), counts]

    def task(self) -> FeatureTagTask:
        vector = self._learner.vector()
        model = FeatureModel(self.dictionary, self.layout, vector, self.settings.structure)
        return FeatureTagTask(self.config, self.tags, model)
