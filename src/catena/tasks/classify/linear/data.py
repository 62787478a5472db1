"""Training data of linear classifiers: files as rows of feature ids in compact arrays.

Rows of integers in compact arrays, in a temporary file if there are many, so that memory does not grow with them.

Files are read block by block rather than mapped, because the pages of a mapped file count as memory of the process.

Tested in tests/tasks/classify/linear/test_storage.py and tests/tasks/classify/linear/test_task.py.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import numpy as np

from catena.data.config import FeatureConfig
from catena.data.examples import LabeledText
from catena.data.reading import LONGEST_DOCUMENT
from catena.data.tokenize import Tokenizer
from catena.errors import DataError
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.data import hash_text, is_split_by_limits, split_by_limits, split_texts, why_unusable
from catena.tasks.classify.linear.features import (
    BagFeatures,
    FeatureRows,
    HashedNgrams,
    NgramCounter,
    SymbolReader,
    SymbolRows,
    hash_symbol,
    row_starts,
    take_rows,
)
from catena.tasks.sources import Sources

IN_MEMORY = 64 * 2**20
"""Bytes of one array that are kept in memory before they are moved to a file."""
WHOLE = 2**25
"""Number of feature ids that are loaded together: all texts are shuffled together if they have no more."""


class Spool:
    """An array that grows at its end and is read in slices."""

    def __init__(self, dtype: type[np.generic] = np.int32) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None
        self._saved = self._waiting = 0

    def __len__(self) -> int:
        return self._saved + self._waiting

    def append(self, values: np.ndarray) -> None:
        self._parts.append(np.ascontiguousarray(values, self._dtype))
        self._waiting += len(values)
        if self._waiting * self._dtype.itemsize >= IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="catena-rows-")  # noqa: SIM115 (lives as long as the array)
        self._file.seek(0, 2)
        for part in self._parts:
            part.tofile(self._file)
        self._saved += self._waiting
        self._parts, self._waiting = [], 0

    def read(self, low: int, high: int) -> np.ndarray:
        """The values from ``low`` to ``high - 1``."""
        if self._file is None:
            if len(self._parts) != 1:
                self._parts = [np.concatenate(self._parts) if self._parts else np.zeros(0, self._dtype)]
            return self._parts[0][low:high]
        if self._waiting:
            self._flush()
        self._file.seek(low * self._dtype.itemsize)
        return np.fromfile(self._file, self._dtype, max(0, high - low))


class RowSpool:
    """Rows of integers of different lengths, appended and read in chunks."""

    def __init__(self) -> None:
        self._flat, self._sizes = Spool(), Spool()
        self.ends: list[tuple[int, int]] = [(0, 0)]
        """The number of rows and of values up to each chunk."""
        self.longest = 0

    def append(self, flat: np.ndarray, first: np.ndarray) -> None:
        sizes = np.diff(first)
        self._flat.append(flat)
        self._sizes.append(sizes)
        self.ends.append((len(self._sizes), len(self._flat)))
        self.longest = max(self.longest, int(sizes.max(initial=0)))

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def n_values(self) -> int:
        return len(self._flat)

    def read(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """The values of a chunk, and where each of its rows begins."""
        (row, at), (row_end, end) = self.ends[chunk], self.ends[chunk + 1]
        return self._flat.read(at, end), row_starts(self._sizes.read(row, row_end))


@dataclass(frozen=True, eq=False)
class StoredTexts:
    """The features and the gold labels of texts, in chunks.

    Args:
        features: the rows of features.
        gold: the index of the set of gold labels of each text.
        sets: the sets of labels; equal ones differ in their weight.
        set_weights: the weight of each text with a set.
    """

    features: RowSpool
    gold: Spool
    sets: list[tuple[str, ...]]
    set_weights: np.ndarray

    def append(self, rows: FeatureRows, gold: np.ndarray) -> None:
        self.features.append(rows.ids, rows.first)
        self.gold.append(gold)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_chunks(self) -> int:
        return len(self.features.ends) - 1

    def read(self, chunk: int) -> tuple[FeatureRows, np.ndarray]:
        """The features and the gold sets of a chunk."""
        low, high = self.features.ends[chunk][0], self.features.ends[chunk + 1][0]
        return FeatureRows(*self.features.read(chunk)), self.gold.read(low, high)

    def count_sets(self) -> dict[tuple[str, ...], int]:
        """The number of texts with each set of labels that occurs."""
        counts = np.zeros(len(self.sets), np.int64)
        for chunk in range(self.n_chunks):
            low, high = self.features.ends[chunk][0], self.features.ends[chunk + 1][0]
            counts += np.bincount(self.gold.read(low, high), minlength=len(counts))
        total: Counter[tuple[str, ...]] = Counter()
        for labels, n in zip(self.sets, counts.tolist(), strict=True):
            total[labels] += n
        return {labels: n for labels, n in total.items() if n}

    def gather(self, chunks: np.ndarray) -> tuple[FeatureRows, np.ndarray, np.ndarray]:
        """The features, the gold sets and the indices of the texts of several chunks."""
        begins, ends = np.array(self.features.ends)[chunks], np.array(self.features.ends)[chunks + 1]
        n_rows, n_values = (ends - begins).sum(0).tolist()
        ids, first = np.empty(n_values, np.int32), np.zeros(n_rows + 1, np.int64)
        gold, index = np.empty(n_rows, np.int32), np.empty(n_rows, np.int64)
        row = value = 0
        for chunk, begin in zip(chunks.tolist(), begins[:, 0].tolist(), strict=True):
            rows, own = self.read(chunk)
            place = slice(row, row + len(rows))
            ids[value : value + len(rows.ids)] = rows.ids
            first[row + 1 : row + len(rows) + 1] = rows.first[1:] + value
            gold[place], index[place] = own, np.arange(begin, begin + len(rows))
            row, value = row + len(rows), value + len(rows.ids)
        return FeatureRows(ids, first), gold, index

    def groups(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Consecutive chunks of ``order``, of about ``WHOLE`` feature ids together."""
        begin = size = 0
        for at, chunk in enumerate(order.tolist()):
            own = self.features.ends[chunk + 1][1] - self.features.ends[chunk][1]
            if at > begin and size + own > WHOLE:
                yield order[begin:at]
                begin, size = at, 0
            size += own
        if begin < len(order):
            yield order[begin:]


