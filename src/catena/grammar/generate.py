"""Random sentences: each symbol is rewritten by one of its rules, as likely as its weight among theirs.

A parse comes up with its probability, if the grammar is a probabilistic one. Some grammars have endless derivations,
even with probability above 0: depth and length are limited, and whether going beyond is an error or a draw to be
thrown away is for the caller to say, since throwing away changes the probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from catena.errors import DataError, LimitError
from catena.grammar.cfg import Grammar, Nonterminal, Rule, check_choice
from catena.grammar.derivation import Derivation, build_derivation
from catena.randomness import Randomness

_TRIES = 1000


class Generator:
    """Draws parses from a grammar.

    Args:
        grammar: weights are taken relative to those of the other rules of the same symbol.
        seed: the same seed gives the same draws.
        max_depth: of the tree, in rules.
        max_words: of the sentence.
        beyond: ``error`` raises :class:`LimitError` when a draw goes beyond a limit; ``retry`` draws again, so that the
            draws come from the distribution conditioned on staying within.
    """

    def __init__(
        self,
        grammar: Grammar,
        *,
        seed: int = 0,
        max_depth: int = 1000,
        max_words: int = 10_000,
        beyond: str = "error",
    ) -> None:
        if max_depth < 1 or max_words < 0:
            raise DataError(
                f"max_depth must be 1 or more and max_words 0 or more, but they are {max_depth} and {max_words}"
            )
        check_choice("beyond", beyond, ("error", "retry"))
        self.grammar = grammar
        self.max_depth, self.max_words, self.beyond = max_depth, max_words, beyond
        self._random = Randomness(seed).numpy("grammar/generate")
        self._choices: dict[Nonterminal, tuple[tuple[Rule, ...], np.ndarray]] = {}

    def draw(self) -> Derivation:
        """One parse, with its sentence: ``draw().words()``."""
        for _ in range(_TRIES if self.beyond == "retry" else 1):
            try:
                return build_derivation(self._rules())
            except LimitError:
                if self.beyond == "error":
                    raise
        raise LimitError(
            f"{_TRIES:,} draws in a row went beyond max_depth={self.max_depth:,} or max_words={self.max_words:,}: "
            f"allow "
            "more, or give the rules that lead back to themselves lower weights"
        )

    def draws(self, n: int) -> list[Derivation]:
        """Several parses, independent of each other."""
        return [self.draw() for _ in range(n)]

    def _rules(self) -> Iterator[Rule]:
        """The rules of a leftmost derivation."""
        waiting: list[tuple[Nonterminal, int]] = [(self.grammar.start, 1)]
        words = 0
        while waiting:
            symbol, depth = waiting.pop()
            if depth > self.max_depth:
                raise self._too_large(f"max_depth={self.max_depth:,}")
            rule = self._chosen(symbol)
            words += sum(isinstance(part, str) for part in rule.right)
            if words > self.max_words:
                raise self._too_large(f"max_words={self.max_words:,}")
            below = [part for part in rule.right if isinstance(part, Nonterminal)]
            waiting.extend((part, depth + 1) for part in reversed(below))
            yield rule

    def _chosen(self, symbol: Nonterminal) -> Rule:
        if symbol not in self._choices:
            rules = self.grammar.by_left.get(symbol, ())
            sums = np.cumsum([rule.weight for rule in rules])
            if not rules or sums[-1] == 0:
                raise DataError(f"the nonterminal {symbol.name!r} has no rule of weight above 0: give it one")
            self._choices[symbol] = rules, sums
        rules, sums = self._choices[symbol]
        return rules[int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))]

    def _too_large(self, limit: str) -> LimitError:
        return LimitError(
            f"a draw went beyond {limit}: allow more, or say beyond='retry' to draw again, which conditions the "
            "distribution on staying within"
        )
