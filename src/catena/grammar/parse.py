"""Parsing with any context-free grammar, including empty, unit and long rules.

>>> from catena.grammar.files import parse_grammar
>>> parser = CFGParser(parse_grammar("S -> 'a' S [0.25] | 'b' [0.75]"))
>>> parser.recognize("a a b"), parser.recognize("b a")
(True, False)
>>> str(parser.parse("a b"))
'(S a (S b))'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from catena.errors import DataError, ImpossibleError
from catena.grammar.binary import Leaf, binary
from catena.grammar.cfg import Grammar
from catena.grammar.chart import Chart, fill
from catena.grammar.closure import BEST, NEVER, SUM
from catena.grammar.compiled_chart import fill_quickly
from catena.grammar.derivation import Derivation
from catena.grammar.epsilon_removal import EpsilonClosure, close
from catena.grammar.forest import Forest
from catena.grammar.ranking import rank_parses
from catena.grammar.semantics import distinct
from catena.grammar.terms import Term
from catena.registry import nearest

_LARGE = 20_000
"""Words times binary rules from which compiled loops fill the chart."""

SentenceWords = str | Sequence[str]
"""A sentence: its words, or a text with words separated by blanks."""


class CFGParser:
    """A parser for one grammar. Preprocessing is cached, so use the same parser for all sentences.

    Args:
        grammar: any grammar; weights need not be probabilities.
        unknown: returns, for a word that is not in the grammar, the words to try instead, in order.
    """

    def __init__(self, grammar: Grammar, unknown: Callable[[str], Sequence[str]] | None = None) -> None:
        self.grammar = grammar
        self._unknown = unknown

    def recognize(self, sentence: SentenceWords) -> bool:
        """Return whether the sentence has a parse."""
        return self._chart(self._possible, split_words(sentence)).total > NEVER

    def parse(self, sentence: SentenceWords) -> Derivation:
        """Return the best parse. Raise ImpossibleError with the reason if there is none."""
        words = split_words(sentence)
        best = next(self._ranked(words), None)
        if best is None:
            raise self.no_parse(words)
        return best

    def k_best(self, sentence: SentenceWords, k: int) -> list[Derivation]:
        """Return at most k parses, best first; an empty list if there is none."""
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}. Use k=1 for the best parse.")
        return list(islice(self.parses(sentence), k))

    def parses(self, sentence: SentenceWords) -> Iterator[Derivation]:
        """Yield all parses lazily, best first. There may be infinitely many."""
        return self._ranked(split_words(sentence))

    def count(self, sentence: SentenceWords) -> int:
        """Return the exact number of parses. Raise :class:`catena.errors.DivergentSumError` if it is infinite."""
        words = split_words(sentence)
        return Forest(self._chart(self._possible, words), [(word,) for word in words]).count()

    def log_total(self, sentence: SentenceWords) -> float:
        """Return the log of the total weight of all parses, in nats; -inf if there is none.

        This is the log-probability of the sentence if the grammar is probabilistic.
        """
        return self._chart(self.summed_rules, split_words(sentence)).total

    def log_probability(self, parse: Derivation) -> float:
        """Return the log-probability of a parse given its sentence."""
        return parse.log_weight - self.log_total(parse.words())

    def logical_forms(self, sentence: SentenceWords, k: int = 100) -> list[Term]:
        """Return the meanings of the k best parses, without alpha-equivalent duplicates."""
        return distinct(parse.logical_form() for parse in self.k_best(sentence, k))

    # --- cached preprocessing -------------------------------------------------------------------------------

    @cached_property
    def summed_rules(self) -> EpsilonClosure:
        """The rules with sums over chains."""
        return close(binary(self.grammar), SUM)

    @cached_property
    def best_rules(self) -> EpsilonClosure:
        """The rules with the best of all chains."""
        return close(binary(self.grammar), BEST)

    @cached_property
    def _possible(self) -> EpsilonClosure:
        """The rules with all weights 1, whose best weights are 1 if possible at all, so that no cycle diverges."""
        rules = tuple(replace(rule, weight=float(rule.weight > 0)) for rule in self.grammar.rules)
        return close(binary(Grammar(rules, self.grammar.start)), BEST)

    # --- a sentence -----------------------------------------------------------------------------------------

    def _ranked(self, words: tuple[str, ...]) -> Iterator[Derivation]:
        for (parse,) in rank_parses(Forest(self._chart(self.best_rules, words), [(word,) for word in words])):
            assert isinstance(parse, Derivation)
            yield parse

    def _chart(self, closed: EpsilonClosure, words: tuple[str, ...]) -> Chart:
        matches = [self.leaves(closed, word) for word in words]
        large = len(words) * len(closed.binary.pairs.left) > _LARGE
        return fill_quickly(closed, matches) if large else fill(closed, matches)

    def leaves(self, closed: EpsilonClosure, word: str) -> tuple[Leaf, ...]:
        """Return the rules that rewrite to a word, or to a replacement of it."""
        known = closed.binary.words
        if word not in known and self._unknown is not None:
            word = next((other for other in self._unknown(word) if other in known), word)
        return known.get(word, ())

    def no_parse(self, words: tuple[str, ...]) -> ImpossibleError:
        """Return the error with the reason why a sentence has no parse."""
        text = " ".join(words)
        shown = repr(text if len(text) <= 80 else text[:80] + "…")
        strange = [word for word in dict.fromkeys(words) if not self.leaves(self.best_rules, word)]
        if not strange:
            return ImpossibleError(
                f"{shown} has no parse, although the grammar has all its words. Call recognize() first, or add rules."
            )
        near = nearest(strange[0], self.grammar.terminals, most=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        listed = ", ".join(map(repr, strange[:5])) + (" …" if len(strange) > 5 else "")
        return ImpossibleError(
            f"{shown} has no parse: the grammar does not have the word{'s' * (len(strange) > 1)} {listed}{hint}. "
            "Add rules for them, or pass the argument unknown to the parser."
        )


def split_words(sentence: SentenceWords) -> tuple[str, ...]:
    """Return the words of a sentence; a text is split at blanks."""
    return tuple(sentence.split()) if isinstance(sentence, str) else tuple(sentence)
