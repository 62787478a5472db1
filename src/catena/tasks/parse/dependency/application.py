"""Dependency parsing: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.randomness import Randomness
from catena.tasks.application import Predictor
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.dataset import DependencyDataset, prepare
from catena.tasks.parse.dependency.model import BiaffineParser, build_parser
from catena.tasks.parse.dependency.predictor import load_predictor
from catena.tasks.parse.dependency.task import RELATIONS, DependencyTask
from catena.tasks.pretrained import Pretrained
from catena.tasks.words.encoding import WordEncoding
from catena.tasks.words.model import word_vectors
from catena.tasks.words.pretrained import adopt_words, start_reader


class DependencyApplication(LoopedApplication[ParseConfig, DependencyDataset]):
    """Dependency parsing of sentences."""

    settings = ParseConfig

    def prepare(
        self, config: ParseConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> DependencyDataset:
        if old is None:
            return prepare(config, randomness, words=start.encoding.vocabulary if start else None)
        theirs = configs.load(ParseConfig, old / CONFIG)
        check_same_model_kind(old, theirs, config)
        assert isinstance(theirs.model, BiaffineParserConfig)
        encoding = WordEncoding.load(theirs.model.words, old)
        return prepare(config, randomness, encoding=encoding, names=Labels.load(old / RELATIONS))

    def task(
        self, config: ParseConfig, data: DependencyDataset, device: torch.device, randomness: Randomness
    ) -> DependencyTask:
        assert isinstance(config.model, BiaffineParserConfig)
        randomness.seed_torch("weights")
        vectors = None
        if (found := word_vectors(config.model.words, data.encoding)) is not None:
            vectors, line = found
            data.lines.append(line)
        model = build_parser(config.model, data.encoding, len(data.names), vectors)
        return DependencyTask(config, data, model, device, randomness)

    def dropped(self, data: DependencyDataset) -> ReadCounter:
        return data.tally

    def adopted(self, config: ParseConfig, start: Pretrained) -> ParseConfig:
        assert isinstance(config.model, BiaffineParserConfig)
        words = adopt_words(config.model.words, start)
        model = config.model.model_copy(update={"words": words})
        return config.model_copy(update={"model": model, "pretrained": str(start.folder)})

    def start(self, task: NeuralTask, start: Pretrained) -> None:
        assert isinstance(task.model, BiaffineParser)
        start_reader(task.model.encoder.reader, start)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ParseConfig)
        assert isinstance(config.model, BiaffineParserConfig)
        words = f"a biaffine parser over {config.model.encoder.kind} states, trained for {config.training.max_time}"
        return config, [words]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
