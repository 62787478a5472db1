"""Prediction with trained phrase-structure parsers. They need only their own folder."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.data.detect import detect_format
from catena.data.examples import Columns, ConlluSentence, Tree
from catena.data.readers.brackets import read as read_brackets
from catena.data.readers.brackets import read_lines
from catena.data.readers.table import FORMATS as FILES
from catena.data.readers.text import read as read_text
from catena.data.tokenize import Tokenizer, load_tokenizer
from catena.draw.picture import Picture
from catena.draw.tree import draw_tree
from catena.errors import DataError
from catena.metrics.brackets import bracket_measure
from catena.seq2seq.base import EncoderDecoder
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.kept import TOKENIZER
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency import treebank_pcfg
from catena.tasks.parse.constituency.answers import FORMATS, Parsed, label_with_probabilities, nothing, written
from catena.tasks.parse.constituency.config import (
    METRICS,
    ConstituencyParserConfig,
    SequenceParserConfig,
    SpanParserConfig,
)
from catena.tasks.parse.constituency.constraints import BracketConstraint, check_given, read_given
from catena.tasks.parse.constituency.dataset import read_trees
from catena.tasks.parse.constituency.linear import TreeSymbols
from catena.tasks.parse.constituency.scoring import compute_scores, metric_signatures, report_lines
from catena.tasks.parse.constituency.sequence_decode import SequenceParser
from catena.tasks.parse.constituency.sequence_task import build_network
from catena.tasks.parse.constituency.sequence_words import SourceWords
from catena.tasks.parse.constituency.span_decode import Names
from catena.tasks.parse.constituency.span_model import SpanParser, build_span_parser
from catena.tasks.parse.constituency.span_task import load_names, parse_all
from catena.tasks.parse.constituency.treebank_pcfg import CountedParser, PcfgParser
from catena.tasks.parse.constituency.trees import bracketing, clean_tree
from catena.tasks.parse.predictor import ParsePredictor
from catena.tasks.words.encoding import WordEncoding
from catena.tasks.words.sentences import Sentence, to_sentence

_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
"""The shape of brackets in a file of brackets."""

_Words = tuple[str, ...]


class ConstituencyPredictor(ParsePredictor):
    """A phrase-structure parser. An item is a text, a list of words, or a tree, whose brackets are ignored."""

    formats: ClassVar[tuple[str, ...]] = FORMATS

    def __init__(self, config: ParseConfig, tokenizer: Tokenizer) -> None:
        assert isinstance(config.model, ConstituencyParserConfig)
        self.config, self.tokenizer = config, tokenizer
        self.functions = config.model.functions

    @abstractmethod
    def answer(
        self,
        sentences: Sequence[_Words],
        options: PredictOptions,
        given: Sequence[tuple[BracketConstraint, ...]] | None,
    ) -> list[Parsed]:
        """Predictions for nonempty sentences, with the given options."""

    # --- input --------------------------------------------------------------------------------------------------------

    def words(self, item: Any) -> _Words:
        """The words of an item."""
        if isinstance(item, Tree):
            tree = clean_tree(item)
            return () if tree is None else tree.words()
        if isinstance(item, Sentence):
            return item.words
        if isinstance(item, Columns | ConlluSentence):
            found: Sequence[str] = to_sentence(item).words
        elif isinstance(item, str):
            found = self.tokenizer.tokens(item)
        elif isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
            found = item
        else:
            raise DataError(
                f"item must be a text, a list of words or a tree, got {type(item).__name__}. Pass one of these."
            )
        return tuple(_ESCAPES.get(word, word) for word in found)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[Any]:
        format = reading.format or detect_format(path, reading.encoding).format
        if format == "brackets":
            yield from read_brackets(path, encoding=reading.encoding)
        elif format in ("conllu", "columns"):
            options = {"encoding": reading.encoding} if reading.encoding else {}
            yield from FILES[format].read(path, **options)
        else:
            yield from (example.text for example in read_text(path, encoding=reading.encoding))

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[Any]:
        """The lines of standard input as texts, or as trees if the first one opens a tree."""
        first = next(lines, None)
        if first is None:
            return iter(())
        whole = chain((first,), lines)
        if re.match(r"\s*\((\S*\s*\(|\S+ \S+\))", first):
            return read_lines(enumerate(whole, start=1), "standard input")
        return whole

    def read_constraints(self, path: Path) -> Iterator[tuple[BracketConstraint, ...]]:
        return read_given(path)

    # --- output -------------------------------------------------------------------------------------------------------

    def parse(
        self, items: Sequence[Any], options: PredictOptions, constraints: Sequence[Any] | None = None
    ) -> list[Parsed]:
        sentences = [self.words(item) for item in items]
        for words, given in zip(sentences, constraints or (), strict=bool(constraints)):
            check_given(given, len(words))
        real = [i for i, words in enumerate(sentences) if words]
        some = None if constraints is None else [constraints[i] for i in real]
        answered = dict(zip(real, self.answer([sentences[i] for i in real], options, some), strict=True))
        empty = nothing(options)
        return [answered.get(i, empty) for i in range(len(items))]

    def write(self, prediction: Any, item: Any, format: str) -> str:
        return written(prediction, format)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def judge(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> tuple[list[Tree], list[Parsed]]:
        """The gold trees of a file, and the predictions."""
        data = self.config.data.model_copy(update={"format": reading.format or "auto", "encoding": reading.encoding})
        right = list(read_trees(data, self.functions, path, to_score=True))
        if not right:
            raise DataError(f"{path} has no tree to score. Check the file.")
        return right, self.predict(right)

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        right, found = self.judge(path, reading)
        given = [parsed.tree for parsed in found]
        lines = report_lines(right, given, [parsed.note for parsed in found], self.config.seed)
        return EvaluationReport(compute_scores(right, given), metric_signatures(len(right)), tuple(lines))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        measure = bracket_measure(metric or METRICS["span"][0])
        right, found = self.judge(path, reading)
        return PairedPredictions(measure, [bracketing(t) for t in right], [bracketing(parsed.tree) for parsed in found])

    # --- reports ------------------------------------------------------------------------------------------------------

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        parsed = self._drawn(item, options)
        return draw_tree(label_with_probabilities(parsed, parsed.tree, " "), title=parsed.note or "")

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        return written(self._drawn(item, options), "tree").rstrip("\n")

    def _drawn(self, item: Any, options: PredictOptions) -> Parsed:
        parsed: Parsed = self.predict([item], options)[0]
        if not parsed.words:
            raise DataError("A text without words has no tree to draw. Give at least one word.")
        return parsed


class CountedPredictor(ConstituencyPredictor):
    """A parser with a counted or handwritten grammar."""

    def __init__(self, config: ParseConfig, tokenizer: Tokenizer, parser: CountedParser) -> None:
        super().__init__(config, tokenizer)
        self.parser = parser

    def answer(
        self,
        sentences: Sequence[_Words],
        options: PredictOptions,
        given: Sequence[tuple[BracketConstraint, ...]] | None,
    ) -> list[Parsed]:
        rng = np.random.default_rng(options.seed)
        fixed = given or [()] * len(sentences)
        return [self.parser.parsed(words, options, some, rng) for words, some in zip(sentences, fixed, strict=True)]

    def describe(self, top: int) -> list[str]:
        charts = self.parser.charts
        grammar = charts.parser.grammar
        made = "counted from trees" if isinstance(self.parser, PcfgParser) else "written by hand"
        phrases = sorted((rule for rule in grammar.rules if len(rule.right) > 1), key=lambda rule: -rule.weight)
        return [
            f"a grammar {made}: {len(grammar.rules):,} rules, {len(grammar.nonterminals):,} symbols, "
            f"{len(grammar.terminals):,} words, start {grammar.start.name}",
            f"labels: {', '.join(charts.labels)}",
            f"the {min(top, len(phrases))} rules with two or more symbols and the largest weights:",
            *(f"  {rule.weight:.4g}  {rule}" for rule in phrases[:top]),
        ]


class SpanPredictor(ConstituencyPredictor):
    """A parser with a network that scores spans."""

    def __init__(
        self,
        config: ParseConfig,
        tokenizer: Tokenizer,
        encoding: WordEncoding,
        names: Names,
        parser: SpanParser,
        device: torch.device,
    ) -> None:
        assert isinstance(config.model, SpanParserConfig)
        super().__init__(config, tokenizer)
        self.settings, self.encoding, self.names, self.device = config.model, encoding, names, device
        self.parser = parser.to(device).eval()

    def find_network(self) -> SpanParser:
        return self.parser

    def answer(
        self,
        sentences: Sequence[_Words],
        options: PredictOptions,
        given: Sequence[tuple[BracketConstraint, ...]] | None,
    ) -> list[Parsed]:
        if not sentences:
            return []
        return parse_all(self.parser, self.settings, self.encoding, sentences, self.names, self.device, options, given)

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.parser.parameters())
        chains = sorted(zip(self.names.chains.counts, self.names.chains.names, strict=True), reverse=True)[:top]
        return [
            f"a span parser trained by {self.settings.loss}: {len(self.encoding.words):,} words, "
            f"{len(self.names.chains)} chains of labels, {len(self.names.tags)} tags, {n:,} parameters",
            "labels: " + ", ".join(f"{name.replace(' ', '+')} {count:,}" for count, name in chains),
        ]


class SequencePredictor(ConstituencyPredictor):
    """A parser with a network that writes trees."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "samples", "confidence", "scores", "beam_size"})

    def __init__(self, config: ParseConfig, tokenizer: Tokenizer, parser: SequenceParser) -> None:
        super().__init__(config, tokenizer)
        self.parser = parser

    def find_network(self) -> EncoderDecoder:
        return self.parser.network

    def searching(self, options: PredictOptions) -> SequencePredictor:
        """The same parser with the given beam size."""
        self.check(options)
        return SequencePredictor(self.config, self.tokenizer, self._searched(options))

    def _searched(self, options: PredictOptions) -> SequenceParser:
        own = self.parser
        if options.beam_size is None:
            return own
        search = own.settings.search.model_copy(update={"width": options.beam_size})
        settings = own.settings.model_copy(update={"search": search})
        return SequenceParser(own.network, settings, own.words, own.symbols, own.others)

    def together(self, others: Sequence[Predictor]) -> SequencePredictor:
        """An ensemble of this model and others, with probabilities averaged at every step."""
        own = self.parser
        networks = list(own.others)
        for number, other in enumerate(others, start=2):
            if not isinstance(other, SequencePredictor) or not own.writes_like(other.parser):
                raise DataError(
                    f"models of an ensemble need the same words, labels and tags, but model {number} has others. Train "
                    f"models of kind seq2seq on the same trees with other seeds, as --seeds 3 does."
                )
            networks += [other.parser.network, *other.parser.others]
        both = SequenceParser(own.network, own.settings, own.words, own.symbols, networks)
        return SequencePredictor(self.config, self.tokenizer, both)

    def answer(
        self,
        sentences: Sequence[_Words],
        options: PredictOptions,
        given: Sequence[tuple[BracketConstraint, ...]] | None,
    ) -> list[Parsed]:
        return self._searched(options).parse(sentences, options) if sentences else []

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.parser.network.parameters())
        labels = self.parser.symbols.labels
        most = sorted(zip(labels.counts, labels.names, strict=True), reverse=True)[:top]
        return [
            f"a parser that writes trees, {self.parser.settings.network.kind}: {len(self.parser.words):,} words and "
            f"classes, {len(labels)} labels, {len(self.parser.symbols.tags)} tags, {n:,} parameters",
            "labels: " + ", ".join(f"{name} {count:,}" for count, name in most),
        ]


def load_predictor(folder: Path, device: torch.device) -> ConstituencyPredictor:
    """Load a trained parser from a run folder or a checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(ParseConfig, checkpoint.folder / CONFIG)
    tokenizer = load_tokenizer(checkpoint.folder / TOKENIZER)
    if isinstance(config.model, SequenceParserConfig):
        source, symbols = SourceWords.load(checkpoint.folder), TreeSymbols.load(checkpoint.folder)
        network = build_network(config.model, source, symbols)
        checkpoint.load_into(network)
        return SequencePredictor(
            config, tokenizer, SequenceParser(network.to(device).eval(), config.model, source, symbols)
        )
    if not isinstance(config.model, SpanParserConfig):
        return CountedPredictor(config, tokenizer, treebank_pcfg.load(config, checkpoint.folder))
    encoding = WordEncoding.load(config.model.words, checkpoint.folder)
    names = load_names(checkpoint.folder)
    parser = build_span_parser(config.model, encoding, len(names.chains) + 1, len(names.tags))
    checkpoint.load_into(parser)
    return SpanPredictor(config, tokenizer, encoding, names, parser, device)
