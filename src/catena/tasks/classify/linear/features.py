"""Features of texts for linear classifiers: tokens and their n-grams as ids, listed or hashed.

Texts as rows of symbols: the ids or hashes of tokens, and of the character n-grams inside them.

Most blank-separated chunks of running text were seen before, so a text is looked up chunk by chunk in a dictionary.

N-grams of symbols as feature ids: listed, if they occur in the training texts, or hashed into buckets.

A few texts are encoded and scored by the reference implementation, because Numba takes longer to import.
"""

from __future__ import annotations

import json
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from catena.checkpoint import read_stored
from catena.config import Config
from catena.data.config import FeatureConfig, read_settings, write_settings
from catena.data.features import BETWEEN, character_keys, display_key
from catena.data.tokenize import Tokenizer
from catena.errors import CheckpointError
from catena.kernels.bags import reference

_MOST_CACHED = 2**17
_LONGEST_CACHED = 40


@dataclass(frozen=True, eq=False)
class SymbolRows:
    """Texts as symbols: ``symbols[first[i] : first[i + 1]]`` are the tokens of text i.

    ``singles`` and ``single_first`` are the character n-grams in the same way. Unknown symbols are -1.
    """

    symbols: np.ndarray
    first: np.ndarray
    singles: np.ndarray
    single_first: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1

    def renumbered(self, mapping: np.ndarray) -> SymbolRows:
        """The same rows with symbol s replaced by ``mapping[s]``."""
        return SymbolRows(mapping[self.symbols], self.first, mapping[self.singles], self.single_first)

    def take(self, rows: np.ndarray) -> SymbolRows:
        """Some of the rows."""
        return SymbolRows(*take_rows(self.symbols, self.first, rows), *take_rows(self.singles, self.single_first, rows))


