"""Parsers that are counted or written, not trained: grammars of treebanks, and handwritten grammars."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from catena.checkpoint import Checkpoint, read_stored
from catena.data.examples import Tree
from catena.data.readers.brackets import unescape
from catena.errors import DivergentSumError, LimitError
from catena.grammar.cfg import Grammar, Nonterminal
from catena.grammar.compiled_chart import Beam
from catena.grammar.derivation import Derivation
from catena.grammar.files import read_grammar, write_grammar
from catena.grammar.induction import ROOT, Induction, induce, restore_tree
from catena.grammar.word_classes import word_classes
from catena.registry import nearest
from catena.tasks.base import DataParts, Origin
from catena.tasks.config import model_section
from catena.tasks.fitted import FitReporter, FittedTask
from catena.tasks.parse.config import ConstrainedParseOptions, ParseConfig
from catena.tasks.parse.constituency.config import GrammarParserConfig, PCFGParserConfig
from catena.tasks.parse.constituency.grammar.charts import ChartExpectations, ChartParser
from catena.tasks.parse.constituency.task import ConstituencyTask, describe_trees, reason_to_drop
from catena.tasks.parse.constituency.trees import probable_brackets
from catena.tasks.parse.data import TreeExample
from catena.tasks.parse.predict import ConstituencyPrediction, ParsedTree
from catena.tasks.parse.task import describe_sizes
from catena.tasks.sources import Sources

GRAMMAR, SYMBOLS = "grammar.cfg", "symbols.json"

_Fitted = FittedTask[ParseConfig, TreeExample, ConstituencyPrediction, ConstrainedParseOptions]


class GrammarTask(_Fitted, ConstituencyTask[ConstrainedParseOptions]):
    """A grammar that parses one sentence at a time.

    Args:
        config: the config.
        charts: the parser with the grammar.
    """

    options_class = ConstrainedParseOptions
    origin_text: ClassVar[str]
    """Where the grammar comes from, in words."""

    def __init__(self, config: ParseConfig, charts: ChartParser) -> None:
        self.config, self.charts = config, charts

    @property
    def settings(self) -> PCFGParserConfig | GrammarParserConfig:
        """The config of the model."""
        assert isinstance(self.config.model, PCFGParserConfig | GrammarParserConfig)
        return self.config.model

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        return self.charts.parser.grammar

    # --- prediction ---------------------------------------------------------------------------------------------------

    def parse(self, examples: Sequence[TreeExample], options: ConstrainedParseOptions) -> list[ConstituencyPrediction]:
        generator = np.random.default_rng(options.seed)
        return [self._predict(example, options, generator) for example in examples]

    def _predict(
        self, example: TreeExample, options: ConstrainedParseOptions, generator: np.random.Generator
    ) -> ConstituencyPrediction:
        words, longest = example.words, self.settings.longest
        if len(words) > longest:
            note = f"the sentence has {len(words)} words, more than model.longest = {longest}, and was not parsed"
            return self._without_parse(example, options, note)
        try:
            prediction = self._parse_chart(example, options, generator)
        except LimitError as error:
            return self._without_parse(example, options, str(error))
        return prediction or self._without_parse(example, options, self._why_not(example))

    def _parse_chart(
        self, example: TreeExample, options: ConstrainedParseOptions, generator: np.random.Generator
    ) -> ConstituencyPrediction | None:
        charts, words, given = self.charts, example.words, example.constraint or ()
        scored = options.scores or options.several  # trees of the grammar, with probabilities
        by_recall = self.settings.by_recall and not scored
        expected = charts.expected(words, given) if by_recall or options.confidence else None
        if by_recall:
            trees = [] if expected is None else [ParsedTree(self._max_recall_tree(words, expected))]
        else:
            total = self._log_total(example) if scored else None
            if options.samples:
                parses = charts.samples(words, options.samples, generator, given)
            else:
                parses = charts.k_best(words, options.n_best, given)
            trees = charts.trees(parses, total, self._has_meanings)
        if not trees:
            return None
        n_parses = None if given else self._count_parses(words)
        prediction = replace(ConstituencyPrediction.from_trees(example, trees, options), n_parses=n_parses)
        if expected is None or not options.confidence:
            return prediction
        return replace(prediction, brackets=probable_brackets(expected.counts, charts.labels), tags=expected.tags)

    @cached_property
    def _has_meanings(self) -> bool:
        return any(rule.meaning is not None for rule in self.grammar.rules)

    def _log_total(self, example: TreeExample) -> float | None:
        try:
            return self.charts.log_total(example.words, example.constraint or ())
        except DivergentSumError:  # parses are ranked, but have no probabilities
            return None

    def _max_recall_tree(self, words: tuple[str, ...], expected: ChartExpectations) -> Tree:
        return self.charts.max_recall_tree(words, expected, self.settings.price, self.grammar.start.name)

    def _count_parses(self, words: tuple[str, ...]) -> int | None:
        return None

    # --- sentences without a parse ------------------------------------------------------------------------------------

    n_parses_if_none: ClassVar[int | None] = None

    def _without_parse(
        self, example: TreeExample, options: ConstrainedParseOptions, note: str
    ) -> ConstituencyPrediction:
        tags = self.charts.tags_without_context(example.words)
        prediction = ConstituencyPrediction.without_parse(example, tags, options, note)
        return replace(prediction, n_parses=self.n_parses_if_none)

    def _why_not(self, example: TreeExample) -> str:
        if example.constraint:
            return "no parse has the given brackets"
        parser = self.charts.parser
        unknown = [word for word in dict.fromkeys(example.words) if not parser.leaves(parser.best_rules, word)]
        if not unknown:
            return "the grammar has every word, but no parse of them in this order"
        near = nearest(unknown[0], parser.grammar.terminals, most=1)
        listed = ", ".join(map(repr, unknown[:5])) + (" …" if len(unknown) > 5 else "")
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"the grammar does not have the word{'s' * (len(unknown) > 1)} {listed}{hint}"

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        grammar = self.grammar
        phrases = sorted((rule for rule in grammar.rules if len(rule.right) > 1), key=lambda rule: -rule.weight)
        return [
            f"a grammar {self.origin_text}: {self.describe_size()}, {len(grammar.terminals):,} words, start "
            f"{grammar.start.name}",
            f"labels: {', '.join(self.charts.labels)}",
            f"the {min(top, len(phrases))} rules with two or more symbols and the largest weights:",
            *(f"  {rule.weight:.4g}  {rule}" for rule in phrases[:top]),
        ]

    def describe_size(self) -> str:
        """The numbers of rules and symbols."""
        return f"{len(self.grammar.rules):,} rules, {len(self.grammar.nonterminals):,} symbols"

    def save(self, folder: Path) -> None:
        write_grammar(self.grammar, folder / GRAMMAR)

    def n_tokens(self, parts: DataParts[TreeExample]) -> int:
        return sum(len(example.words) for example in parts.train)


class PCFGTask(GrammarTask):
    """A parser with a grammar counted from trees.

    Args:
        config: the config.
        grammar: the rules.
        labels: the labels of each symbol.
        rooted: whether the trees of the treebank have the label ROOT at the top.
    """

    origin_text = "counted from trees"

    def __init__(
        self, config: ParseConfig, grammar: Grammar, labels: dict[Nonterminal, tuple[str, ...]], rooted: bool
    ) -> None:
        settings = model_section(config, PCFGParserConfig)
        super().__init__(config, ChartParser(grammar, labels, self._restore, word_classes if settings.rare else None))
        self.labels, self.rooted = labels, rooted
        if settings.beam is not None:
            self.charts.beam = Beam(settings.beam, _priors(self.charts))

    @classmethod
    def gather(
        cls, config: ParseConfig, sources: Sources[TreeExample], origin: Origin
    ) -> tuple[DataParts[TreeExample], list[str]]:
        lines, parts = sources.describe(), sources.split()
        train = sources.keep_usable(parts.train, lambda example: reason_to_drop(config, example) or example)
        parts = DataParts(train, parts.dev, parts.test)
        return parts, [*lines, sources.counts(parts), *describe_trees(parts)]

    @classmethod
    def fit(cls, config: ParseConfig, parts: DataParts[TreeExample], origin: Origin, progress: FitReporter) -> Self:
        task = cls.count(config, [example.tree for example in parts.train])
        progress.note(task.describe_size())
        return task

    def refit(self, parts: DataParts[TreeExample], progress: FitReporter) -> Self:
        """Count the rules again with the trees of dev, if they were split off train."""
        if self.config.data.dev is not None:
            return self
        progress.note("counted again with the dev trees, which the scores on dev do not include")
        return self.count(self.config, [example.tree for example in (*parts.train, *parts.dev)])

    @classmethod
    def count(cls, config: ParseConfig, trees: Sequence[Tree]) -> Self:
        """Count the rules of trees."""
        settings = model_section(config, PCFGParserConfig)
        options = Induction(
            strip_functions=False,
            vertical=settings.vertical,
            horizontal=settings.horizontal,
            rare=settings.rare,
            smoothing=settings.smoothing,
        )
        found = induce(trees, options)
        rooted = sum(tree.label == ROOT for tree in trees) > len(trees) / 2
        return cls(config, found.grammar, dict(found.labels), rooted)

    def _restore(self, parse: Derivation) -> Tree:
        return self._without_root(restore_tree(parse, self.labels))

    def _without_root(self, tree: Tree) -> Tree:
        bare = not self.rooted and tree.label == ROOT and len(tree.children) == 1
        return tree.children[0] if bare and tree.children[0].word is None else tree

    def _max_recall_tree(self, words: tuple[str, ...], expected: ChartExpectations) -> Tree:
        return self._without_root(super()._max_recall_tree(words, expected))

    def save(self, folder: Path) -> None:
        super().save(folder)
        named = {symbol.name: list(labels) for symbol, labels in self.labels.items()}
        text = json.dumps({"rooted": self.rooted, "labels": named}, ensure_ascii=False, indent=0)
        (folder / SYMBOLS).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, config: ParseConfig, checkpoint: Checkpoint, device: str) -> Self:
        folder = checkpoint.folder
        grammar = read_grammar(folder / GRAMMAR, style="nltk")
        data = read_stored(folder / SYMBOLS, {"labels": dict[str, list[str]], "rooted": bool})
        labels = {Nonterminal(name): tuple(names) for name, names in data["labels"].items()}
        return cls(config, grammar, labels, data["rooted"])


def _priors(charts: ChartParser) -> np.ndarray:
    """The log of the expected count of each symbol in a tree, from the weights of the rules; small if it is 0."""
    closed = charts.parser.best_rules
    mass = np.zeros(len(closed.binary.symbols))
    mass[closed.binary.start] = 1.0
    pairs = closed.binary.pairs
    weights = np.exp(pairs.log_weight)
    for _ in range(50):
        new = np.zeros_like(mass)
        new[closed.binary.start] = 1.0
        np.add.at(new, pairs.first, mass[pairs.left] * weights)
        np.add.at(new, pairs.second, mass[pairs.left] * weights)
        for unit in closed.binary.units:
            new[unit.below] += mass[unit.left] * math.exp(unit.log_weight)
        mass = new
    return np.log(np.maximum(mass, 1e-12))


class WrittenGrammarTask(GrammarTask):
    """A parser with a handwritten grammar, which is read from the training files."""

    origin_text = "written by hand"
    n_parses_if_none = 0

    def __init__(self, config: ParseConfig, grammar: Grammar) -> None:
        settings = model_section(config, GrammarParserConfig)
        self.lowercase, self.counts_parses = settings.lowercase, settings.count
        labels = {symbol: (symbol.name,) for symbol in grammar.nonterminals}
        super().__init__(config, ChartParser(grammar, labels, lambda parse: parse.tree(), self._other_words))

    @classmethod
    def describe_file(cls, config: ParseConfig, path: Path) -> str:
        is_rules = str(path) in config.data.train
        return f"{path.name} holds rules" if is_rules else super().describe_file(config, path)

    @classmethod
    def gather(
        cls, config: ParseConfig, sources: Sources[TreeExample], origin: Origin
    ) -> tuple[DataParts[TreeExample], list[str]]:
        """The trees of dev and test, if any; the training files hold rules."""
        parts = DataParts([], list(sources.read("dev")), list(sources.read("test")))
        counts = [sources.counts(parts)] if parts.dev or parts.test else []
        return parts, [*sources.describe(), *counts, *describe_sizes(parts)]

    @classmethod
    def fit(cls, config: ParseConfig, parts: DataParts[TreeExample], origin: Origin, progress: FitReporter) -> Self:
        paths, settings = [Path(path) for path in config.data.train], model_section(config, GrammarParserConfig)
        rules = read_grammar(paths, style=settings.style, start=settings.start, encoding=config.data.encoding)
        task = cls(config, rules)
        progress.note(task.describe_size())
        return task

    @classmethod
    def load(cls, config: ParseConfig, checkpoint: Checkpoint, device: str) -> Self:
        return cls(config, read_grammar(checkpoint.folder / GRAMMAR, style="nltk"))

    def _other_words(self, word: str) -> tuple[str, ...]:
        plain = unescape(word)
        return (plain, *((word.lower(), plain.lower()) if self.lowercase else ()))

    def _count_parses(self, words: tuple[str, ...]) -> int | None:
        try:
            return self.charts.parser.count(words) if self.counts_parses else None
        except DivergentSumError:
            return None
