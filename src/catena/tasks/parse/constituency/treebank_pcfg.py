"""Parsers that need no training loop: grammars counted from trees, and handwritten grammars."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.data.examples import Tree
from catena.data.readers.brackets import unescape
from catena.data.tokenize import build_tokenizer
from catena.errors import CheckpointError, DataError, DivergentSumError, LimitError
from catena.grammar.cfg import Grammar, Nonterminal
from catena.grammar.derivation import Derivation
from catena.grammar.files import read_grammar, write_grammar
from catena.grammar.induction import ROOT, Induction, induce, restore_tree
from catena.grammar.sparse import Beam
from catena.grammar.words import word_classes
from catena.randomness import Randomness
from catena.registry import nearest
from catena.tasks.application import PredictOptions, TrainResult
from catena.tasks.fitted import FitReporter, FitResult
from catena.tasks.kept import TOKENIZER
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.answers import Parsed, ParsedTree, has_scores, nothing
from catena.tasks.parse.constituency.charts import (
    ChartExpectations,
    ChartParser,
    ChartWords,
    Fixed,
    most_likely_tags,
    too_long,
)
from catena.tasks.parse.constituency.config import METRICS, GrammarParserConfig, PCFGParserConfig
from catena.tasks.parse.constituency.dataset import Treebank
from catena.tasks.parse.constituency.scoring import compute_scores
from catena.tasks.parse.constituency.trees import flat
from catena.training.report import Reporter
from catena.training.run import RunFolder

GRAMMAR, SYMBOLS = "grammar.cfg", "symbols.json"
WHAT_NEXT = ("predict RUN FILE", "evaluate RUN FILE", "draw RUN TEXT")


class CountedParser(ABC):
    """A grammar that parses one sentence at a time."""

    charts: ChartParser
    settings: PCFGParserConfig | GrammarParserConfig

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the grammar into a model folder."""

    @property
    def top(self) -> str:
        """The label over brackets that no other bracket contains."""
        return self.charts.parser.grammar.start.name

    def parsed(self, words: ChartWords, options: PredictOptions, given: Fixed, rng: np.random.Generator) -> Parsed:
        """The prediction for one sentence, with the given options."""
        if not words:
            return nothing(options)
        note = too_long(words, self.settings.longest)
        if note is not None:
            return self._not_parsed(words, note, options)
        try:
            found = self._asked(words, options, given, rng)
        except LimitError as error:
            return self._not_parsed(words, str(error), options)
        return found or self._not_parsed(words, self._why_not(words, given), options)

    def _asked(
        self, words: ChartWords, options: PredictOptions, given: Fixed, rng: np.random.Generator
    ) -> Parsed | None:
        charts = self.charts
        whole = has_scores(options)  # trees of the grammar, with probabilities
        likely = not whole and self.settings.by_recall
        expectation = charts.expected(words, given) if likely or options.confidence else None
        if likely:
            answers = [] if expectation is None else [self._of_most(words, expectation)]
        else:
            total = self._log_total(words, given) if whole else None
            if options.samples:
                parses = charts.samples(words, options.samples, rng, given)
            else:
                parses = charts.k_best(words, options.n_best, given)
            answers = charts.answers(parses, total, self.has_meanings)
        if not answers:
            return None
        return Parsed(
            words,
            tuple(answers),
            expectation.confidence() if expectation is not None and options.confidence else None,
            expectation.tags if expectation is not None and options.confidence else None,
            self._count(words) if not given else None,
            scored=options.scores,
        )

    def _log_total(self, words: ChartWords, given: Fixed) -> float | None:
        try:
            return self.charts.log_total(words, given)
        except DivergentSumError:  # parses are ranked, but have no probabilities
            return None

    def _of_most(self, words: ChartWords, expectation: ChartExpectations) -> ParsedTree:
        return ParsedTree(self.charts.tree_of_most(words, expectation, self.settings.price, self.top))

    @property
    def has_meanings(self) -> bool:
        """Whether a parse has a logical form."""
        return False

    def _count(self, words: ChartWords) -> int | None:
        return None

    def _not_parsed(self, words: ChartWords, note: str, options: PredictOptions) -> Parsed:
        answer = ParsedTree(flat(words, most_likely_tags(self.charts, words)))
        return Parsed(words, (answer,), parses=self._none, note=note, scored=options.scores)

    _none: int | None = None

    def _why_not(self, words: ChartWords, given: Fixed) -> str:
        if given:
            return "no parse has the given brackets"
        parser = self.charts.parser
        strange = [word for word in dict.fromkeys(words) if not parser.leaves(parser.best_rules, word)]
        if not strange:
            return "the grammar has every word, but no parse of them in this order"
        near = nearest(strange[0], parser.grammar.terminals, most=1)
        listed = ", ".join(map(repr, strange[:5])) + (" …" if len(strange) > 5 else "")
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"the grammar does not have the word{'s' * (len(strange) > 1)} {listed}{hint}"


