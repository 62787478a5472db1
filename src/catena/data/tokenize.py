"""Building and loading tokenizers, and where their tokens are in a text. The tokenizers are in ``tokenizers/``.

Offsets can be found for every tokenizer that only splits a text: words, whitespace and characters without changes of
case, form, digits or stems. Such changes can be made to the tokens afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from catena._lazy import LazyModule
from catena.config import Config
from catena.data.config import TokenizerConfig, read_settings
from catena.data.files import shorten
from catena.data.tokenizers.base import SETTINGS_FILE, Tokenizer
from catena.data.tokenizers.plain import ByteTokenizer, CharacterTokenizer, WhitespaceTokenizer
from catena.data.tokenizers.words import WordTokenizer
from catena.errors import DataError

__all__ = ["Tokenizer", "align_tokens", "build_tokenizer", "load_tokenizer"]


_subwords = LazyModule("catena.data.tokenizers.subwords")


@dataclass(frozen=True)
class _Kind:
    build: Callable[[Any, Iterable[str]], Tokenizer]
    load: Callable[[Any, Path], Tokenizer]


def _untrained(tokenizer: Callable[[Any], Tokenizer]) -> _Kind:
    return _Kind(lambda settings, texts: tokenizer(settings), lambda settings, folder: tokenizer(settings))


_KINDS = {
    "whitespace": _untrained(WhitespaceTokenizer),
    "words": _untrained(WordTokenizer),
    "characters": _untrained(CharacterTokenizer),
    "bytes": _untrained(ByteTokenizer),
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
