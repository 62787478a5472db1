"""Text classification as a whole: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.readers.vectors import vectors_for
from catena.data.reading import Tally
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError
from catena.randomness import Randomness
from catena.tasks.application import Predictor
from catena.tasks.classify.auto import fit_to_time
from catena.tasks.classify.dataset import Dataset, prepare
from catena.tasks.classify.encoding import TokenEncoding, load_encoding
from catena.tasks.classify.model import Classifier, build_model
from catena.tasks.classify.predictor import blank_vectors, load_predictor
from catena.tasks.classify.pretrained import adopt, encoding_of, start_with
from catena.tasks.classify.settings import ClassifyConfig, NeuralModel
from catena.tasks.classify.task import LABELS, ClassifyTask
from catena.tasks.looped import LoopedApplication, TestedTask, same_make
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained


class ClassifyApplication(LoopedApplication[ClassifyConfig, Dataset]):
    """Texts into classes."""

    settings = ClassifyConfig

    def prepare(
        self, config: ClassifyConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> Dataset:
        if old is None:
            return prepare(config, randomness, encoding=encoding_of(config, start) if start else None)
        theirs = configs.load(ClassifyConfig, old / CONFIG)
        same_make(old, theirs, config)
        if theirs.bagging != config.bagging:
            raise CheckpointError(
                f"--from {old} holds bagging.members = {theirs.bagging.members}, and {config.bagging.members} are "
                f"asked for: leave bagging.members out to go on with it"
            )
        return prepare(config, randomness, encoding=load_encoding(theirs, old), names=Labels.load(old / LABELS))

    def task(self, config: ClassifyConfig, data: Dataset, device: torch.device, randomness: Randomness) -> ClassifyTask:
        return ClassifyTask(config, data, new_model(config, data, randomness), device, randomness)

    def dropped(self, data: Dataset) -> Tally:
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
        return load_predictor(folder, choose_device(device))


def new_model(config: ClassifyConfig, data: Dataset, randomness: Randomness) -> Classifier:
    """A model with fresh weights, drawn by the seed, and word vectors where the config names a file of them."""
    randomness.seed_torch("weights")
    vectors = blank_vectors(config, data.encoding.size)
    if vectors is not None and isinstance(config.model, NeuralModel) and isinstance(data.encoding, TokenEncoding):
        vectors = _word_vectors(config.model, data.encoding, data)
    return build_model(config, data.encoding.size, len(data.names), vectors)


def _word_vectors(model: NeuralModel, encoding: TokenEncoding, data: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    rows, found = vectors_for(Path(str(model.embedding.vectors)), encoding.vocabulary.symbols, model.embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    share = float(known.float().mean())
    data.lines.append(
        f"{model.embedding.vectors}: vectors for {int(known.sum()):,} words, {100 * share:.1f} % of the vocabulary"
    )
    return matrix, known
