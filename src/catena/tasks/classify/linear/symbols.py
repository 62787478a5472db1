"""Texts as rows of symbols: the ids or hashes of tokens, and of the character n-grams inside them.

Most blank-separated chunks of running text were seen before, so a text is looked up chunk by chunk in a dictionary.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from catena.data.config import FeatureConfig
from catena.data.features import character_keys
from catena.data.tokenize import Tokenizer

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
