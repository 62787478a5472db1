"""Correction of the words of texts, with everything between them left as it is.

A model of words knows the words of its vocabulary, and gives all others one probability, which is divided among their
spellings. A model of characters, bytes or subwords gives every text a probability and needs a list of known words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import regex

from catena.data.config import BaseWordTokenizerConfig
from catena.data.files import open_text
from catena.data.tokenize import Tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import ConfigError
from catena.lm.ngram.model import NgramModel
from catena.niche.correction.candidates import LETTERS, ObservedToken, UnknownWords, WordCandidates, is_word
from catena.niche.correction.config import EditRates, SpellingConfig
from catena.niche.correction.error_model import Confusions, ErrorModel
from catena.niche.correction.result import CorrectionResult, TextChange
from catena.niche.correction.spelling import SpellingCorrector, build_spelling_model
from catena.search.stepper import Stepper

WORD_TOKENIZERS = ("whitespace", "words")
"""The tokenizers whose tokens are words."""
_CHUNK = re.compile(r"\S+")
_WORD = regex.compile(rf"(?<![\w@/.]){LETTERS}(?![\w@/]|\.\w)")
"""A word in plain text; parts of addresses and of names with digits are not words."""


class TextCorrector:
    """Corrects misspelled words of texts.

    Args:
        stepper: the language model.
        tokenizer: how the model splits texts. If its tokens are not words, ``words`` must be given.
        vocabulary: the tokens of the model's ids.
        rates: the probability of each kind of error at a letter.
        confusions: for each letter, those that are often written instead of it; by default Latin letters that sound
            similar or are neighbors on a keyboard.
        config: how misspellings are corrected.
        words: known words in addition to those of the model's vocabulary.
        misspellings: (misspelled, correct) pairs, from which the weights of edits are estimated.
    """

    def __init__(
        self,
        stepper: Stepper[Any],
        tokenizer: Tokenizer,
        vocabulary: Vocabulary,
        rates: EditRates | None = None,
        confusions: Confusions | None = None,
        config: SpellingConfig | None = None,
        *,
        words: Iterable[str] = (),
        misspellings: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary
        self.has_words = tokenizer.settings.kind in WORD_TOKENIZERS
        _check_no_stems(tokenizer)
        own = [word for word in vocabulary.symbols[len(vocabulary.specials) :] if is_word(word)]
        known = [*(own if self.has_words else ()), *words]
        if not known:
            raise ConfigError(
                f"words must be given for a model of {tokenizer.settings.kind}, got none. Pass a text "
                "with --words, or use --method mcmc."
            )
        candidates = WordCandidates(
            known,
            self._encode_words if self.has_words else self._encode_pieces,
            ErrorModel.estimate(misspellings, ErrorModel.from_rates(rates, confusions, known)),
            UnknownWords(UNK, build_spelling_model(own), _new_word_log_prob(vocabulary)) if self.has_words else None,
            config or SpellingConfig(),
        )
        context = stepper.order - 1 if isinstance(stepper, NgramModel) else None
        self._corrector = SpellingCorrector(stepper, candidates, context)
        self._word_id = lru_cache(1 << 16)(self._search_id)

    def correct(self, text: str, n_alternatives: int = 0) -> CorrectionResult:
        """Correct one text. Everything except the corrected words stays as it is.

        Args:
            text: the text.
            n_alternatives: the largest number of alternatives that are listed with each change.
        """
        located = list(self._words(text) if self.has_words else self._pieces(text))
        if not located:
            return CorrectionResult(text, text, 1.0)
        found = self._corrector.correct([token for _, token in located], n_alternatives)
        changes = []
        corrected, done = "", 0
        for change in found.changes:
            start, (last, token) = located[change.start][0], located[change.end - 1]
            end = last + len(token.text)
            changes.append(TextChange(start, end, text[start:end], change.text, change.alternatives))
            corrected += text[done:start] + change.text
            done = end
        return CorrectionResult(text, corrected + text[done:], found.probability, tuple(changes))

    def _words(self, text: str) -> Iterator[tuple[int, ObservedToken]]:
        """The tokens of a model of words, with their positions."""
        end = 0
        for chunk in _CHUNK.finditer(text):
            parts = self.tokenizer.tokens(chunk[0])
            joined = "".join(parts)
            if len(joined) == len(chunk[0]) and joined.lower() == chunk[0].lower():
                cuts = list(accumulate(map(len, parts), initial=chunk.start()))
                for part, (start, stop) in zip(parts, pairwise(cuts), strict=True):
                    yield start, ObservedToken(text[start:stop], (self._word_id(part),), text[end:start])
                    end = stop
            else:  # the tokenizer changes characters, so tokens have no positions in the text
                ids = tuple(self.vocabulary.ids(parts)) or (UNK,)
                yield chunk.start(), ObservedToken(chunk[0], ids, text[end : chunk.start()], fixed=True)
                end = chunk.end()

    def _pieces(self, text: str) -> Iterator[tuple[int, ObservedToken]]:
        """The words of a text and the characters between them, with their positions, for a model of pieces."""
        end = 0
        for word in (*_WORD.finditer(text), None):
            start = len(text) if word is None else word.start()
            other = text[end:start] if word is None else text[end:start].rstrip()
            if other:
                yield end, ObservedToken(other, self._ids(other), fixed=True)
            if word is not None:
                before = text[end + len(other) : start]
                yield start, ObservedToken(word[0], self._ids(before + word[0]), before)
                end = word.end()

    def _encode_words(self, token: ObservedToken, text: str) -> tuple[int, ...]:
        return tuple(map(self._word_id, text.split(" ")))

    def _encode_pieces(self, token: ObservedToken, text: str) -> tuple[int, ...]:
        return self._ids(token.before + text)

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.vocabulary.ids(self.tokenizer.tokens(text)))

    def _search_id(self, word: str) -> int:
        """The id of a word, or else of the word in lower case."""
        written, lower = self.vocabulary.ids([word, word.lower()])
        return lower if written == UNK else written


def _check_no_stems(tokenizer: Tokenizer) -> None:
    settings = tokenizer.settings
    if isinstance(settings, BaseWordTokenizerConfig) and (settings.stem or settings.lemmatize):
        raise ConfigError(
            f"The tokens of a model that corrects words must be words, got stems or lemmas in "
            f"{settings.stem or settings.lemmatize!r}. Train a model without tokenizer.stem and tokenizer.lemmatize."
        )


def _new_word_log_prob(vocabulary: Vocabulary) -> float:
    """The log-probability of a new word, by the fraction of words that occurred once (Good 1953)."""
    n_once = sum(count == 1 for count in vocabulary.counts) + vocabulary.counts[UNK]
    return math.log((n_once + 1) / (sum(vocabulary.counts) + 100))


def read_words(path: Path) -> list[str]:
    """The distinct words of a text file.

    Args:
        path: the file, in UTF-8.
    """
    with open_text(path) as lines:
        return list(dict.fromkeys(word for _, line in lines for word in _WORD.findall(line)))
