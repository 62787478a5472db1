"""Changes to a text before tokenization and to its words afterwards: case, form, digits, stems, lemmas."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import regex

from catena.data.config import BaseTokenizerConfig, BaseWordTokenizerConfig
from catena.extras import require

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
