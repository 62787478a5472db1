"""The interface of tokenizers, their rules, how they are built and loaded, and where tokens are in a text.

The tokenizers are in ``tokenizers/`` and are imported when a config selects them.

Offsets can be found for every tokenizer that only splits a text: words, whitespace and characters without changes of
case, form, digits or stems. Such changes can be made to the tokens afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import regex
from jaxtyping import Int

from catena._lazy import LazyModule
from catena.config import Config
from catena.data.config import (
    BaseTokenizerConfig,
    BaseWordTokenizerConfig,
    TokenizerConfig,
    read_settings,
    write_settings,
)
from catena.data.files import shorten
from catena.errors import DataError
from catena.extras import require

__all__ = ["Tokenizer", "align_tokens", "build_tokenizer", "load_tokenizer"]

SETTINGS_FILE = "config.json"
_plain = LazyModule("catena.data.tokenizers.plain")
_words = LazyModule("catena.data.tokenizers.words")
_subwords = LazyModule("catena.data.tokenizers.subwords")

_DIGIT = re.compile(r"\d")
_DIGIT_OR_REST = re.compile(r"\d|\D+")
_PLAIN_WORD = regex.compile(r"[\p{L}\p{M}]+(?:[-'’‐‑·][\p{L}\p{M}]+)*")
"""Words that may be stemmed or lemmatized: letters, with hyphens or apostrophes inside; no 's, URL, number."""
_MOST_CACHED = 2**17
_LONGEST_CACHED = 40


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


# --- building and loading ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    build: Callable[[Any, Iterable[str]], Tokenizer]
    load: Callable[[Any, Path], Tokenizer]


def _untrained(module: LazyModule, name: str) -> _Kind:
    return _Kind(
        lambda settings, texts: getattr(module, name)(settings),
        lambda settings, folder: getattr(module, name)(settings),
    )


_KINDS = {
    "whitespace": _untrained(_plain, "WhitespaceTokenizer"),
    "words": _untrained(_words, "WordTokenizer"),
    "characters": _untrained(_plain, "CharacterTokenizer"),
    "bytes": _untrained(_plain, "ByteTokenizer"),
    "bpe": _Kind(
        lambda settings, texts: _subwords.train_bpe(settings, texts),
        lambda settings, folder: _subwords.load_subwords(settings, folder),
    ),
    "unigram": _Kind(
        lambda settings, texts: _subwords.train_unigram(settings, texts),
        lambda settings, folder: _subwords.load_subwords(settings, folder),
    ),
}


class _Saved(Config):
    settings: TokenizerConfig


def build_tokenizer(settings: TokenizerConfig, texts: Iterable[str] = ()) -> Tokenizer:
    """Build the tokenizer of a config. Only ``bpe`` and ``unigram`` read the texts, once.

    Args:
        settings: the kind of tokenizer and its options.
        texts: the texts that subwords are trained on.
    """
    return _KINDS[settings.kind].build(settings, texts)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load a tokenizer from a folder that ``save`` wrote."""
    found = read_settings(folder / SETTINGS_FILE, _Saved, "the folder of a tokenizer", "a tokenizer")
    settings = found.settings
    return _KINDS[settings.kind].load(settings, folder)


def align_tokens(text: str, tokens: Sequence[str]) -> list[tuple[int, int]] | None:
    """The character offsets of each token in a text, end exclusive; None if a token does not occur in order.

    A tokenizer may change the case of tokens, but not their characters.
    """
    offsets = []
    at = 0
    lower = text.lower() if len(text.lower()) == len(text) else text
    for token in tokens:
        start = text.find(token, at)
        if start < 0:
            start = lower.find(token.lower(), at)
        if start < 0:
            return None
        at = start + len(token)
        offsets.append((start, at))
    return offsets


# --- offsets ----------------------------------------------------------------------------------------------------------


class TokenSpan(NamedTuple):
    """First and last token of a span, and whether its ends are exactly the ends of tokens."""

    first: int
    last: int
    exact: bool


def locate_tokens(text: str, tokens: Sequence[str]) -> Int[np.ndarray, "t 2"]:
    """``offsets[i]`` are the index of the first character of token i and the index after its last one.

    Only blanks may lie between tokens. Time O(characters).

    Raises:
        DataError: if a token is not the next part of the text, because the tokenizer changes what it splits.
    """
    offsets = np.empty((len(tokens), 2), np.int64)
    at = 0
    for i, token in enumerate(tokens):
        while at < len(text) and text[at].isspace() and not text.startswith(token, at):
            at += 1
        if not text.startswith(token, at) or not token:
            raise DataError(
                f"A token must be the next part of its text, got {token!r} at {shorten(text[at : at + 20], 20)}. Use a "
                "tokenizer without lowercase, normalize, digits, stem and lemmatize."
            )
        offsets[i] = at, at + len(token)
        at += len(token)
    return offsets


def find_token_span(offsets: Int[np.ndarray, "t 2"], start: int, end: int) -> TokenSpan | None:
    """The smallest span of tokens that covers the characters ``start`` up to ``end``, without blanks at its ends.

    Returns:
        The span, or None if no token has one of these characters.
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))  # the first token that ends after start
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1  # the last token that begins before end
    if first > last or start >= end:
        return None
    return TokenSpan(first, last, bool(start <= offsets[first, 0] and offsets[last, 1] <= end))


# --- rules ------------------------------------------------------------------------------------------------------------


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
