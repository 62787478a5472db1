"""A grammar in Chomsky normal form as tensors, for batched inference with :class:`catena.structure.pcfg.PCFG`.

A symbol that rewrites both to words and to pairs becomes two: one over single words, one over longer phrases. Memory
is cubic in the number of symbols, so this is for small grammars; use :class:`catena.grammar.parse.CFGParser` for large
ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from catena.errors import DataError, LimitError
from catena.grammar.cfg import Grammar, Nonterminal, Rule
from catena.grammar.derivation import Derivation, build_derivation
from catena.grammar.normal_form import is_normal_form
from catena.grammar.parse import SentenceWords, split_words
from catena.numerics import NEG_INF
from catena.registry import did_you_mean
from catena.structure.pcfg import PCFG

MOST = 2**27
"""Largest number of entries of the rule tensor: 1 GiB of doubles."""


class DenseGrammar:
    """The tensors of a grammar.

    Args:
        grammar: a grammar in Chomsky normal form, as returned by :func:`catena.grammar.normal_form.to_normal_form`.
            An empty rule of the start symbol is ignored, since sentences have at least one word.
        dtype: type of the tensors.
    """

    def __init__(self, grammar: Grammar, dtype: torch.dtype = torch.float64) -> None:
        if not is_normal_form(grammar):
            raise DataError(
                "The grammar is not in Chomsky normal form. Convert it with to_normal_form(grammar).grammar."
            )
        rules = [rule for rule in grammar.rules if rule.weight > 0 and rule.right]
        pairs = [rule for rule in rules if len(rule.right) == 2]
        leaves = [rule for rule in rules if len(rule.right) == 1]
        if not leaves:
            raise DataError("The grammar derives no sentence of one or more words. Add a rule with a word.")
        self.grammar = grammar
        self.nonterminals = tuple(dict.fromkeys(rule.left for rule in pairs)) or (grammar.start,)
        self.preterminals = tuple(dict.fromkeys(rule.left for rule in leaves))
        n, s = len(self.nonterminals), len(self.nonterminals) + len(self.preterminals)
        if n * s * s > MOST:
            raise LimitError(
                f"The rule tensor must have at most {MOST:,} entries, got {n} x {s} x {s}. Use "
                "catena.grammar.parse.CFGParser, whose rules are sparse."
            )
        self._places: dict[Nonterminal, list[int]] = {}
        for place, symbol in enumerate((*self.nonterminals, *self.preterminals)):
            self._places.setdefault(symbol, []).append(place)
        self.rules = torch.full((n, s, s), NEG_INF, dtype=dtype)
        for rule in pairs:
            self._fill(rule)
        self.roots = torch.full((s,), NEG_INF, dtype=dtype)
        self.roots[self._places.get(grammar.start, [])] = 0.0
        self._words: dict[str, Tensor] = {}
        for rule in leaves:
            row = self._words.setdefault(str(rule.right[0]), torch.full((s - n,), NEG_INF, dtype=dtype))
            row[self._places[rule.left][-1] - n] = math.log(rule.weight)

    def structure(self, sentences: Sequence[SentenceWords]) -> PCFG:
        """Return the distribution over the parses of each sentence.

        Symbols are numbered nonterminals first, then preterminals.
        """
        split = [split_words(sentence) for sentence in sentences]
        if not split or not all(split):
            raise DataError("A sentence is empty, or there are no sentences. Pass at least one sentence with a word.")
        t = max(map(len, split))
        words = self.roots.new_zeros(len(split), t, len(self.preterminals))
        for at, sentence in enumerate(split):
            for i, word in enumerate(sentence):
                if word not in self._words:
                    near = did_you_mean(word, self.grammar.terminals)
                    raise DataError(f"The grammar does not have the word {word!r} of sentence {at + 1}: {near}")
                words[at, i] = self._words[word]
        return PCFG(words, self.rules, self.roots, lengths=torch.tensor([len(sentence) for sentence in split]))

    def derivation(self, spans: Int[Tensor, "m 3"], sentence: SentenceWords) -> Derivation:
        """Return the parse that rows ``(first, last, symbol)`` of the structure encode, in preorder."""
        words, symbols = split_words(sentence), (*self.nonterminals, *self.preterminals)
        known = {(rule.left, rule.right): rule for rule in self.grammar.rules}
        rows = [row for row in spans.tolist() if row[0] >= 0]
        ends = {(first, last): symbols[symbol] for first, last, symbol in rows}

        def rule(first: int, last: int, symbol: int) -> Rule:
            if first == last:
                return known[symbols[symbol], (words[first],)]
            split = next(k for k in range(first, last) if (first, k) in ends and (k + 1, last) in ends)
            return known[symbols[symbol], (ends[first, split], ends[split + 1, last])]

        return build_derivation(rule(*row) for row in rows)

    def _fill(self, rule: Rule) -> None:
        first, second = (self._places.get(symbol, []) for symbol in rule.right if isinstance(symbol, Nonterminal))
        for b in first:
            for c in second:
                self.rules[self._places[rule.left][0], b, c] = math.log(rule.weight)