class PcfgParser(CountedParser):
    """A parser with a grammar counted from trees.

    Args:
        settings: the config of the model.
        grammar: the rules.
        labels: the labels of each symbol.
        rooted: whether the trees of the treebank have the label ROOT at the top.
    """

    def __init__(
        self, settings: PCFGParserConfig, grammar: Grammar, labels: dict[Nonterminal, tuple[str, ...]], rooted: bool
    ) -> None:
        self.settings, self.rooted, self.labels = settings, rooted, labels
        self.charts = ChartParser(grammar, labels, self._restore, word_classes if settings.rare else None)
        if settings.beam is not None:
            self.charts.beam = Beam(settings.beam, _priors(self.charts))

    @classmethod
    def count(cls, settings: PCFGParserConfig, trees: Sequence[Tree]) -> PcfgParser:
        """Count the rules of trees."""
        options = Induction(
            strip_functions=False,
            vertical=settings.vertical,
            horizontal=settings.horizontal,
            rare=settings.rare,
            smoothing=settings.smoothing,
        )
        found = induce(trees, options)
        rooted = sum(tree.label == ROOT for tree in trees) > len(trees) / 2
        return cls(settings, found.grammar, dict(found.labels), rooted)

    def _restore(self, parse: Derivation) -> Tree:
        return self._without_root(restore_tree(parse, self.labels))

    def _without_root(self, tree: Tree) -> Tree:
        bare = not self.rooted and tree.label == ROOT and len(tree.children) == 1
        return tree.children[0] if bare and tree.children[0].word is None else tree

    def _of_most(self, words: ChartWords, expectation: ChartExpectations) -> ParsedTree:
        answer = super()._of_most(words, expectation)
        return ParsedTree(self._without_root(answer.tree))

    def save(self, folder: Path) -> None:
        write_grammar(self.charts.parser.grammar, folder / GRAMMAR)
        named = {symbol.name: list(labels) for symbol, labels in self.labels.items()}
        text = json.dumps({"rooted": self.rooted, "labels": named}, ensure_ascii=False, indent=0)
        (folder / SYMBOLS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, settings: PCFGParserConfig, folder: Path) -> PcfgParser:
        """Read what :meth:`save` wrote."""
        grammar = read_grammar(folder / GRAMMAR, style="nltk")
        try:
            data = json.loads((folder / SYMBOLS).read_text(encoding="utf-8"))
            labels = {Nonterminal(name): tuple(given) for name, given in data["labels"].items()}
            return cls(settings, grammar, labels, bool(data["rooted"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{folder / SYMBOLS} cannot be read ({error}). Copy the model again.") from None


class WrittenParser(CountedParser):
    """A parser with a handwritten grammar."""

    _none = 0

    def __init__(self, settings: GrammarParserConfig, grammar: Grammar) -> None:
        self.settings, self.lowercase = settings, settings.lowercase
        labels = {symbol: (symbol.name,) for symbol in grammar.nonterminals}
        self.charts = ChartParser(grammar, labels, lambda parse: parse.tree(), self._other_words)

    def _other_words(self, word: str) -> tuple[str, ...]:
        plain = unescape(word)
        return (plain, *((word.lower(), plain.lower()) if self.lowercase else ()))

    @property
    def has_meanings(self) -> bool:
        return any(rule.meaning is not None for rule in self.charts.parser.grammar.rules)

    def _count(self, words: ChartWords) -> int | None:
        if not (isinstance(self.settings, GrammarParserConfig) and self.settings.count):
            return None
        try:
            return self.charts.parser.count(words)
        except DivergentSumError:
            return None

    def save(self, folder: Path) -> None:
        write_grammar(self.charts.parser.grammar, folder / GRAMMAR)

    @classmethod
    def read(cls, settings: GrammarParserConfig, paths: Sequence[Path], encoding: str | None = None) -> WrittenParser:
        """Read files of rules as one grammar."""
        return cls(settings, read_grammar(paths, style=settings.style, start=settings.start, encoding=encoding))


def _priors(charts: ChartParser) -> np.ndarray:
    """The log of the expected count of each symbol in a tree, from the weights of the rules; small if it is 0."""
    closed = charts.parser.best_rules
    symbols = {symbol: number for number, symbol in enumerate(closed.binary.symbols)}
    mass = np.zeros(len(symbols))
    mass[closed.binary.start] = 1.0
    for _ in range(50):
        new = np.zeros_like(mass)
        new[closed.binary.start] = 1.0
        pairs = closed.binary.pairs
        weights = np.exp(pairs.log_weight)
        np.add.at(new, pairs.first, mass[pairs.left] * weights)
        np.add.at(new, pairs.second, mass[pairs.left] * weights)
        for unit in closed.binary.units:
            new[unit.below] += mass[unit.left] * math.exp(unit.log_weight)
        mass = new
    return np.log(np.maximum(mass, 1e-12))


# --- models of a run --------------------------------------------------------------------------------------------------


def build(config: ParseConfig, bank: Treebank) -> CountedParser:
    """The parser for a config."""
    if isinstance(config.model, PCFGParserConfig):
        return PcfgParser.count(config.model, bank.train)
    assert isinstance(config.model, GrammarParserConfig)
    return WrittenParser.read(config.model, [Path(path) for path in config.data.train], config.data.encoding)


def load(config: ParseConfig, folder: Path) -> CountedParser:
    """Load a parser from a model folder."""
    if isinstance(config.model, PCFGParserConfig):
        return PcfgParser.load(config.model, folder)
    assert isinstance(config.model, GrammarParserConfig)
    settings = config.model.model_copy(update={"style": "nltk", "start": None})
    return WrittenParser.read(settings, [folder / GRAMMAR])


def fit(config: ParseConfig, bank: Treebank, run: RunFolder, randomness: Randomness, reporter: Reporter) -> TrainResult:
    """Build a parser, score it on dev and test, and store it in the run.

    Without a dev file, the rules of a treebank are counted again with the part used as dev set.
    """
    fitting = FitReporter(run, reporter, bank.lines)
    parser = build(config, bank)
    rules = parser.charts.parser.grammar.rules
    fitting.note(f"{len(rules):,} rules, {len(parser.charts.parser.grammar.nonterminals):,} symbols")
    scores = _scores(parser, bank.dev, randomness) if bank.dev else {}
    if isinstance(config.model, PCFGParserConfig) and config.data.dev is None:
        parser = PcfgParser.count(config.model, [*bank.train, *bank.dev])
        fitting.note("counted again with the dev trees, which the scores on dev do not include")
    test = _scores(parser, bank.test, randomness) if bank.test else {}

    def save(folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
        build_tokenizer(config.tokenizer).save(folder / TOKENIZER)
        parser.save(folder)

    tokens = sum(len(tree.words()) for tree in bank.train)
    return fitting.keep(FitResult(scores, METRICS[config.model.kind][0], save, tokens, test), WHAT_NEXT)


def _scores(parser: CountedParser, trees: Sequence[Tree], randomness: Randomness) -> dict[str, float]:
    rng = randomness.numpy("parse")
    given = [parser.parsed(tree.words(), PredictOptions(), (), rng).tree for tree in trees]
    try:
        return compute_scores(trees, given)
    except DataError as error:
        raise DataError(f"The trees cannot be scored: {error}") from None
