"""The task classify: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError
from catena.randomness import Randomness
from catena.tasks.application import Predictor
from catena.tasks.classify.auto import fit_to_time
from catena.tasks.classify.config import ClassifyConfig, NeuralClassifierConfig
from catena.tasks.classify.dataset import ClassifyDataset, prepare
from catena.tasks.classify.encoding import TokenEncoding, load_encoding
from catena.tasks.classify.model import Classifier, build_model
from catena.tasks.classify.predictor import load_predictor
from catena.tasks.classify.pretrained import config_from_pretrained, get_encoding, load_pretrained_weights
from catena.tasks.classify.task import ClassifyTask
from catena.tasks.classify.tree_config import TreeClassifierConfig
from catena.tasks.classify.trees.dataset import TreeDataset, prepare_trees
from catena.tasks.classify.trees.model import new_tree_model
from catena.tasks.classify.trees.predictor import load_tree_predictor
from catena.tasks.classify.trees.task import TreeTask
from catena.tasks.classify.vectors import word_vectors
from catena.tasks.kept import LABELS
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained


class ClassifyApplication(LoopedApplication[ClassifyConfig, ClassifyDataset | TreeDataset]):
    """Classification of texts or trees."""

    settings = ClassifyConfig

    def prepare(
        self, config: ClassifyConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> ClassifyDataset | TreeDataset:
        if old is None and isinstance(config.model, TreeClassifierConfig):
            return prepare_trees(config, randomness)
        if old is None:
            return prepare(config, randomness, encoding=get_encoding(config, start) if start else None)
        theirs = configs.load(ClassifyConfig, old / CONFIG)
        check_same_model_kind(old, theirs, config)
        if theirs.bagging != config.bagging:
            raise CheckpointError(
                f"bagging.members must be {theirs.bagging.members} "  # style: option name
                f"as in {old}, got {config.bagging.members}. Remove the option, or train without --from."
            )
        encoding, names = load_encoding(theirs, old), Labels.load(old / LABELS)
        if isinstance(config.model, TreeClassifierConfig) and isinstance(encoding, TokenEncoding):
            return prepare_trees(config, randomness, encoding, names)
        return prepare(config, randomness, encoding=encoding, names=names)

    def task(
        self, config: ClassifyConfig, data: ClassifyDataset | TreeDataset, device: torch.device, randomness: Randomness
    ) -> NeuralTask:
        if isinstance(data, TreeDataset):
            return TreeTask(config, data, new_tree_model(config, data, randomness), device, randomness)
        return ClassifyTask(config, data, new_model(config, data, randomness), device, randomness)

    def dropped(self, data: ClassifyDataset | TreeDataset) -> ReadCounter:
        return data.tally

    def adopted(self, config: ClassifyConfig, start: Pretrained) -> ClassifyConfig:
        return config_from_pretrained(config, start)

    def start(self, task: NeuralTask, start: Pretrained) -> None:
        assert isinstance(task.model, Classifier)
        load_pretrained_weights(task.model, start)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ClassifyConfig)
        return fit_to_time(config)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        checkpoint = open_checkpoint(folder)
        config = configs.load(ClassifyConfig, checkpoint.folder / CONFIG)
        if isinstance(config.model, TreeClassifierConfig):
            return load_tree_predictor(config, checkpoint, choose_device(device))
        return load_predictor(checkpoint.folder, choose_device(device))


def new_model(config: ClassifyConfig, data: ClassifyDataset, randomness: Randomness) -> Classifier:
    """A model with random weights from the seed, and word vectors if the config names a file of them."""
    randomness.seed_torch("weights")
    vectors = None
    if isinstance(config.model, NeuralClassifierConfig) and config.model.embedding.mode != "random":
        assert isinstance(data.encoding, TokenEncoding)
        vectors, words = word_vectors(config.model.embedding, data.encoding)
        data.lines.append(words)
    return build_model(config, data.encoding.size, len(data.names), vectors)
