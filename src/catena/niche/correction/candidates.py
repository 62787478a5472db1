"""What each word of a text may have been meant to be, as edges of a lattice.

A word is a run of letters, possibly with hyphens and apostrophes inside. Other tokens (numbers, punctuation, addresses)
are never changed, nor are single letters. A word keeps its capitalization: *Teh* becomes *The*, *TEH* becomes *THE*. A
correction may also split a word that is not known (*alot*) or join two words (*some where*).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import regex

from catena.niche.correction.config import SpellingConfig
from catena.niche.correction.error_model import ErrorModel
from catena.niche.correction.index import DeleteIndex
from catena.niche.correction.lattice import LatticeEdge

LETTERS = r"[\p{L}\p{M}]+(?:['’_-][\p{L}\p{M}]+)*"
"""The pattern of a word: letters, possibly with hyphens and apostrophes inside."""
_WORD = regex.compile(LETTERS)
_MAX_LENGTH = 40
"""The largest number of characters of a word that is corrected or that replaces another."""
_SHORT = 3
"""The largest number of characters of words in which more than one edit is not considered."""
_OTHER_CASE = math.log(0.005)
"""The log-weight of a difference in capitals, as of *albet* for *Albert*."""
_BLANK = math.log(0.0005)
"""The log-weight of a missing or an extra blank."""
_NAME = 30.0  # on WikiText-2's valid part: 10 changes more new names, 100 mends fewer misspelled ones
"""How much more often a new word with a capital letter within a sentence is correct, relative to others."""
_KNOWN_IN_CAPITALS = 10.0
"""How much more often a new word is correct if it is known with capitals, as from a title."""
_LEAST = 1e-300
"""What a factor of 0 counts as where the text must have some probability."""
_CACHE_SIZE = 1 << 16


class ObservedToken(NamedTuple):
    """A token of the observed text.

    Args:
        text: how it is written.
        ids: its ids.
        before: the text between the previous token and this one.
        fixed: whether it is not to be changed.
    """

    text: str
    ids: tuple[int, ...]
    before: str = ""
    fixed: bool = False


class UnknownWords(NamedTuple):
    """How a model of words treats words that it does not know.

    Args:
        id: the id of all unknown words.
        spelling: the log-probability of the letters of a word, given that it is unknown.
        min_log_prob: the least log-probability of an unknown word at any position.
    """

    id: int
    spelling: Callable[[str], float]
    min_log_prob: float


class WordCandidates:
    """Readings of the words of a text.

    Args:
        words: the known words. Those that the model does not know are never changed.
        encode: the ids of a reading of a token, which may be two words separated by a blank.
        error_model: the weights of misspellings.
        unknown: the unknown words; None for a model of characters or pieces, which gives every word a probability.
        config: how misspellings are corrected.
    """

    def __init__(
        self,
        words: Iterable[str],
        encode: Callable[[ObservedToken, str], tuple[int, ...]],
        error_model: ErrorModel,
        unknown: UnknownWords | None = None,
        config: SpellingConfig | None = None,
    ) -> None:
        self.encode, self.unknown, self.config = encode, unknown, config or SpellingConfig()
        self._variants: dict[str, list[str]] = defaultdict(list)
        for word in dict.fromkeys(words):
            if is_word(word):
                self._variants[word.lower()].append(word)
        self._index = DeleteIndex(list(self._variants), self.config.max_edits)
        self._errors = error_model
        self._classes = error_model.classes(self._index.codes, self._index.starts)
        self._readings = lru_cache(_CACHE_SIZE)(self._search)

    def knows(self, word: str) -> bool:
        """Whether a word is known as it is written or, if it has capitals, in lower case."""
        variants = self._variants.get(word.lower(), ())
        return word in variants or word.lower() in variants

    def edges(self, tokens: Sequence[ObservedToken]) -> list[LatticeEdge]:
        """The readings of all tokens, the tokens themselves among them."""
        edges = []
        in_capitals = all(token.text.upper() == token.text for token in tokens)
        for i, token in enumerate(tokens):
            changeable = can_correct(token) and (in_capitals or not token.text.isupper())
            changeable = changeable and not (self._is_unknown(token.ids) and self.knows(token.text))
            name = token.text[0].isupper() and i > 0 and _is_within_sentence(tokens[i - 1].text)
            edges.append(self._edge(i, token.text, token.ids, self._unchanged(token, name) if changeable else 0.0))
            if changeable:
                edges += [self._edge(i, *reading) for reading in self._readings(token, name)]
                if i + 1 < len(tokens):
                    edges += self._joined(i, token, tokens[i + 1])
        return edges

    def _edge(self, i: int, text: str, ids: tuple[int, ...], score: float, n_tokens: int = 1) -> LatticeEdge:
        if self.unknown is None or self.unknown.id not in ids:
            return LatticeEdge(i, i + n_tokens, ids, score, text)
        score += self.unknown.spelling(text)
        return LatticeEdge(i, i + n_tokens, ids, score, text, self.unknown.min_log_prob)

    def _is_unknown(self, ids: tuple[int, ...]) -> bool:
        return self.unknown is not None and self.unknown.id in ids

    def _unchanged(self, token: ObservedToken, name: bool) -> float:
        """The log-weight of a token as it is."""
        if self.knows(token.text):
            return 0.0
        factor = _NAME if name else _KNOWN_IN_CAPITALS if token.text.lower() in self._variants else 1.0
        return math.log(max(self.config.new_words * factor, _LEAST))

    def _search(self, token: ObservedToken, name: bool) -> list[tuple[str, tuple[int, ...], float]]:
        """What else a token may have been meant to be, with its ids and log-weight."""
        word, known, lower = token.text, self.knows(token.text), token.text.lower()
        if known and self.config.real_words == 0:
            return []
        factor = math.log(self.config.real_words) if known else 0.0
        found = self._index.search(lower, 1 if known or len(word) <= _SHORT else self.config.max_edits).words
        weights = self._errors.score(lower, self._index.codes, self._classes, self._index.starts, found)
        readings = [
            (text, factor + weight + score)
            for w, weight in zip(found.tolist(), weights.tolist(), strict=True)
            if self._index.words[w] != lower  # a word keeps its capitalization
            for text, score in self._written(self._index.words[w], word).items()
        ]
        if not known and not name:
            cuts = (cut for cut in range(1, len(lower)) if {lower[:cut], lower[cut:]} <= self._variants.keys())
            readings += [(f"{word[:cut]} {word[cut:]}", _BLANK) for cut in cuts]
        return [(text, self.encode(token, text), score) for text, score in readings]

    def _written(self, lower: str, observed: str) -> dict[str, float]:
        """The ways to write a word that is given in lower case instead of an observed one."""
        ways = {}
        for variant in self._variants[lower]:
            if variant == lower or (observed.isupper() and len(observed) > 1):
                ways[copy_case(lower, observed)] = 0.0
            else:
                same = variant[0].isupper() == observed[0].isupper()
                ways.setdefault(variant, 0.0 if same else _OTHER_CASE)
        return ways

    def _joined(self, i: int, first: ObservedToken, second: ObservedToken) -> Iterator[LatticeEdge]:
        whole = first.text + second.text
        if second.before.isspace() and can_correct(second) and self.knows(whole):
            known = self.knows(first.text) and self.knows(second.text)
            if not known or self.config.real_words > 0:
                score = _BLANK + (math.log(self.config.real_words) if known else 0.0)
                yield self._edge(i, whole, self.encode(first, whole), score, n_tokens=2)


def is_word(text: str) -> bool:
    """Whether a token consists of letters, possibly with hyphens and apostrophes inside."""
    return len(text) <= _MAX_LENGTH and _WORD.fullmatch(text) is not None


def _is_within_sentence(before: str) -> bool:
    """Whether a token after this one is not the first of a sentence, a quotation or a title."""
    return before[-1].isalnum() or before[-1] in ",;-"


def can_correct(token: ObservedToken) -> bool:
    """Whether a token is a word of two or more letters that may be changed."""
    return not token.fixed and len(token.text) > 1 and is_word(token.text)


def copy_case(lower: str, observed: str) -> str:
    """A word in lower case, written with the capitals of another: all, the first letter, or none."""
    if observed.isupper() and len(observed) > 1:
        return lower.upper()
    return lower[0].upper() + lower[1:] if observed[0].isupper() else lower
