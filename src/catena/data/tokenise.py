"""Text to tokens and back. The kinds are in ``tokenisers/``; here they are built and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.config import Config
from catena.data.saved_settings import read_settings
from catena.data.settings import TokeniserSettings
from catena.data.tokenisers.base import SETTINGS_FILE, Tokeniser
from catena.data.tokenisers.plain import ByteTokeniser, CharacterTokeniser, WhitespaceTokeniser
from catena.data.tokenisers.subwords import load_subwords, train_bpe, train_unigram
from catena.data.tokenisers.words import WordTokeniser

__all__ = ["Tokeniser", "build_tokeniser", "load_tokeniser"]


@dataclass(frozen=True)
class _Kind:
    build: Callable[[Any, Iterable[str]], Tokeniser]
    load: Callable[[Any, Path], Tokeniser]


def _untrained(tokeniser: Callable[[Any], Tokeniser]) -> _Kind:
    return _Kind(lambda settings, texts: tokeniser(settings), lambda settings, folder: tokeniser(settings))


_KINDS = {
    "whitespace": _untrained(WhitespaceTokeniser),
    "words": _untrained(WordTokeniser),
    "characters": _untrained(CharacterTokeniser),
    "bytes": _untrained(ByteTokeniser),
    "bpe": _Kind(train_bpe, load_subwords),
    "unigram": _Kind(train_unigram, load_subwords),
}


class _Saved(Config):
    settings: TokeniserSettings


def build_tokeniser(settings: TokeniserSettings, texts: Iterable[str] = ()) -> Tokeniser:
    """Make the tokeniser that the settings describe. Only ``bpe`` and ``unigram`` read the texts, once."""
    return _KINDS[settings.kind].build(settings, texts)


def load_tokeniser(folder: Path) -> Tokeniser:
    """Read a tokeniser that ``save`` wrote into a folder."""
    found = read_settings(folder / SETTINGS_FILE, _Saved, "the folder of a tokeniser", "a tokeniser")
    settings = found.settings
    return _KINDS[settings.kind].load(settings, folder)
