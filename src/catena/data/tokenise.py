"""Text to tokens and back. The kinds are in ``tokenisers/``; here they are built and loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.config import Config, parse
from catena.data.settings import TokeniserSettings
from catena.data.tokenisers.base import SETTINGS_FILE, Tokeniser
from catena.data.tokenisers.plain import ByteTokeniser, CharacterTokeniser, WhitespaceTokeniser
from catena.data.tokenisers.subwords import load_subwords, train_bpe, train_unigram
from catena.data.tokenisers.words import WordTokeniser
from catena.errors import CheckpointError, ConfigError

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
    path = folder / SETTINGS_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {SETTINGS_FILE}: it is not the folder of a tokeniser") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): copy the model again") from None
    if not isinstance(data, dict) or data.get("format") != 1 or not isinstance(data.get("settings"), dict):
        raise CheckpointError(f"{path} is not a tokeniser of format 1: it is damaged or made by a newer version")
    try:
        settings = parse(_Saved, {"settings": data["settings"]}, source=str(path)).settings
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    return _KINDS[settings.kind].load(settings, folder)