# --- training files ---------------------------------------------------------------------------------------------------


PARTS = ("train", "dev", "test")
_CHUNK = 2**13
"""Number of texts that are read and encoded together."""
_ALL = 2**31
"""A number of tokens that no text has."""
_SLICE = 2**20
"""Number of values of a long array that are read together."""


@dataclass(frozen=True, eq=False)
class SymbolStore:
    """The texts of all files as symbols, in chunks.

    Args:
        tokenizer: the tokenizer of the texts.
        names: the symbols; empty if they are hashes.
        symbols, singles: the rows of symbols and of character n-grams.
        gold: the index of the set of gold labels of each text.
        sets: the sets of labels; equal ones differ in their weight.
        set_weights: the weight of each text with a set.
        part: 0, 1 or 2 for each text of train, dev and test.
        train_on_dev: whether the texts of dev are also in train.
    """

    tokenizer: Tokenizer
    names: list[str]
    symbols: RowSpool
    singles: RowSpool
    gold: Spool
    sets: list[tuple[str, ...]]
    set_weights: np.ndarray
    part: np.ndarray
    train_on_dev: bool

    def read(self) -> Iterator[tuple[SymbolRows, np.ndarray, np.ndarray]]:
        """The rows, the gold sets and the parts of each chunk."""
        for chunk in range(len(self.symbols.ends) - 1):
            low, high = self.symbols.ends[chunk][0], self.symbols.ends[chunk + 1][0]
            rows = SymbolRows(*self.symbols.read(chunk), *self.singles.read(chunk))
            yield rows, self.gold.read(low, high), self.part[low:high]

    def rows_of(self, name: str, part: np.ndarray) -> np.ndarray:
        """The indices of the texts of a part, given the parts of some texts."""
        own = part == PARTS.index(name)
        return np.flatnonzero(own | (part == 1) if name == "train" and self.train_on_dev else own)

    def sets_of(self, *parts: str) -> list[tuple[str, ...]]:
        """The sets of labels that occur in these parts."""
        wanted = [PARTS.index(part) for part in parts]
        counts = np.zeros(len(self.sets), np.int64)
        for low in range(0, len(self.gold), _SLICE):
            own = np.isin(self.part[low : low + _SLICE], wanted)
            gold = self.gold.read(low, min(low + _SLICE, len(self.gold)))
            counts += np.bincount(gold[own], minlength=len(counts))
        return [self.sets[i] for i in np.flatnonzero(counts).tolist()]


