"""Phrase-structure parsing: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.errors import ConfigError
from catena.randomness import Randomness
from catena.tasks.application import Predictor, TrainResult
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency import sequence_task
from catena.tasks.parse.constituency.config import SequenceParserConfig, SpanParserConfig
from catena.tasks.parse.constituency.dataset import Treebank, prepare
from catena.tasks.parse.constituency.linear import TreeSymbols
from catena.tasks.parse.constituency.predictor import load_predictor
from catena.tasks.parse.constituency.sequence_task import SequenceData, SequenceTask
from catena.tasks.parse.constituency.sequence_words import SourceWords
from catena.tasks.parse.constituency.span_model import SpanParser, build_span_parser
from catena.tasks.parse.constituency.span_task import SpanData, SpanTask, encode, load_names
from catena.tasks.parse.constituency.treebank_pcfg import fit
from catena.tasks.pretrained import Pretrained
from catena.tasks.words.encoding import WordEncoding
from catena.tasks.words.model import word_vectors
from catena.tasks.words.pretrained import adopt_words, start_reader
from catena.training.report import Reporter
from catena.training.run import RunFolder


class ConstituencyApplication(LoopedApplication[ParseConfig, Treebank | SpanData | SequenceData]):
    """Phrase-structure parsing of sentences."""

    settings = ParseConfig

    def prepare(
        self, config: ParseConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> Treebank | SpanData | SequenceData:
        bank = prepare(config, randomness)
        if self.fits(config):
            return bank
        if isinstance(config.model, SequenceParserConfig):
            if old is None:
                return sequence_task.encode(config, bank)
            check_same_model_kind(old, configs.load(ParseConfig, old / CONFIG), config)
            return sequence_task.encode(config, bank, SourceWords.load(old), TreeSymbols.load(old))
        if old is None:
            return encode(config, bank, words=start.encoding.vocabulary if start else None)
        theirs = configs.load(ParseConfig, old / CONFIG)
        check_same_model_kind(old, theirs, config)
        assert isinstance(theirs.model, SpanParserConfig)
        return encode(config, bank, load_names(old), WordEncoding.load(theirs.model.words, old))

    def task(
        self,
        config: ParseConfig,
        data: Treebank | SpanData | SequenceData,
        device: torch.device,
        randomness: Randomness,
    ) -> NeuralTask:
        randomness.seed_torch("weights")
        if isinstance(config.model, SequenceParserConfig):
            assert isinstance(data, SequenceData)
            network = sequence_task.build_network(config.model, data.words, data.symbols)
            return SequenceTask(config, data, network, device, randomness)
        assert isinstance(config.model, SpanParserConfig)
        assert isinstance(data, SpanData)
        vectors = None
        if (found := word_vectors(config.model.words, data.encoding)) is not None:
            vectors, line = found
            data.bank.lines.append(line)
        names = data.names
        model = build_span_parser(config.model, data.encoding, len(names.chains) + 1, len(names.tags), vectors)
        return SpanTask(config, data, model, device, randomness)

    def dropped(self, data: Treebank | SpanData | SequenceData) -> ReadCounter:
        return data.tally if isinstance(data, Treebank) else data.bank.tally

    def fits(self, config: ParseConfig) -> bool:
        return not isinstance(config.model, SpanParserConfig | SequenceParserConfig)

    def fit(
        self,
        config: ParseConfig,
        data: Treebank | SpanData | SequenceData,
        run: RunFolder,
        randomness: Randomness,
        reporter: Reporter,
    ) -> TrainResult:
        assert isinstance(data, Treebank)
        return fit(config, data, run, randomness, reporter)

    def adopted(self, config: ParseConfig, start: Pretrained) -> ParseConfig:
        if not isinstance(config.model, SpanParserConfig):
            raise ConfigError(
                f"pretrained needs model.kind = 'span', got {config.model.kind!r}. Remove pretrained, or use --model "
                f"span."
            )
        words = adopt_words(config.model.words, start)
        model = config.model.model_copy(update={"words": words})
        return config.model_copy(update={"model": model, "pretrained": str(start.folder)})

    def start(self, task: NeuralTask, start: Pretrained) -> None:
        assert isinstance(task.model, SpanParser)
        start_reader(task.model.encoder.reader, start)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ParseConfig)
        return config, [f"a parser of kind {config.model.kind}, trained for {config.training.max_time}"]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
