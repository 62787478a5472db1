"""Parsing with a grammar as it stands: any rules, also empty ones, unit rules and long ones.

>>> from catena.grammar.files import parse_grammar
>>> parser = Parser(parse_grammar("S -> 'a' S [0.25] | 'b' [0.75]"))
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
from catena.grammar.derivation import Derivation
from catena.grammar.epsilon_removal import EpsilonClosure, close
from catena.grammar.forest import Forest
from catena.grammar.ranking import rank_parses
from catena.grammar.semantics import distinct
from catena.grammar.sparse import fill_quickly
from catena.grammar.terms import Term
from catena.registry import nearest

_LARGE = 20_000
"""Words times rules of two symbols from which on compiled loops fill the chart."""

SentenceWords = str | Sequence[str]
"""A sentence: its words, or a text whose words are separated by blanks."""


class CFGParser:
    """Answers for one grammar. What is prepared once is kept: ask the same parser for all sentences.

    Args:
        grammar: any grammar; weights need not be probabilities.
        unknown: gives for a word that the grammar does not have the words to try in its place, in this order.
    """

    def __init__(self, grammar: Grammar, unknown: Callable[[str], Sequence[str]] | None = None) -> None:
        self.grammar = grammar
        self._unknown = unknown

    def recognize(self, sentence: SentenceWords) -> bool:
        """Whether the sentence has any parse."""
        return self._chart(self._possible, split_words(sentence)).total > NEVER

    def parse(self, sentence: SentenceWords) -> Derivation:
        """The best parse; :class:`ImpossibleError`, which says why, where there is none."""
        words = split_words(sentence)
        best = next(self._ranked(words), None)
        if best is None:
            raise self.no_parse(words)
        return best

    def k_best(self, sentence: SentenceWords, k: int) -> list[Derivation]:
        """The best parses, at most k of them, the best first; none where there is none."""
        if k < 1:
            raise DataError(f"k must be 1 or more parses, but it is {k}")
        return list(islice(self.parses(sentence), k))

    def parses(self, sentence: SentenceWords) -> Iterator[Derivation]:
        """All parses, the best first, each found when it is asked for. There may be infinitely many."""
        return self._ranked(split_words(sentence))

    def count(self, sentence: SentenceWords) -> int:
        """The number of parses, exactly; :class:`catena.errors.DivergentSumError` where they are infinitely many."""
        words = split_words(sentence)
        return Forest(self._chart(self._possible, words), [(word,) for word in words]).count()

    def log_total(self, sentence: SentenceWords) -> float:
        """The log of the summed weight of all parses, in nats: the log-probability of the sentence, if the grammar is a
        probabilistic one; -inf where it has no parse.
        """
        return self._chart(self.summed_rules, split_words(sentence)).total

    def log_probability(self, parse: Derivation) -> float:
        """The log of a parse's share in the weight of all parses of its sentence."""
        return parse.log_weight - self.log_total(parse.words())

    def logical_forms(self, sentence: SentenceWords, k: int = 100) -> list[Term]:
        """What the k best parses mean, each form once, whatever its bound variables are called."""
        return distinct(parse.logical_form() for parse in self.k_best(sentence, k))

    # --- what is prepared once ------------------------------------------------------------------------------

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
        """With weights of 1, the best weight is 1 for all that is possible: circles have no weight above it."""
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
        """The rules that rewrite to a word, or to what stands for it."""
        known = closed.binary.words
        if word not in known and self._unknown is not None:
            word = next((other for other in self._unknown(word) if other in known), word)
        return known.get(word, ())

    def no_parse(self, words: tuple[str, ...]) -> ImpossibleError:
        """The error that says why a sentence which has no parse has none."""
        text = " ".join(words)
        shown = repr(text if len(text) <= 80 else text[:80] + "…")
        strange = [word for word in dict.fromkeys(words) if not self.leaves(self.best_rules, word)]
        if not strange:
            return ImpossibleError(
                f"{shown} has no parse in this grammar, though it has every word of it: recognize() asks beforehand"
            )
        near = nearest(strange[0], self.grammar.terminals, most=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        listed = ", ".join(map(repr, strange[:5])) + (" …" if len(strange) > 5 else "")
        return ImpossibleError(
            f"{shown} has no parse: the grammar does not have the word{'s' * (len(strange) > 1)} {listed}{hint}; "
            "give them rules, or give the parser a function unknown"
        )


def split_words(sentence: SentenceWords) -> tuple[str, ...]:
    """The words of a sentence; a text is split at blanks."""
    return tuple(sentence.split()) if isinstance(sentence, str) else tuple(sentence)
