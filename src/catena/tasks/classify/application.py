"""Text classification as a whole: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import Config
from catena.data.reading import Tally
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError
from catena.randomness import Randomness
from catena.tasks.application import Predictor
from catena.tasks.classify.auto import fit_to_time
from catena.tasks.classify.dataset import Dataset, prepare
from catena.tasks.classify.encoding import TokenEncoding, load_encoding
from catena.tasks.classify.model import Classifier, build_model
from catena.tasks.classify.predictor import load_predictor
from catena.tasks.classify.pretrained import adopt, encoding_of, start_with
from catena.tasks.classify.settings import ClassifyConfig, NeuralModel
from catena.tasks.classify.task import ClassifyTask
from catena.tasks.classify.tree_settings import TreeModel
from catena.tasks.classify.trees.dataset import TreeDataset, prepare_trees
from catena.tasks.classify.trees.model import new_tree_model
from catena.tasks.classify.trees.predictor import load_tree_predictor
from catena.tasks.classify.trees.task import TreeTask
from catena.tasks.classify.vectors import word_vectors
from catena.tasks.kept import LABELS
from catena.tasks.looped import LoopedApplication, TestedTask, same_make
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained


class ClassifyApplication(LoopedApplication[ClassifyConfig, Dataset | TreeDataset]):
    """Texts into classes, or trees."""

    settings = ClassifyConfig

    def prepare(
        self, config: ClassifyConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> Dataset | TreeDataset:
        if old is None and isinstance(config.model, TreeModel):
            return prepare_trees(config, randomness)
        if old is None:
            return prepare(config, randomness, encoding=encoding_of(config, start) if start else None)
        theirs = configs.load(ClassifyConfig, old / CONFIG)
        same_make(old, theirs, config)
        if theirs.bagging != config.bagging:
            raise CheckpointError(
                f"--from {old} holds bagging.members = {theirs.bagging.members}, and {config.bagging.members} are "
                f"asked for: leave bagging.members out to go on with it"
            )
        encoding, names = load_encoding(theirs, old), Labels.load(old / LABELS)
        if isinstance(config.model, TreeModel) and isinstance(encoding, TokenEncoding):
            return prepare_trees(config, randomness, encoding, names)
        return prepare(config, randomness, encoding=encoding, names=names)

    def task(
        self, config: ClassifyConfig, data: Dataset | TreeDataset, device: torch.device, randomness: Randomness
    ) -> TestedTask:
        if isinstance(data, TreeDataset):
            return TreeTask(config, data, new_tree_model(config, data, randomness), device, randomness)
        return ClassifyTask(config, data, new_model(config, data, randomness), device, randomness)

    def dropped(self, data: Dataset | TreeDataset) -> Tally:
        return data.tally

    def adopted(self, config: ClassifyConfig, start: Pretrained) -> ClassifyConfig:
        return adopt(config, start)

    def start(self, task: TestedTask, start: Pretrained) -> None:
        assert isinstance(task.model, Classifier)
        start_with(task.model, start)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ClassifyConfig)
        return fit_to_time(config)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        checkpoint = open_checkpoint(folder)
        config = configs.load(ClassifyConfig, checkpoint.folder / CONFIG)
        if isinstance(config.model, TreeModel):
            return load_tree_predictor(config, checkpoint, choose_device(device))
        return load_predictor(checkpoint.folder, choose_device(device))


def new_model(config: ClassifyConfig, data: Dataset, randomness: Randomness) -> Classifier:
    """A model with fresh weights, drawn by the seed, and word vectors where the config names a file of them."""
    randomness.seed_torch("weights")
    vectors = None
    if isinstance(config.model, NeuralModel) and config.model.embedding.mode != "random":
        assert isinstance(data.encoding, TokenEncoding)
        vectors, words = word_vectors(config.model.embedding, data.encoding)
        data.lines.append(words)
    return build_model(config, data.encoding.size, len(data.names), vectors)