class _Numbers(dict[str, int]):
    """Numbers symbols in the order of their first occurrence."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


class _Chunk:
    """Texts that are stored together, in flat lists of integers.

    A list for each text would be visited by Python's garbage collector again and again.
    """

    def __init__(self) -> None:
        self.n_read = 0
        self.symbols: list[int] = []
        self.singles: list[int] = []
        self.ends, self.single_ends = [0], [0]
        self.gold: list[int] = []
        self.hashes: list[int] = []

    def add(self, symbols: list[int], singles: list[int]) -> None:
        self.symbols += symbols
        self.ends.append(len(self.symbols))
        self.singles += singles
        self.single_ends.append(len(self.singles))


def longest_text(config: ClassifyConfig) -> int:
    """Number of tokens of a text that are read; all of them for ``tfidf``, as other libraries read long documents."""
    return _ALL if config.model.kind == "tfidf" else config.data.max_length


def drop_length(config: ClassifyConfig) -> int | None:
    """Number of tokens above which training texts are dropped; None if they are cut."""
    if config.data.too_long == "cut":
        return None
    longest = config.data.max_length
    return max(longest, LONGEST_DOCUMENT) if config.model.kind == "tfidf" else longest


class _Builder:
    """Reads texts into a :class:`SymbolStore`."""

    def __init__(self, config: ClassifyConfig, tokenizer: Tokenizer) -> None:
        self.config, self.tokenizer, self.numbers = config, tokenizer, _Numbers()
        settings = feature_settings(config)
        number = hash_symbol if settings.buckets else self.numbers.__getitem__
        self.reader = SymbolReader(tokenizer, settings, longest_text(config), number)
        self.symbols, self.singles = RowSpool(), RowSpool()
        self.gold, self.hashes = Spool(), Spool(np.uint64)
        self.sets: dict[tuple[tuple[str, ...], float], int] = {}
        self.needs_hashes = False

    def add(self, sources: Sources[LabeledText], part: str) -> None:
        """Store the usable texts of a part; the others are dropped and counted."""
        longest = longest_text(self.config)
        limit = drop_length(self.config)
        examples = sources.read(part)
        while True:
            chunk = _Chunk()
            for example in islice(examples, _CHUNK):
                chunk.n_read += 1
                row, grams = self.reader.read_text(example.text)
                if reason := why_unusable(example, row, self.config, part, limit):
                    sources.counter.drop(reason, example.location, example.text)
                    continue
                chunk.add(row[:longest], grams)
                chunk.gold.append(self.sets.setdefault((example.labels, example.weight), len(self.sets)))
                if self.needs_hashes:
                    chunk.hashes.append(hash_text(example.text))
            if not chunk.n_read:
                return
            self._store(chunk)

    def _store(self, chunk: _Chunk) -> None:
        self.symbols.append(np.array(chunk.symbols, np.int32), np.array(chunk.ends, np.int64))
        self.singles.append(np.array(chunk.singles, np.int32), np.array(chunk.single_ends, np.int64))
        self.gold.append(np.array(chunk.gold, np.int32))
        if self.needs_hashes:
            self.hashes.append(np.array(chunk.hashes, np.uint64))

    def finish(self, ranges: dict[str, range]) -> SymbolStore:
        sets, n = [labels for labels, _ in self.sets], len(self.gold)
        weights = np.array([weight for _, weight in self.sets], np.float64)
        part = np.zeros(n, np.int8)
        for name, rows in ranges.items():
            part[rows.start : rows.stop] = PARTS.index(name)
        if self.needs_hashes and is_split_by_limits(self.config, len(ranges["train"])):
            for low in range(0, len(ranges["train"]), _SLICE):
                own = slice(low, min(low + _SLICE, len(ranges["train"])))
                part[own] = split_by_limits(self.config, self.hashes.read(own.start, own.stop), ranges)
        elif self.needs_hashes:
            hashes, gold = self.hashes.read(0, n), self.gold.read(0, n)
            parts = {name: np.arange(rows.start, rows.stop) for name, rows in ranges.items()}
            for name, index in split_texts(self.config, hashes, _LabelList(sets, gold), parts).items():
                part[index] = PARTS.index(name)
        return SymbolStore(
            self.tokenizer, list(self.numbers), self.symbols, self.singles, self.gold, sets, weights, part,
            self.config.data.train_on_dev and "dev" not in ranges,
        )  # fmt: skip


class _LabelList(Sequence[tuple[str, ...]]):
    """The labels of each text, by its index."""

    def __init__(self, sets: list[tuple[str, ...]], gold: np.ndarray) -> None:
        self.sets, self.gold = sets, gold.tolist()

    def __getitem__(self, i: Any) -> Any:
        return self.sets[self.gold[i]]

    def __len__(self) -> int:
        return len(self.gold)


def feature_settings(config: ClassifyConfig) -> FeatureConfig:
    """The features of a config, with the larger of both minimum counts."""
    settings, limits = config.model.features, config.vocabulary  # type: ignore[union-attr]
    if settings.buckets:
        return settings
    return settings.model_copy(update={"min_count": max(settings.min_count, limits.min_count)})


def store_symbols(config: ClassifyConfig, sources: Sources[LabeledText], tokenizer: Tokenizer) -> SymbolStore:
    """Tokenize the texts of all files once and split them; drop and count those that training cannot use."""
    builder = _Builder(config, tokenizer)
    splits = config.data.splits(has_dev="dev" in sources, has_test="test" in sources, seed=config.seed)
    builder.needs_hashes = bool(splits.folds or splits.dev_fraction or splits.test_fraction)
    ranges = {}
    for part in PARTS:
        if part == "train" or part in sources:
            first = len(builder.gold)
            builder.add(sources, part)
            ranges[part] = range(first, len(builder.gold))
            sources.check(part, len(ranges[part]))
    with sources.explaining():
        return builder.finish(ranges)


def learn_features(
    config: ClassifyConfig, store: SymbolStore, most: int | None
) -> tuple[BagFeatures, np.ndarray | None]:
    """At most ``most`` features of the training texts, and the new number of each symbol if they are listed."""
    settings = feature_settings(config)
    if settings.buckets:
        return HashedNgrams(settings), None
    counter = NgramCounter(settings)
    for rows, _, part in store.read():
        counter.add(rows.take(store.rows_of("train", part)))
    listed, mapping = counter.finish(store.names, settings.min_count, most)
    if not len(listed) and settings.min_count > 1:
        raise DataError(
            f"min_count must be at most the count of the most frequent feature of the training texts, got "
            f"{settings.min_count}. Lower --min-count."
        )
    return listed, mapping


def match_symbols(features: BagFeatures, store: SymbolStore, max_length: int) -> np.ndarray | None:
    """The number that an older model has for each symbol, -1 if it has none; None if symbols are hashes."""
    if not store.names:
        return None
    number = features.reader(store.tokenizer, max_length).number
    return np.array([number(name) for name in store.names], np.int32)


def encode_parts(features: BagFeatures, store: SymbolStore, mapping: np.ndarray | None) -> dict[str, StoredTexts]:
    """The features of train, dev and test."""
    parts = {name: StoredTexts(RowSpool(), Spool(), store.sets, store.set_weights) for name in PARTS}
    for symbols, gold, part in store.read():
        rows = features.encode(symbols if mapping is None else symbols.renumbered(mapping))
        for name in PARTS:
            own = store.rows_of(name, part)
            if len(own):
                parts[name].append(FeatureRows(*take_rows(rows.ids, rows.first, own)), gold[own])
    return parts
