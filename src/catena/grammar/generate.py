"""Random sentences from a grammar: each symbol is rewritten by a rule sampled in proportion to its weight.

If the grammar is probabilistic, a parse is sampled with its probability. Some grammars have infinite derivations, even
with positive probability, so depth and length are limited. The caller chooses whether exceeding a limit is an error or
the sample is rejected, since rejection changes the probabilities.
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
    """A sampler of parses from a grammar.

    Args:
        grammar: any grammar; the weights of the rules of each symbol are normalized.
        seed: equal seeds give equal samples.
        max_depth: largest depth of the tree, in rules.
        max_words: largest length of the sentence.
        beyond: ``error`` raises :class:`LimitError` if a sample exceeds a limit; ``retry`` samples again, so that the
            samples come from the distribution conditioned on the limits.
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
                f"max_depth must be at least 1 and max_words at least 0, got {max_depth} and {max_words}. Use larger "
                "values."
            )
        check_choice("beyond", beyond, ("error", "retry"))
        self.grammar = grammar
        self.max_depth, self.max_words, self.beyond = max_depth, max_words, beyond
        self._random = Randomness(seed).numpy("grammar/generate")
        self._choices: dict[Nonterminal, tuple[tuple[Rule, ...], np.ndarray]] = {}

    def draw(self) -> Derivation:
        """Return one random parse; ``draw().words()`` is its sentence."""
        for _ in range(_TRIES if self.beyond == "retry" else 1):
            try:
                return build_derivation(self._rules())
            except LimitError:
                if self.beyond == "error":
                    raise
        raise LimitError(
            f"{_TRIES:,} samples in a row exceeded max_depth={self.max_depth:,} or max_words={self.max_words:,}. "
            f"Raise the limits, or lower the weights of recursive rules."
        )

    def draws(self, n: int) -> list[Derivation]:
        """Return n independent random parses."""
        return [self.draw() for _ in range(n)]

    def _rules(self) -> Iterator[Rule]:
        """Yield the rules of a random leftmost derivation."""
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
                raise DataError(f"The nonterminal {symbol.name!r} has no rule of positive weight. Give it one.")
            self._choices[symbol] = rules, sums
        rules, sums = self._choices[symbol]
        return rules[int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))]

    def _too_large(self, limit: str) -> LimitError:
        return LimitError(
            f"A sample exceeded {limit}. Raise the limit, or use beyond='retry' to sample again, which conditions the "
            "distribution on the limits."
        )
