"""Trained phrase-structure parsers that are ready to be asked. They need nothing but their own folder."""

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
from catena.data.examples import Columns, ConlluSentence, Tree
from catena.data.readers.brackets import read as read_brackets
from catena.data.readers.brackets import read_lines
from catena.data.readers.table import FORMATS as FILES
from catena.data.readers.text import read as read_text
from catena.data.recognise import recognise
from catena.data.tokenise import Tokeniser, load_tokeniser
from catena.draw.picture import Picture
from catena.draw.tree import draw_tree
from catena.errors import DataError
from catena.metrics.brackets import bracket_measure
from catena.seq2seq.base import EncoderDecoder
from catena.tasks.application import AS_TRAINED, BEST, Answers, Asking, Predictor, Reading, Report
from catena.tasks.kept import TOKENISER
from catena.tasks.parse.constituency import counted
from catena.tasks.parse.constituency.answers import FORMATS, Parsed, nothing, shown, written
from catena.tasks.parse.constituency.constraints import Given, check_given, read_given
from catena.tasks.parse.constituency.counted import CountedParser, PcfgParser
from catena.tasks.parse.constituency.dataset import read_trees
from catena.tasks.parse.constituency.linear import TreeSymbols
from catena.tasks.parse.constituency.scoring import report_lines, scores_of, signatures_of
from catena.tasks.parse.constituency.sequence_decode import SequenceParser
from catena.tasks.parse.constituency.sequence_task import build_network
from catena.tasks.parse.constituency.sequence_words import SourceWords
from catena.tasks.parse.constituency.settings import METRICS, SequenceTreeModel, SpanModel, TreeModel
from catena.tasks.parse.constituency.span_decode import Names
from catena.tasks.parse.constituency.span_model import SpanParser, build_span_parser
from catena.tasks.parse.constituency.span_task import load_names, parse_all
from catena.tasks.parse.constituency.trees import bracketing, cleaned
from catena.tasks.parse.predictor import ParsePredictor
from catena.tasks.parse.settings import ParseConfig
from catena.tasks.words.encoding import WordEncoding
from catena.tasks.words.sentences import Sentence, sentence_of

ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
"""How brackets are written in a file of brackets."""

Words = tuple[str, ...]


