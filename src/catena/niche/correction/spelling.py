r"""Correction of misspelled words: a noisy channel whose candidates come from an index of known words.

.. math::  \hat x = \arg\max_x\ p(x)^\lambda \prod_i w(o_i \mid x_i)

p is a language model of the whole text, w an :class:`~catena.niche.correction.error_model.ErrorModel`. Mays, Damerau &
Mercer (1991) correct words that are known, too; here they are changed only if the context is strongly against them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from catena.data.vocabulary import Vocabulary
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from catena.niche.correction.candidates import ObservedToken, WordCandidates
from catena.niche.correction.lattice import LatticeEdge, LatticeSearch
from catena.search.stepper import Stepper

_ORDER = 6
"""The order of the n-gram model of the letters of unknown words."""


class WordChange(NamedTuple):
    """A change of the tokens ``start … end - 1`` of a text.

    Args:
        start: the first token.
        end: the token after the last.
        text: what they become.
        alternatives: other readings with their probabilities given the rest of the text, most probable first; the
            tokens as they are among them.
    """

    start: int
    end: int
    text: str
    alternatives: tuple[tuple[str, float], ...] = ()


class CorrectedTokens(NamedTuple):
    """The changes of a text, and the probability of the corrected text among all that were compared."""

    changes: tuple[WordChange, ...]
    probability: float


class SpellingCorrector:
    """Finds the most probable words behind observed ones.

    Args:
        stepper: the language model.
        candidates: what each word may have been meant to be.
        context: the number of last ids that the model's probabilities depend on; None if on all.
    """

    def __init__(self, stepper: Stepper[Any], candidates: WordCandidates, context: int | None = None) -> None:
        self.stepper, self.candidates = stepper, candidates
        config = candidates.config
        self._search = LatticeSearch(stepper, config.beam_size, config.lm_weight, context)

    def correct(self, tokens: Sequence[ObservedToken], n_alternatives: int = 0) -> CorrectedTokens:
        """Correct the tokens of one text.

        Args:
            tokens: the text.
            n_alternatives: the largest number of other readings that are listed with each change.
        """
        edges = self.candidates.edges(tokens)
        best = self._search.search(edges)[0]
        changes = []
        for edge in best.edges:
            if edge.text != observed_text(tokens[edge.start : edge.end]):
                others = self._alternatives(edge, best.edges, edges)[:n_alternatives] if n_alternatives else ()
                changes.append(WordChange(edge.start, edge.end, edge.text, others))
        return CorrectedTokens(tuple(changes), best.probability)

    def _alternatives(
        self, change: LatticeEdge, best: Sequence[LatticeEdge], edges: Sequence[LatticeEdge]
    ) -> tuple[tuple[str, float], ...]:
        """Other readings of the tokens of a change, given the rest of the best path."""
        within = [edge for edge in edges if change.start <= edge.start and edge.end <= change.end]
        rest = [edge for edge in best if edge.end <= change.start or edge.start >= change.end]
        search = LatticeSearch(self.stepper, len(within), self._search.lm_weight, margin=math.inf)
        others = []
        for path in search.search([*rest, *within]):
            text = " ".join(edge.text for edge in path.edges if change.start <= edge.start < change.end)
            if text != change.text:
                others.append((text, path.probability))
        return tuple(others)


def observed_text(tokens: Sequence[ObservedToken]) -> str:
    """The text of adjacent tokens, without what is before the first."""
    return tokens[0].text + "".join(token.before + token.text for token in tokens[1:])


def build_spelling_model(words: Iterable[str]) -> Callable[[str], float]:
    """The log-probability of the letters of a word, from the letters of known words."""
    listed = list(words)
    letters = Vocabulary(sorted(set("".join(listed))), specials=SPECIALS)
    model = NgramModel.train_ids([letters.ids(word) for word in listed], letters, _ORDER, "witten-bell")

    @lru_cache(1 << 16)
    def log_prob(word: str) -> float:
        ids = [*letters.ids(word), model.end]
        return float(model.token_log_probs(torch.tensor([ids]), torch.tensor([len(ids)])).double().sum())

    return log_prob
