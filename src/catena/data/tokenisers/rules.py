"""What is done to a text before it is cut, and to its words after: case, form, digits, stems, lemmas."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import regex

from catena.data.settings import TextOptions, WordOptions
from catena.extras import require

DIGIT = re.compile(r"\d")
DIGIT_OR_REST = re.compile(r"\d|\D+")
PLAIN_WORD = regex.compile(r"[\p{L}\p{M}]+(?:[-'’‐‑·][\p{L}\p{M}]+)*")
"""What may be stemmed or looked up: letters, with hyphens or apostrophes inside; no 's, URL, number."""

MOST_CACHED = 2**17
LONGEST_CACHED = 40


def text_rule(options: TextOptions) -> Callable[[str], str]:
    """The change that is made to a whole text: normal form, then lower case, then folded digits."""
    normalise, lowercase, fold = options.normalise, options.lowercase, options.digits == "fold"

    def change(text: str) -> str:
        if normalise != "none":
            text = unicodedata.normalize(normalise, text)
        if lowercase:
            text = text.lower()
        if fold:
            text = DIGIT.sub("0", text)
        return text

    return change


def word_rule(options: WordOptions) -> Callable[[str], list[str]] | None:
    """The change that is made to one word, which may split it; None when nothing is asked for."""
    stem = stemmer(options)
    split = options.digits == "split"
    if not stem and not split:
        return None

    def change(word: str) -> list[str]:
        parts = DIGIT_OR_REST.findall(word) if split else [word]
        return [stem(part) for part in parts] if stem else parts

    return change


def stemmer(options: WordOptions) -> Callable[[str], str] | None:
    """The function that gives a word's stem or lemma; None when neither is asked for."""
    if options.stem:
        snowball = require("snowballstemmer", "words", "stemming").stemmer(options.stem)
        return _on_plain_words(lambda word: snowball.stemWord(word.lower()))
    if options.lemmatise:
        simplemma = require("simplemma", "words", "lemmatisation")
        language = options.lemmatise
        return _on_plain_words(lambda word: simplemma.lemmatize(word, lang=language))
    return None


def _on_plain_words(change: Callable[[str], str]) -> Callable[[str], str]:
    def changed(word: str) -> str:
        # Some stemmers leave nothing of a short word; the word itself is better than an empty token.
        return (change(word) or word) if PLAIN_WORD.fullmatch(word) else word

    return changed


def cached(cut: Callable[[str], list[str]]) -> Callable[[str], tuple[str, ...]]:
    """The same cut, remembered for short strings: in running text most have been seen before."""

    @lru_cache(maxsize=MOST_CACHED)
    def remembered(chunk: str) -> tuple[str, ...]:
        return tuple(cut(chunk))

    def cut_once(chunk: str) -> tuple[str, ...]:
        return remembered(chunk) if len(chunk) <= LONGEST_CACHED else tuple(cut(chunk))

    return cut_once