class TreePredictor(ParsePredictor):
    """A phrase-structure parser. An item is a text, a list of words, or a tree, of which only the words are read."""

    formats: ClassVar[tuple[str, ...]] = FORMATS

    def __init__(self, config: ParseConfig, tokeniser: Tokeniser) -> None:
        assert isinstance(config.model, TreeModel)
        self.config, self.tokeniser = config, tokeniser
        self.functions = config.model.functions

    @abstractmethod
    def answer(
        self, sentences: Sequence[Words], asking: Asking, given: Sequence[tuple[Given, ...]] | None
    ) -> list[Parsed]:
        """What is asked of sentences that have words."""

    # --- what goes in -------------------------------------------------------------------------------------------------

    def words(self, item: Any) -> Words:
        """The words of an item."""
        if isinstance(item, Tree):
            tree = cleaned(item)
            return () if tree is None else tree.words()
        if isinstance(item, Sentence):
            return item.words
        if isinstance(item, Columns | ConlluSentence):
            found: Sequence[str] = sentence_of(item).words
        elif isinstance(item, str):
            found = self.tokeniser.tokens(item)
        elif isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
            found = item
        else:
            raise DataError(f"a parser takes texts, lists of words or trees, and was given {type(item).__name__}")
        return tuple(ESCAPES.get(word, word) for word in found)

    def read_inputs(self, path: Path, reading: Reading = AS_TRAINED) -> Iterator[Any]:
        format = reading.format or recognise(path, reading.encoding).format
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

    def read_constraints(self, path: Path) -> Iterator[tuple[Given, ...]]:
        return read_given(path)

    # --- what comes out -----------------------------------------------------------------------------------------------

    def parse(self, items: Sequence[Any], asking: Asking, constraints: Sequence[Any] | None = None) -> list[Parsed]:
        sentences = [self.words(item) for item in items]
        for words, given in zip(sentences, constraints or (), strict=bool(constraints)):
            check_given(given, len(words))
        real = [i for i, words in enumerate(sentences) if words]
        some = None if constraints is None else [constraints[i] for i in real]
        answered = dict(zip(real, self.answer([sentences[i] for i in real], asking, some), strict=True))
        empty = nothing(asking)
        return [answered.get(i, empty) for i in range(len(items))]

    def write(self, prediction: Any, item: Any, format: str) -> str:
        return written(prediction, format)

    # --- on trees that are known --------------------------------------------------------------------------------------

    def judge(self, path: Path, reading: Reading = AS_TRAINED) -> tuple[list[Tree], list[Parsed]]:
        """The right trees of a file, and the model's answers."""
        data = self.config.data.model_copy(update={"format": reading.format or "auto", "encoding": reading.encoding})
        right = list(read_trees(data, self.functions, path, to_score=True))
        if not right:
            raise DataError(f"{path} has no tree to score")
        return right, self.predict(right)

    def evaluate(self, path: Path, reading: Reading = AS_TRAINED) -> Report:
        right, found = self.judge(path, reading)
        given = [parsed.tree for parsed in found]
        lines = report_lines(right, given, [parsed.note for parsed in found], self.config.seed)
        return Report(scores_of(right, given), signatures_of(len(right)), tuple(lines))

    def answers(self, path: Path, metric: str | None = None, reading: Reading = AS_TRAINED) -> Answers:
        measure = bracket_measure(metric or METRICS["span"][0])
        right, found = self.judge(path, reading)
        return Answers(measure, [bracketing(t) for t in right], [bracketing(parsed.tree) for parsed in found])

    # --- for people ---------------------------------------------------------------------------------------------------

    def picture(self, item: Any, asking: Asking = BEST) -> Picture:
        parsed = self._drawn(item, asking)
        return draw_tree(shown(parsed, parsed.tree, " "), title=parsed.note or "")

    def sketch(self, item: Any, asking: Asking = BEST) -> str:
        return written(self._drawn(item, asking), "tree").rstrip("\n")

    def _drawn(self, item: Any, asking: Asking) -> Parsed:
        parsed: Parsed = self.predict([item], asking)[0]
        if not parsed.words:
            raise DataError("a text without words has no tree to draw")
        return parsed


class CountedPredictor(TreePredictor):
    """A grammar, counted or written."""

    def __init__(self, config: ParseConfig, tokeniser: Tokeniser, parser: CountedParser) -> None:
        super().__init__(config, tokeniser)
        self.parser = parser

    def answer(
        self, sentences: Sequence[Words], asking: Asking, given: Sequence[tuple[Given, ...]] | None
    ) -> list[Parsed]:
        rng = np.random.default_rng(asking.seed)
        fixed = given or [()] * len(sentences)
        return [self.parser.parsed(words, asking, some, rng) for words, some in zip(sentences, fixed, strict=True)]

    def describe(self, top: int) -> list[str]:
        charts = self.parser.charts
        grammar = charts.parser.grammar
        made = "counted from trees" if isinstance(self.parser, PcfgParser) else "written by a person"
        phrases = sorted((rule for rule in grammar.rules if len(rule.right) > 1), key=lambda rule: -rule.weight)
        return [
            f"a grammar {made}: {len(grammar.rules):,} rules, {len(grammar.nonterminals):,} symbols, "
            f"{len(grammar.terminals):,} words, start {grammar.start.name}",
            f"labels: {', '.join(charts.labels)}",
            f"the {min(top, len(phrases))} rules of most weight among those of two symbols and more:",
            *(f"  {rule.weight:.4g}  {rule}" for rule in phrases[:top]),
        ]


