"""Chart parsing with a grammar: best, k best, samples, expected brackets, and given brackets.

Maps the symbols and derivations of :mod:`catena.grammar` to labels and trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from jaxtyping import Float

from catena.data.examples import Tree
from catena.errors import DataError, LimitError
from catena.grammar.binary import Leaf
from catena.grammar.cfg import Grammar, Nonterminal
from catena.grammar.chart import Chart
from catena.grammar.closure import NEVER
from catena.grammar.compiled_chart import Bars, Beam, best_parse, expectations, fill_quickly, sampled_parse
from catena.grammar.derivation import Derivation
from catena.grammar.epsilon_removal import EpsilonClosure
from catena.grammar.forest import Forest
from catena.grammar.parse import CFGParser
from catena.grammar.ranking import rank_parses
from catena.tasks.parse.constituency.trees import (
    UNKNOWN_TAG,
    BracketConstraint,
    crossing_spans,
    phrases_to_tree,
    recall_phrases,
)
from catena.tasks.parse.predict import ParsedTree

_Words = tuple[str, ...]
_Given = tuple[BracketConstraint, ...]


@dataclass(frozen=True, eq=False)
class ChartExpectations:
    """Expected counts of labels over spans, and probabilities of tags.

    Args:
        counts: ``counts[i, j, q]`` is the expected count of label ``q`` over the words from ``i`` up to ``j``.
        tags: the probability of each tag, for each word.
    """

    counts: Float[np.ndarray, "t u q"]
    tags: tuple[dict[str, float], ...]


class ChartParser:
    """Parses sentences with one grammar.

    Args:
        grammar: any grammar.
        labels: the labels of each symbol; empty for a step inside a rule.
        restore: converts a derivation to a tree.
        unknown: the words to try for a word that the grammar does not have.
        beam: prunes charts; exact if not given.
    """

    def __init__(
        self,
        grammar: Grammar,
        labels: Mapping[Nonterminal, tuple[str, ...]],
        restore: Callable[[Derivation], Tree],
        unknown: Callable[[str], Sequence[str]] | None = None,
        beam: Beam | None = None,
    ) -> None:
        self.parser, self.restore, self.beam = CFGParser(grammar, unknown), restore, beam
        self.by_symbol = labels

    # --- trees --------------------------------------------------------------------------------------------------------

    def best(self, words: _Words, given: _Given = ()) -> Derivation | None:
        """The best parse; None if there is none."""
        return best_parse(self._chart(self.parser.best_rules, words, given), words)

    def k_best(self, words: _Words, k: int, given: _Given = ()) -> list[Derivation]:
        """The best parses, best first."""
        if k == 1:
            best = self.best(words, given)
            return [] if best is None else [best]
        forest = Forest(self._chart(self.parser.best_rules, words, given), [(word,) for word in words])
        found = (parts[0] for parts in islice(rank_parses(forest), k))
        return [parse for parse in found if isinstance(parse, Derivation)]

    def samples(self, words: _Words, n: int, rng: np.random.Generator, given: _Given = ()) -> list[Derivation]:
        """Parses sampled from their distribution."""
        chart = self._chart(self.parser.summed_rules, words, given)
        samples = (sampled_parse(chart, words, rng) for _ in range(n if chart.total > NEVER else 0))
        return [parse for parse in samples if parse is not None]

    def log_total(self, words: _Words, given: _Given = ()) -> float:
        """The log of the total weight of all parses."""
        return self._chart(self.parser.summed_rules, words, given).total

    def trees(self, parses: Sequence[Derivation], log_total: float | None, meanings: bool = False) -> list[ParsedTree]:
        """Parses as trees, with their log-probabilities if the total weight is given."""
        made = []
        for parse in parses:
            log_prob = None if log_total is None else min(0.0, parse.log_weight - log_total)
            made.append(ParsedTree(self.restore(parse), log_prob, _meaning(parse) if meanings else None))
        return made

    def tags_without_context(self, words: _Words) -> list[str]:
        """The tag with the largest weight for each word."""
        closed, tags = self.parser.best_rules, []
        for word in words:
            best = max(self.parser.leaves(closed, word), key=lambda leaf: leaf.log_weight, default=None)
            labels = self.by_symbol.get(closed.binary.symbols[best.left], ()) if best is not None else ()
            tags.append(labels[-1] if labels else UNKNOWN_TAG)
        return tags

    # --- expectations -------------------------------------------------------------------------------------------------

    def expected(self, words: _Words, given: _Given = ()) -> ChartExpectations | None:
        """Expected counts over all parses; None if there is no parse."""
        closed = self.parser.summed_rules
        found = expectations(closed, self._matches(closed, words), self.beam, self._bars(closed, words, given))
        if found is None:
            return None
        symbols, labels = self._labeled
        columns = found.chart.column[symbols]
        kept = columns < found.counts.shape[-1] - 1
        columns, labels = columns[kept], labels[kept]
        t = len(words)
        counts = np.zeros((t, t + 1, len(self.labels)))
        if len(columns):
            starts = np.flatnonzero(np.concatenate(([True], labels[1:] != labels[:-1])))
            counts[..., labels[starts]] = np.add.reduceat(found.counts[..., columns], starts, axis=-1)
        tags: list[dict[str, float]] = []
        for i, symbols_here in enumerate(found.tags):
            here: dict[str, float] = {}
            for symbol, p in symbols_here.items():
                for label in self.by_symbol.get(closed.binary.symbols[symbol], ())[-1:]:
                    here[label] = here.get(label, 0.0) + p
                    counts[i, i + 1, self._number[label]] -= p
            tags.append(here)
        return ChartExpectations(counts, tuple(tags))

    def max_recall_tree(self, words: _Words, expected: ChartExpectations, price: float, top: str) -> Tree:
        """The tree with the largest expected number of correct brackets."""
        tags = [max(here, key=here.__getitem__) if here else top for here in expected.tags]
        return phrases_to_tree(words, tags, recall_phrases(expected.counts, self.labels, price, self._above), top)

    # --- cached tables ------------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of all labels."""
        return tuple(sorted({label for labels in self.by_symbol.values() for label in labels}))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def _labeled(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a symbol and one of its labels, sorted by label."""
        symbols = self.parser.summed_rules.binary.symbols
        pairs = [(self._number[q], a) for a, symbol in enumerate(symbols) for q in self.by_symbol.get(symbol, ())]
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return table[:, 1], table[:, 0]

    @cached_property
    def _above(self) -> dict[tuple[int, int], float]:
        """The weight that the rules give to one label directly above another."""
        found: dict[tuple[int, int], float] = {}
        for rule in self.parser.grammar.rules:
            if len(rule.right) == 1 and isinstance(rule.right[0], Nonterminal):
                for p in self.by_symbol.get(rule.left, ())[-1:]:
                    for q in self.by_symbol.get(rule.right[0], ())[:1]:
                        key = (self._number[p], self._number[q])
                        found[key] = found.get(key, 0.0) + rule.weight
        return found

    # --- a sentence ---------------------------------------------------------------------------------------------------

    def _chart(self, closed: EpsilonClosure, words: _Words, given: _Given) -> Chart:
        return fill_quickly(closed, self._matches(closed, words), self.beam, self._bars(closed, words, given))

    def _matches(self, closed: EpsilonClosure, words: _Words) -> list[tuple[Leaf, ...]]:
        return [self.parser.leaves(closed, word) for word in words]

    def _bars(self, closed: EpsilonClosure, words: _Words, given: _Given) -> Bars:
        if not given:
            return {}
        symbols = closed.binary.symbols
        nothing = np.zeros(len(symbols), bool)
        real = np.array([bool(self.by_symbol.get(symbol)) for symbol in symbols])
        bars = dict.fromkeys(crossing_spans(given, len(words)), nothing)
        for first, end, label, wanted in given:
            allowed = real if wanted else ~real
            if wanted and label is not None:
                allowed = np.array([self.by_symbol.get(symbol, ())[-1:] == (label,) for symbol in symbols])
            if end > first + 1 or (wanted and label is not None):
                bars[first, end] = bars.get((first, end), ~nothing) & allowed
        return bars


def _meaning(parse: Derivation) -> str | None:
    """The logical form of a parse; None if one of its rules has no meaning, or if evaluation does not end."""
    try:
        return str(parse.logical_form())
    except (DataError, LimitError):
        return None
