"""The task tag: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.data.tokenize import build_tokenizer
from catena.errors import ConfigError
from catena.randomness import Randomness
from catena.tasks.application import Predictor, TrainResult
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained
from catena.tasks.tag.auto import fit_to_time
from catena.tasks.tag.config import NeuralTaggerConfig, TagConfig
from catena.tasks.tag.dataset import TagDataset, prepare
from catena.tasks.tag.features.config import FeatureTaggerConfig
from catena.tasks.tag.features.fit import fit_features, load_features
from catena.tasks.tag.hmm.config import HmmTaggerConfig
from catena.tasks.tag.hmm.fit import fit_hmm, load_hmm
from catena.tasks.tag.model import TagModel, build_model
from catena.tasks.tag.predictor import TagPredictor
from catena.tasks.tag.scorer import NeuralScorer
from catena.tasks.tag.tagging import TagSet
from catena.tasks.tag.task import TagTask
from catena.tasks.words.encoding import WordEncoding
from catena.tasks.words.model import word_vectors
from catena.tasks.words.pretrained import adopt_words, start_reader
from catena.training.report import Reporter
from catena.training.run import RunFolder


class TagApplication(LoopedApplication[TagConfig, TagDataset]):
    """Tagging of the words of sentences."""

    settings = TagConfig

    def prepare(
        self, config: TagConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> TagDataset:
        if old is None:
            return prepare(config, randomness, words=start.encoding.vocabulary if start else None)
        theirs = configs.load(TagConfig, old / CONFIG)
        check_same_model_kind(old, theirs, config)
        encoding = WordEncoding.load(theirs.model.words, old) if isinstance(theirs.model, NeuralTaggerConfig) else None
        return prepare(config, randomness, tagging=TagSet.load(old), encoding=encoding)

    def task(self, config: TagConfig, data: TagDataset, device: torch.device, randomness: Randomness) -> NeuralTask:
        return TagTask(config, data, new_model(config, data, randomness), device, randomness)

    def dropped(self, data: TagDataset) -> ReadCounter:
        return data.tally

    def adopted(self, config: TagConfig, start: Pretrained) -> TagConfig:
        if not isinstance(config.model, NeuralTaggerConfig):
            raise ConfigError(
                f"pretrained = {str(start.folder)!r} needs model.kind = 'neural', got {config.model.kind!r}. Remove "
                f"one of them."
            )
        model = config.model.model_copy(update={"words": adopt_words(config.model.words, start)})
        return config.model_copy(update={"model": model, "pretrained": str(start.folder)})

    def start(self, task: NeuralTask, start: Pretrained) -> None:
        assert isinstance(task.model, TagModel)
        start_reader(task.model.encoder.reader, start)

    def fits(self, config: TagConfig) -> bool:
        return not isinstance(config.model, NeuralTaggerConfig)

    def is_counted(self, config: TagConfig) -> bool:
        return False  # features and EM are fitted step by step

    def fit(
        self, config: TagConfig, data: TagDataset, run: RunFolder, randomness: Randomness, reporter: Reporter
    ) -> TrainResult:
        how = fit_hmm if isinstance(config.model, HmmTaggerConfig) else fit_features
        return how(config, data, run, randomness, reporter)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, TagConfig)
        return fit_to_time(config)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        checkpoint = open_checkpoint(folder)
        config = configs.load(TagConfig, checkpoint.folder / CONFIG)
        tokenizer = build_tokenizer(config.tokenizer)
        settings, tagging = config.model, TagSet.load(checkpoint.folder)
        if isinstance(settings, FeatureTaggerConfig):
            return TagPredictor(config, load_features(config, checkpoint, tagging), tokenizer)
        if isinstance(settings, HmmTaggerConfig):
            return TagPredictor(config, load_hmm(checkpoint, tagging), tokenizer)
        encoding = WordEncoding.load(settings.words, checkpoint.folder)
        model = build_model(settings, encoding, tagging)
        checkpoint.load_into(model)
        chosen = choose_device(device)
        return TagPredictor(config, NeuralScorer(model.to(chosen).eval(), encoding, tagging, chosen), tokenizer)


def new_model(config: TagConfig, data: TagDataset, randomness: Randomness) -> TagModel:
    """A model with random weights from the seed, and word vectors if the config names a file of them."""
    assert isinstance(config.model, NeuralTaggerConfig)
    assert data.encoding is not None
    randomness.seed_torch("weights")
    vectors = word_vectors(config.model.words, data.encoding)
    if vectors is not None:
        data.lines.append(vectors[1])
    return build_model(config.model, data.encoding, data.tagging, vectors[0] if vectors else None)