class SpanPredictor(TreePredictor):
    """A network that scores spans."""

    def __init__(
        self,
        config: ParseConfig,
        tokeniser: Tokeniser,
        encoding: WordEncoding,
        names: Names,
        parser: SpanParser,
        device: torch.device,
    ) -> None:
        assert isinstance(config.model, SpanModel)
        super().__init__(config, tokeniser)
        self.settings, self.encoding, self.names, self.device = config.model, encoding, names, device
        self.parser = parser.to(device).eval()

    def find_network(self) -> SpanParser:
        return self.parser

    def answer(
        self, sentences: Sequence[Words], asking: Asking, given: Sequence[tuple[Given, ...]] | None
    ) -> list[Parsed]:
        if not sentences:
            return []
        return parse_all(self.parser, self.settings, self.encoding, sentences, self.names, self.device, asking, given)

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.parser.parameters())
        chains = sorted(zip(self.names.chains.counts, self.names.chains.names, strict=True), reverse=True)[:top]
        return [
            f"a span parser trained by {self.settings.loss}: {len(self.encoding.words):,} words, "
            f"{len(self.names.chains)} chains of labels, {len(self.names.tags)} tags, {n:,} parameters",
            "labels: " + ", ".join(f"{name.replace(' ', '+')} {count:,}" for count, name in chains),
        ]


class SequencePredictor(TreePredictor):
    """A network that writes trees."""

    asks: ClassVar[frozenset[str]] = frozenset({"nbest", "samples", "confidence", "scores", "beam_size"})

    def __init__(self, config: ParseConfig, tokeniser: Tokeniser, parser: SequenceParser) -> None:
        super().__init__(config, tokeniser)
        self.parser = parser

    def find_network(self) -> EncoderDecoder:
        return self.parser.network

    def searching(self, asking: Asking) -> SequencePredictor:
        """The same with a beam of the width that is asked for."""
        self.check(asking)
        return SequencePredictor(self.config, self.tokeniser, self._searched(asking))

    def _searched(self, asking: Asking) -> SequenceParser:
        own = self.parser
        if asking.beam_size is None:
            return own
        search = own.settings.search.model_copy(update={"width": asking.beam_size})
        settings = own.settings.model_copy(update={"search": search})
        return SequenceParser(own.network, settings, own.words, own.symbols, own.others)

    def together(self, others: Sequence[Predictor]) -> SequencePredictor:
        """This model and others, whose probabilities are averaged at every step."""
        own = self.parser
        networks = list(own.others)
        for number, other in enumerate(others, start=2):
            if not isinstance(other, SequencePredictor) or not own.writes_like(other.parser):
                raise DataError(
                    f"models that write trees together need the same words, labels and tags, and model {number} has "
                    f"others: train models of kind seq2seq on the same trees with other seeds, as --seeds 3 does"
                )
            networks += [other.parser.network, *other.parser.others]
        both = SequenceParser(own.network, own.settings, own.words, own.symbols, networks)
        return SequencePredictor(self.config, self.tokeniser, both)

    def answer(
        self, sentences: Sequence[Words], asking: Asking, given: Sequence[tuple[Given, ...]] | None
    ) -> list[Parsed]:
        return self._searched(asking).parse(sentences, asking) if sentences else []

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.parser.network.parameters())
        labels = self.parser.symbols.labels
        most = sorted(zip(labels.counts, labels.names, strict=True), reverse=True)[:top]
        return [
            f"a parser that writes trees, {self.parser.settings.network.kind}: {len(self.parser.words):,} words and "
            f"classes, {len(labels)} labels, {len(self.parser.symbols.tags)} tags, {n:,} parameters",
            "labels: " + ", ".join(f"{name} {count:,}" for count, name in most),
        ]


def load_predictor(folder: Path, device: torch.device) -> TreePredictor:
    """Read a trained parser from a run folder or a checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(ParseConfig, checkpoint.folder / CONFIG)
    tokeniser = load_tokeniser(checkpoint.folder / TOKENISER)
    if isinstance(config.model, SequenceTreeModel):
        source, symbols = SourceWords.load(checkpoint.folder), TreeSymbols.load(checkpoint.folder)
        network = build_network(config.model, source, symbols)
        checkpoint.load_into(network)
        return SequencePredictor(
            config, tokeniser, SequenceParser(network.to(device).eval(), config.model, source, symbols)
        )
    if not isinstance(config.model, SpanModel):
        return CountedPredictor(config, tokeniser, counted.load(config, checkpoint.folder))
    encoding = WordEncoding.load(config.model.words, checkpoint.folder)
    names = load_names(checkpoint.folder)
    parser = build_span_parser(config.model, encoding, len(names.chains) + 1, len(names.tags))
    checkpoint.load_into(parser)
    return SpanPredictor(config, tokeniser, encoding, names, parser, device)
