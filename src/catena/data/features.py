"""Sparse features of texts for linear models: n-grams of tokens, and of the characters inside a token.

A feature has a string key: the tokens of an n-gram joined by U+001F, or U+001E and a character n-gram in which U+0002
and U+0003 mark the boundaries of the token. Texts contain none of these characters, so keys are unique. Keys get ids
from a counted list or by a hash that is the same on every machine.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from catena.config import Config
from catena.data.config import FeatureConfig, VocabularyConfig, read_settings, write_settings
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import ConfigError

BETWEEN = "\x1f"
CHARACTERS = "\x1e"
BEGIN, END = "\x02", "\x03"
_SETTINGS_FILE = "features.json"
_LIST_FILE = "feature_list.json"


@dataclass(frozen=True, eq=False)
class Features:
    """Sparse rows of features: those of text ``i`` are at ``offsets[i] : offsets[i + 1]``.

    Inside a row, ids are distinct and ascending. ``offsets`` has ``n + 1`` entries.
    """

    ids: Int64[np.ndarray, " z"]
    values: Float32[np.ndarray, " z"]
    offsets: Int64[np.ndarray, " n1"]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: np.ndarray | Sequence[int]) -> Features:
        """The given rows in the given order, as a batch."""
        rows = np.asarray(rows, np.int64)
        starts, sizes = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
        return Features(self.ids[places], self.values[places], offsets)


# --- keys ---------------------------------------------------------------------------------------------------


def keys(tokens: Sequence[str], settings: FeatureConfig) -> list[str]:
    """Every feature of one text, repeated as often as it occurs."""
    found: list[str] = []
    for n in range(1, settings.ngrams + 1):
        if n == 1:
            found += tokens
        else:
            found += map(BETWEEN.join, zip(*(tokens[i:] for i in range(n)), strict=False))
    if settings.characters:
        for token in tokens:
            found += character_keys(token, settings.characters_from, settings.characters)
    return found


@lru_cache(maxsize=2**16)
def character_keys(token: str, shortest: int, longest: int) -> tuple[str, ...]:
    """The character n-grams of a token with its boundaries marked. A boundary mark is not an n-gram."""
    marked = BEGIN + token + END
    grams = (marked[i : i + n] for n in range(shortest, longest + 1) for i in range(len(marked) - n + 1))
    return tuple(CHARACTERS + gram for gram in grams if gram not in (BEGIN, END))


def display_key(key: str) -> str:
    """A readable key: ``not bad`` for two tokens, ``…ing>`` for the characters at the end of a token."""
    if key.startswith(CHARACTERS):
        gram = key[len(CHARACTERS) :]
        begins = "<" if gram.startswith(BEGIN) else "…"
        ends = ">" if gram.endswith(END) else "…"
        return begins + gram.strip(BEGIN + END) + ends
    return key.replace(BETWEEN, " ")


# --- spaces -------------------------------------------------------------------------------------------------


class FeatureSpace(ABC):
    """Assigns an id from 0 to ``len(space) - 1`` to every feature."""

    def __init__(self, settings: FeatureConfig) -> None:
        self.settings = settings
        """The config it was built from."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, id: int) -> str:
        """The readable name of a feature."""

    @abstractmethod
    def _ids(self, keys: list[str]) -> list[int]:
        """The ids of keys, in order; -1 for keys without an id."""

    def features(self, token_lists: Iterable[Sequence[str]]) -> Features:
        """The features of tokenized texts. Features without an id are dropped."""
        ids: list[np.ndarray] = []
        sizes: list[int] = []
        for tokens in token_lists:
            found = np.array(self._ids(keys(tokens, self.settings)), np.int64)
            ids.append(found)
            sizes.append(len(found))
        flat = np.concatenate(ids) if ids else np.zeros(0, np.int64)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        known = flat >= 0
        # One integer per feature and row: sorting it sorts by row, then by id.
        places, counts = np.unique(rows[known] * len(self) + flat[known], return_counts=True)
        offsets = np.searchsorted(places, np.arange(len(sizes) + 1) * len(self)).astype(np.int64)
        return Features(places % max(1, len(self)), _VALUES[self.settings.values](counts), offsets)

    def save(self, folder: Path) -> None:
        """Write it to a folder, which is created if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder / _SETTINGS_FILE, self.settings)


_VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "binary": lambda counts: np.ones(len(counts), np.float32),
    "counts": lambda counts: counts.astype(np.float32),
    "log": lambda counts: np.log1p(counts).astype(np.float32),
}


class ListedFeatures(FeatureSpace):
    """Features counted on the training data, the most frequent first."""

    def __init__(self, settings: FeatureConfig, listed: Vocabulary) -> None:
        super().__init__(settings)
        self._listed = listed
        self._first = len(listed.specials)

    def __len__(self) -> int:
        return len(self._listed) - self._first

    def name(self, id: int) -> str:
        return display_key(self._listed.tokens([id + self._first])[0])

    def _ids(self, keys: list[str]) -> list[int]:
        first = self._first
        return [i - first if i != UNK else -1 for i in self._listed.ids(keys)]

    def save(self, folder: Path) -> None:
        super().save(folder)
        self._listed.save(folder / _LIST_FILE)


class HashedFeatures(FeatureSpace):
    """Features by the CRC-32 of their key. Nothing is stored; some features collide."""

    def __init__(self, settings: FeatureConfig) -> None:
        if settings.buckets is None:
            raise ConfigError("buckets must be set for hashed features, got None. Set it, or use listed features.")
        super().__init__(settings)
        self._buckets = settings.buckets

    def __len__(self) -> int:
        return self._buckets

    def name(self, id: int) -> str:
        return f"bucket {id}"

    def _ids(self, keys: list[str]) -> list[int]:
        crc32, buckets = zlib.crc32, self._buckets
        return [crc32(key.encode("utf-8", "surrogatepass")) % buckets for key in keys]


def build_features(
    settings: FeatureConfig, token_lists: Iterable[Sequence[str]], max_size: int | None = None
) -> FeatureSpace:
    """A feature space, counted from training texts unless features are hashed.

    Args:
        settings: which features to extract, and their minimum count.
        token_lists: the tokenized texts. They are not read if features are hashed.
        max_size: keep at most this many features, the most frequent ones. None keeps all.
    """
    if settings.buckets is not None:
        return HashedFeatures(settings)
    limits = VocabularyConfig(min_count=settings.min_count, max_size=max_size)
    return ListedFeatures(settings, Vocabulary.count((keys(tokens, settings) for tokens in token_lists), limits))


class _Saved(Config):
    settings: FeatureConfig


def load_features(folder: Path) -> FeatureSpace:
    """Load a feature space from a folder that ``save`` wrote."""
    found = read_settings(folder / _SETTINGS_FILE, _Saved, "a folder of features", "a file of features")
    settings = found.settings
    if settings.buckets is not None:
        return HashedFeatures(settings)
    return ListedFeatures(settings, Vocabulary.load(folder / _LIST_FILE))
