"""Building and loading tokenizers. The implementations are in ``tokenizers/``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena._lazy import LazyModule
from catena.config import Config
from catena.data.config import TokenizerConfig
from catena.data.saved_config import read_settings
from catena.data.tokenizers.base import SETTINGS_FILE, Tokenizer
from catena.data.tokenizers.plain import ByteTokenizer, CharacterTokenizer, WhitespaceTokenizer
from catena.data.tokenizers.words import WordTokenizer

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
