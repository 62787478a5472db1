"""The interface of tokenizers, and changes to a text and its words: case, form, digits, stems, lemmas."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import regex

from catena.data.config import BaseTokenizerConfig, BaseWordTokenizerConfig, write_settings
from catena.extras import require

SETTINGS_FILE = "config.json"


class Tokenizer(ABC):
    """Splits text into tokens, deterministically for the same config and training texts."""

    settings: BaseTokenizerConfig
    """The config it was built from."""

    def __init__(self, settings: BaseTokenizerConfig) -> None:
        self.settings = settings
        self._text = text_rule(settings)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every possible token if they are known in advance (bytes, subwords), otherwise none.

        A vocabulary with these symbols has no unknown tokens.
        """
        return ()

    @abstractmethod
    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, in order."""

    def chunks(self, text: str) -> list[str]:
        """The parts of a text that are tokenized independently by :meth:`chunk_tokens`, such as those between blanks.

        Many of them repeat in running text, so that a caller can remember what it derives from their tokens.
        """
        return [text]

    def chunk_tokens(self, chunk: str) -> Sequence[str]:
        """The tokens of a chunk; those of all chunks of a text are its tokens."""
        return self.tokens(chunk)

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """The text of tokens: exact for characters, bytes and subwords; words are spaced by rules."""

    def shown(self, token: str) -> str:
        """A readable token, for pictures and tables of alignments."""
        return token

    def save(self, folder: Path) -> None:
        """Write what ``load_tokenizer`` needs to a folder, which is created if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder / SETTINGS_FILE, self.settings)

    def __reduce__(self) -> tuple[object, ...]:
        # Caches and compiled rules cannot be pickled; the config is enough to rebuild them.
        return type(self), (self.settings,)


# --- rules ------------------------------------------------------------------------------------------------------------


_DIGIT = re.compile(r"\d")
_DIGIT_OR_REST = re.compile(r"\d|\D+")
_PLAIN_WORD = regex.compile(r"[\p{L}\p{M}]+(?:[-'’‐‑·][\p{L}\p{M}]+)*")
"""Words that may be stemmed or lemmatized: letters, with hyphens or apostrophes inside; no 's, URL, number."""

_MOST_CACHED = 2**17
_LONGEST_CACHED = 40


def text_rule(options: BaseTokenizerConfig) -> Callable[[str], str]:
    """The function applied to a whole text: normalization, then lower case, then digit folding."""
    normalize, lowercase, fold = options.normalize, options.lowercase, options.digits == "fold"

    def change(text: str) -> str:
        if normalize != "none":
            text = unicodedata.normalize(normalize, text)
        if lowercase:
            text = text.lower()
        if fold:
            text = _DIGIT.sub("0", text)
        return text

    return change


def word_rule(options: BaseWordTokenizerConfig) -> Callable[[str], list[str]] | None:
    """The function applied to one word, which may split it, or None if nothing is to be done."""
    stem = stemmer(options)
    split = options.digits == "split"
    if not stem and not split:
        return None

    def change(word: str) -> list[str]:
        parts = _DIGIT_OR_REST.findall(word) if split else [word]
        return [stem(part) for part in parts] if stem else parts

    return change


def stemmer(options: BaseWordTokenizerConfig) -> Callable[[str], str] | None:
    """The function from a word to its stem or lemma, or None if neither is configured."""
    if options.stem:
        snowball = require("snowballstemmer", "words", "stemming").stemmer(options.stem)
        return _on_plain_words(lambda word: snowball.stemWord(word.lower()))
    if options.lemmatize:
        simplemma = require("simplemma", "words", "lemmatization")
        language = options.lemmatize
        return _on_plain_words(lambda word: simplemma.lemmatize(word, lang=language))
    return None


def _on_plain_words(change: Callable[[str], str]) -> Callable[[str], str]:
    def changed(word: str) -> str:
        # Some stemmers leave nothing of a short word; the word itself is better than an empty token.
        return (change(word) or word) if _PLAIN_WORD.fullmatch(word) else word

    return changed


def cache_splits(cut: Callable[[str], list[str]]) -> Callable[[str], tuple[str, ...]]:
    """The same function, cached for short strings: in running text most have been seen before."""

    @lru_cache(maxsize=_MOST_CACHED)
    def remembered(chunk: str) -> tuple[str, ...]:
        return tuple(cut(chunk))

    def cut_once(chunk: str) -> tuple[str, ...]:
        return remembered(chunk) if len(chunk) <= _LONGEST_CACHED else tuple(cut(chunk))

    return cut_once