def take_rows(flat: np.ndarray, first: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The given rows of a flat array, one after another, and where each begins."""
    sizes = first[rows + 1] - first[rows]
    begins = row_starts(sizes)
    return flat[np.arange(begins[-1]) + np.repeat(first[rows] - begins[:-1], sizes)], begins


def row_starts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where each row begins in a flat array, and its end."""
    return np.concatenate(([0], np.cumsum(np.asarray(sizes, np.int64)))).astype(np.int64)


class _Chunks(dict[str, tuple[int, ...]]):
    """The symbols of chunks of texts, computed when they are first needed."""

    def __init__(self, compute: Callable[[str], Iterable[int]]) -> None:
        self.compute = compute

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        found = tuple(self.compute(chunk))
        if len(chunk) <= _LONGEST_CACHED:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[chunk] = found
        return found


class SymbolReader:
    """Reads texts as symbols.

    Args:
        tokenizer: splits texts into tokens.
        settings: which features are extracted.
        max_length: texts are cut to this number of tokens.
        number: the symbol of a token or of a character n-gram.
    """

    def __init__(
        self, tokenizer: Tokenizer, settings: FeatureConfig, max_length: int, number: Callable[[str], int]
    ) -> None:
        self.tokenizer, self.settings, self.max_length, self.number = tokenizer, settings, max_length, number
        self._tokens = _Chunks(lambda chunk: [number(token) for token in tokenizer.chunk_tokens(chunk)])
        self._grams = _Chunks(self._character_symbols)

    def read(self, texts: Iterable[str]) -> SymbolRows:
        """The symbols of texts, cut to the maximum length."""
        # One list for all texts: Python's garbage collector visits every list of a text.
        symbols: list[int] = []
        singles: list[int] = []
        ends, single_ends = [0], [0]
        known, longest = self._tokens.__getitem__, self.max_length
        for text in texts:
            symbols.extend(chain.from_iterable(map(known, self.tokenizer.chunks(text))))
            if len(symbols) - ends[-1] > longest:
                del symbols[ends[-1] + longest :]
            ends.append(len(symbols))
            if self.settings.characters:
                singles += self._character_grams(text)
            single_ends.append(len(singles))
        rows = np.array(symbols, np.int32), np.array(ends, np.int64)
        return SymbolRows(*rows, np.array(singles, np.int32), np.array(single_ends, np.int64))

    def read_text(self, text: str) -> tuple[list[int], list[int]]:
        """The symbols of all tokens of a text, and of the character n-grams inside the tokens that are kept."""
        row = list(chain.from_iterable(map(self._tokens.__getitem__, self.tokenizer.chunks(text))))
        return row, self._character_grams(text) if self.settings.characters else []

    def _character_grams(self, text: str) -> list[int]:
        return [gram for token in self.tokenizer.tokens(text)[: self.max_length] for gram in self._grams[token]]

    def _character_symbols(self, token: str) -> list[int]:
        return [
            self.number(key) for key in character_keys(token, self.settings.characters_from, self.settings.characters)
        ]


def hash_symbol(name: str) -> int:
    """A hash of 32 bits that is the same on every machine, as a signed integer."""
    value = zlib.crc32(name.encode("utf-8", "surrogatepass"))
    return value - 2**32 if value >= 2**31 else value


# --- features ---------------------------------------------------------------------------------------------------------


_SETTINGS_FILE = "features.json"
_SYMBOLS_FILE = "symbols.json"
_SMALLEST_TABLE = 2**12
_BLOCK_SYMBOLS = 2**17
"""Number of symbols that are counted together; tables are enlarged before they are."""


VALUES = {"binary": reference.BINARY, "counts": reference.COUNTS, "log": reference.LOG}
_FEW = 4000
"""Number of symbols or features up to which Numba is not imported."""


def needs_kernels(n: int) -> bool:
    """Whether compiled loops are used for ``n`` symbols or features: if there are many, or if they are loaded."""
    return n > _FEW or "catena.kernels.bags.cpu_ngrams" in sys.modules


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features of texts: text i has ``ids[first[i] : first[i + 1]]``, ascending.

    An id is repeated as often as it occurs, or is there once if the values are binary.
    """

    ids: np.ndarray
    first: np.ndarray

    def __len__(self) -> int:
        return len(self.first) - 1


class BagFeatures(ABC):
    """Assigns an id from 0 to ``len(features) - 1`` to every feature."""

    def __init__(self, settings: FeatureConfig) -> None:
        self.settings = settings

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, id: int) -> str:
        """The readable name of a feature."""

    @abstractmethod
    def reader(self, tokenizer: Tokenizer, max_length: int) -> SymbolReader:
        """The reader of the symbols that :meth:`encode` expects."""

    @abstractmethod
    def _encode(self, rows: SymbolRows, found: np.ndarray, first: np.ndarray) -> int:
        """Write the ids and where each row begins; returns the number of ids."""

    @abstractmethod
    def _encode_few(self, rows: Sequence[np.ndarray], singles: Sequence[np.ndarray]) -> list[list[int]]:
        """The ids of each row, by the reference implementation."""

    def encode(self, rows: SymbolRows) -> FeatureRows:
        """The features of texts. N-grams without an id are left out."""
        if not needs_kernels(len(rows.symbols) + len(rows.singles)):
            lists = self._encode_few(
                np.split(rows.symbols, rows.first[1:-1])[: len(rows)],
                np.split(rows.singles, rows.single_first[1:-1])[: len(rows)],
            )
            lists = [sorted(set(row)) for row in lists] if self._distinct else lists
            return FeatureRows(np.array([i for row in lists for i in row], np.int32), row_starts(list(map(len, lists))))
        found = np.empty(len(rows.symbols) * self.settings.ngrams + len(rows.singles), np.int32)
        first = np.zeros(len(rows) + 1, np.int64)
        n = self._encode(rows, found, first)
        return FeatureRows(found[:n].copy(), first)

    @property
    def _distinct(self) -> bool:
        return self.settings.values == "binary"

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that :func:`load_features` needs."""
        return {}

    def save(self, folder: Path) -> None:
        """Write everything except the arrays to a folder, which is created if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        write_settings(folder / _SETTINGS_FILE, self.settings)


class ListedNgrams(BagFeatures):
    """The n-grams of the training texts, the most frequent first.

    Args:
        settings: which features are extracted.
        names: the symbols.
        parents: of each n-gram, the id of its first n - 1 symbols; -1 if it has one symbol.
        lasts: of each n-gram, its last symbol.
    """

    def __init__(self, settings: FeatureConfig, names: list[str], parents: np.ndarray, lasts: np.ndarray) -> None:
        super().__init__(settings)
        self.names, self.parents, self.lasts = names, parents, lasts
        for what, ids, n in (("parents", parents, len(parents)), ("lasts", lasts, len(names))):
            least = -1 if what == "parents" else 0
            if ids.shape != parents.shape or ids.dtype.kind != "i" or (ids < least).any() or (ids >= n).any():
                raise CheckpointError(
                    f"{what} must be {len(parents)} ids from {least} to {n - 1}, got others. Copy the model again."
                )

    def __len__(self) -> int:
        return len(self.parents)

    def name(self, id: int) -> str:
        parts: list[str] = []
        while id >= 0 and len(parts) < max(1, self.settings.ngrams):  # a damaged file may have a circle
            parts.append(self.names[self.lasts[id]])
            id = int(self.parents[id])
        return display_key(BETWEEN.join(reversed(parts)))

    def reader(self, tokenizer: Tokenizer, max_length: int) -> SymbolReader:
        ids = {name: i for i, name in enumerate(self.names)}
        return SymbolReader(tokenizer, self.settings, max_length, lambda name: ids.get(name, -1))

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        from catena.kernels.bags.cpu_ngrams import insert_ngrams

        keys, ids = _empty_table(len(self))
        insert_ngrams(self.parents, self.lasts, 0, keys, ids)
        return keys, ids

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        keys = reference.trie_keys(self.parents, self.lasts)
        order = np.argsort(keys)
        return keys[order], order

    def _encode(self, rows: SymbolRows, found: np.ndarray, first: np.ndarray) -> int:
        from catena.kernels.bags.cpu_ngrams import look_up_ngrams

        return look_up_ngrams(
            rows.symbols, rows.first, rows.singles, rows.single_first, self.settings.ngrams, *self._table,
            self._distinct, found, first,
        )  # fmt: skip

    def _encode_few(self, rows: Sequence[np.ndarray], singles: Sequence[np.ndarray]) -> list[list[int]]:
        return reference.look_up_ngrams(rows, singles, self.settings.ngrams, *self._sorted)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"features.parents": self.parents, "features.lasts": self.lasts}

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / _SYMBOLS_FILE).write_text(json.dumps(self.names), encoding="utf-8")


class HashedNgrams(BagFeatures):
    """Features by a hash of their symbols. Nothing is stored; some features collide."""

    def __len__(self) -> int:
        assert self.settings.buckets is not None
        return self.settings.buckets

    def name(self, id: int) -> str:
        return f"bucket {id}"

    def reader(self, tokenizer: Tokenizer, max_length: int) -> SymbolReader:
        return SymbolReader(tokenizer, self.settings, max_length, hash_symbol)

    def _encode_few(self, rows: Sequence[np.ndarray], singles: Sequence[np.ndarray]) -> list[list[int]]:
        return reference.hash_ngrams(rows, singles, self.settings.ngrams, len(self))

    def _encode(self, rows: SymbolRows, found: np.ndarray, first: np.ndarray) -> int:
        from catena.kernels.bags.cpu_ngrams import hash_ngrams

        return hash_ngrams(
            rows.symbols, rows.first, rows.singles, rows.single_first, self.settings.ngrams, len(self),
            self._distinct, found, first,
        )  # fmt: skip


class NgramCounter:
    """Counts the n-grams of texts, with memory for the distinct ones only."""

    def __init__(self, settings: FeatureConfig) -> None:
        self.settings, self.n = settings, 0
        self._keys, self._ids = _empty_table(0)
        self._counts, self._parents, self._lasts = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)

    def add(self, rows: SymbolRows) -> None:
        """Count the n-grams of some texts."""
        from catena.kernels.bags.cpu_ngrams import count_ngrams

        for part in _in_parts(rows):
            self._make_room(len(part.symbols) * self.settings.ngrams + len(part.singles))
            self.n = count_ngrams(
                part.symbols, part.first, part.singles, self.settings.ngrams, self._keys, self._ids, self.n,
                self._counts, self._parents, self._lasts,
            )  # fmt: skip

    def finish(self, names: list[str], min_count: int, max_size: int | None) -> tuple[ListedNgrams, np.ndarray]:
        """The n-grams that are kept, and the new number of each symbol, -1 for those in no n-gram.

        N-grams of equal counts are in the order of their first occurrence. A prefix is counted at least as often as
        the n-gram and occurs no later, so it is kept if the n-gram is.

        Args:
            names: the symbols.
            min_count: keep n-grams that occur at least this often.
            max_size: keep at most this many, the most frequent ones.
        """
        counts = self._counts[: self.n]
        order = np.argsort(-counts, kind="stable")
        order = order[: min(int((counts >= min_count).sum()), self.n if max_size is None else max_size)]
        renumber = np.full(self.n + 1, -1, np.int32)  # the last entry is for the parent -1
        renumber[order] = np.arange(len(order), dtype=np.int32)
        used = np.unique(self._lasts[order])
        symbols = np.full(len(names), -1, np.int32)
        symbols[used] = np.arange(len(used), dtype=np.int32)
        kept = [names[i] for i in used.tolist()]
        listed = ListedNgrams(self.settings, kept, renumber[self._parents[order]], symbols[self._lasts[order]])
        return listed, symbols

    def _make_room(self, more: int) -> None:
        most = self.n + more
        if most > len(self._counts):
            size = max(most, len(self._counts) * 3 // 2)
            for name in ("_counts", "_parents", "_lasts"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros(size - len(old), old.dtype))))
        if 2 * most > len(self._keys):
            from catena.kernels.bags.cpu_ngrams import insert_ngrams

            self._keys, self._ids = _empty_table(most)
            insert_ngrams(self._parents[: self.n], self._lasts[: self.n], 0, self._keys, self._ids)


def _empty_table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """An open table for ``n`` keys: at most half of it is used."""
    size = max(_SMALLEST_TABLE, 1 << (2 * n - 1).bit_length() if n else 0)
    return np.zeros(size, np.uint64), np.zeros(size, np.int32)


def _in_parts(rows: SymbolRows) -> Iterable[SymbolRows]:
    """The rows in parts of about ``_BLOCK_SYMBOLS`` symbols."""
    begin = 0
    while begin < len(rows):
        limit = rows.first[begin] + _BLOCK_SYMBOLS
        end = max(begin + 1, int(np.searchsorted(rows.first, limit, side="right")) - 1)
        yield rows.take(np.arange(begin, end))
        begin = end


class _Saved(Config):
    settings: FeatureConfig


def load_features(folder: Path, arrays: dict[str, np.ndarray]) -> BagFeatures:
    """The features of a folder that ``save`` wrote, and their arrays."""
    settings = read_settings(folder / _SETTINGS_FILE, _Saved, "a folder of features", "a file of features").settings
    if settings.buckets is not None:
        return HashedNgrams(settings)
    names = read_stored(folder / _SYMBOLS_FILE, list[str])
    return ListedNgrams(settings, names, arrays["features.parents"], arrays["features.lasts"])
