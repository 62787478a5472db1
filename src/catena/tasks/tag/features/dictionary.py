"""From sentences to feature ids: compiled loops fill in the templates, and a hash table assigns the ids.

Each distinct word is processed only once. Memory grows with the number of distinct words and features, and with the ids
of the text, four bytes each; encoding block by block needs memory for one block only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np
from jaxtyping import Int32, Int64, UInt64

from catena._lazy import LazyModule
from catena.accelerators import can_skip_kernels
from catena.errors import CheckpointError
from catena.kernels.features import reference
from catena.tasks.tag.features.templates import (
    FeatureFunction,
    Template,
    feature_functions,
    get_column,
    parse_templates,
    template_columns,
)
from catena.tasks.word_inputs.sentences import Sentence

_kernels = LazyModule("catena.kernels.features.cpu_keys")
_KEY_MICROSECONDS = 2
"""A rough estimate of the time of a key without kernels."""
BLOCK = 8192
"""Approximate number of tokens that are processed together."""
REMEMBERED = 500_000
"""Maximum number of distinct words whose features are cached while a text is read."""

_NAMES = "features.txt"


@dataclass(frozen=True, eq=False)
class FeatureIds:
    """The features of sentences; those of token ``i`` are ``ids[token_first[i] : token_first[i + 1]]``.

    Args:
        ids: features, token by token.
        token_first: the start of each token in ``ids``, and the end of the last one.
        first: the start of each sentence in the tokens, and the end of the last one.
    """

    ids: Int32[np.ndarray, " n"]
    token_first: Int64[np.ndarray, " m"]
    first: Int64[np.ndarray, " s"]

    @property
    def tokens(self) -> int:
        return len(self.token_first) - 1

    @property
    def sentences(self) -> int:
        return len(self.first) - 1

    @property
    def lengths(self) -> Int64[np.ndarray, " s"]:
        """Number of tokens of each sentence."""
        return np.diff(self.first)


class _Looked(dict[str, int]):
    """Ids of the distinct words of a column; ``numbers()[f, self[word]]`` is the hash of feature function ``f``."""

    def __init__(self, looks: Sequence[FeatureFunction], column: str | None) -> None:
        super().__init__()
        self.looks, self.column = looks, column
        self.new: list[list[int]] = []
        self.old = np.zeros((len(looks), 0), np.uint64)

    def __missing__(self, word: str) -> int:
        self.new.append([feature_hash(look.make(word)) for look in self.looks])
        self[word] = len(self)
        return self[word]

    def numbers(self) -> UInt64[np.ndarray, "f n"]:
        if self.new:
            self.old = np.concatenate((self.old, np.array(self.new, np.uint64).T), axis=1)
            self.new = []
        return self.old

    def forget(self) -> None:
        self.clear()
        self.new, self.old = [], self.old[:, :0]


def feature_hash(value: str | None) -> int:
    """64-bit hash of a value, the same on every machine; 0 for None."""
    if value is None:
        return 0
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return max(1, int.from_bytes(digest, "little"))


class KeyMaker:
    """Fills in templates, one block of sentences at a time."""

    def __init__(self, templates: Sequence[Template]) -> None:
        self.templates = tuple(templates)
        looks = feature_functions(templates)
        place = {look.name: i for i, look in enumerate(looks)}
        atoms = [atom for template in templates for atom in template.atoms]
        self.n_looks = len(looks)
        self.columns = template_columns(templates)
        self.looked = []
        for column in dict.fromkeys(look.column for look in looks):
            here = [look for look in looks if look.column == column]
            self.looked.append((_Looked(here, column), [place[look.name] for look in here]))
        self.seeds = np.array([feature_hash(str(template)) for template in templates], np.uint64)
        self.atom_first = np.cumsum([0, *(len(template.atoms) for template in templates)], dtype=np.int64)
        self.atom_function = np.array([place[atom.look.name] for atom in atoms], np.int64)
        self.atom_offset = np.array([atom.offset for atom in atoms], np.int64)

    def keys(
        self, sentences: Sequence[Sentence], first: Int64[np.ndarray, " s"], compiled: bool = True
    ) -> UInt64[np.ndarray, "n j"]:
        """``[i, j]`` is the key of template ``j`` at token ``i`` of the concatenated sentences."""
        values = np.zeros((max(1, self.n_looks), int(first[-1])), np.uint64)
        for looked, rows in self.looked:
            if len(looked) > REMEMBERED:
                looked.forget()
            fields = (field for sentence in sentences for field in get_column(sentence, looked.column, self.columns))
            at = np.fromiter(map(looked.__getitem__, fields), np.int64, int(first[-1]))
            values[rows] = looked.numbers()[:, at]
        keys = np.empty((int(first[-1]), len(self.templates)), np.uint64)
        fill_keys = _kernels.fill_keys if compiled else reference.fill_keys
        fill_keys(values, first, self.seeds, self.atom_first, self.atom_function, self.atom_offset, keys)
        return keys


def sentence_blocks(sentences: Iterable[Sentence], tokens: int = BLOCK) -> Iterator[list[Sentence]]:
    """Sentences in blocks of at least ``tokens`` tokens."""
    block: list[Sentence] = []
    held = 0
    for sentence in sentences:
        block.append(sentence)
        held += len(sentence)
        if held >= tokens:
            yield block
            block, held = [], 0
    if block:
        yield block


def sentence_starts(sentences: Sequence[Sentence]) -> Int64[np.ndarray, " s"]:
    """The start of each sentence if all are concatenated, and the end of the last one."""
    return np.cumsum([0, *map(len, sentences)], dtype=np.int64)


class FeatureDictionary:
    """The features of a model and their ids."""

    def __init__(
        self, templates: Sequence[Template], keys: UInt64[np.ndarray, " f"], names: Sequence[str] | None = None
    ) -> None:
        """Create a dictionary from the keys of the features in the order of their ids.

        Args:
            templates: the feature templates.
            keys: the key of each feature.
            names: the readable name of each feature; needed only to print and save them.
        """
        self.templates, self.keys, self.names = tuple(templates), keys, names
        self.of_pairs = np.zeros(len(keys), bool)
        """The features on pairs of tags; known only after :meth:`count`."""
        self._maker = KeyMaker(self.templates)

    @cached_property
    def _table(self) -> tuple[UInt64[np.ndarray, " n"], Int32[np.ndarray, " n"]]:
        """The hash table of the keys, and their ids."""
        size = _table_size(len(self.keys))
        table, ids = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        _kernels.insert_keys(self.keys, np.arange(len(self.keys), dtype=np.int32), table, ids)
        return table, ids

    def __len__(self) -> int:
        return len(self.keys)

    def encode(self, sentences: Sequence[Sentence]) -> FeatureIds:
        """The known features of sentences; unknown ones are dropped."""
        first = sentence_starts(sentences)
        if can_skip_kernels(_KEY_MICROSECONDS * (int(first[-1]) * len(self.templates) + len(self.keys) // 20)):
            ids = reference.look_up_keys(self._maker.keys(sentences, first, compiled=False), self.keys)
            starts = np.concatenate(([0], np.cumsum((ids >= 0).sum(1))))
            return FeatureIds(ids[ids >= 0], starts, first)
        keep = np.arange(max(1, len(self.keys)), dtype=np.int32)

        def numbered(block: Sequence[Sentence]) -> Int32[np.ndarray, "n j"]:
            keys = self._maker.keys(block, sentence_starts(block))
            ids = np.empty(keys.shape, np.int32)
            _kernels.look_up_keys(keys, *self._table, ids)
            return ids

        return _packed((numbered(block) for block in sentence_blocks(sentences)), keep, first)

    def kept(self, chosen: Int64[np.ndarray, " n"]) -> FeatureDictionary:
        """A dictionary with some of the features, in the given order."""
        names = None if self.names is None else [self.names[i] for i in chosen]
        return FeatureDictionary(self.templates, self.keys[chosen], names)

    # --- counting ---------------------------------------------------------------------------------------------------

    @classmethod
    def count(
        cls, sentences: Sequence[Sentence], templates: Sequence[Template], minimum_count: int = 1
    ) -> tuple[FeatureDictionary, FeatureIds]:
        """Number all features with at least ``minimum_count`` occurrences, and encode the sentences."""
        counter = _Counter(templates)
        raw = [counter.enter(block) for block in sentence_blocks(sentences)]
        keep = np.flatnonzero(counter.counts[: counter.n] >= minimum_count)
        renumber = np.full(max(1, counter.n), -1, np.int32)
        renumber[keep] = np.arange(len(keep), dtype=np.int32)
        encoded = _packed(iter(raw), renumber, sentence_starts(sentences))
        names = _names(sentences, templates, counter.places[keep])
        counted = cls(templates, counter.keys(keep), names)
        counted.of_pairs = np.array([one.pairs for one in templates], bool)[counter.places[keep] % len(templates)]
        return counted, encoded

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the names of the features, one per line; their keys are stored with the weights."""
        assert self.names is not None
        text = "".join(name.replace("\n", "\\n") + "\n" for name in self.names)
        (folder / _NAMES).write_bytes(text.encode("utf-8", "backslashreplace"))

    @classmethod
    def load(cls, folder: Path, templates: Sequence[str], keys: UInt64[np.ndarray, " f"]) -> FeatureDictionary:
        """The dictionary of a model folder."""
        try:
            names = (folder / _NAMES).read_bytes().decode("utf-8").split("\n")[:-1]
        except OSError as error:
            raise CheckpointError(f"{folder / _NAMES} cannot be read ({error}). Copy the model again.") from None
        if len(names) != len(keys):
            raise CheckpointError(
                f"{folder / _NAMES} must have {len(keys)} features, got {len(names)}. Copy the model again."
            )
        return cls(parse_templates(templates), keys, names)


class _Counter:
    """Assigns ids to the features of blocks of sentences."""

    def __init__(self, templates: Sequence[Template]) -> None:
        self.maker = KeyMaker(templates)
        self.n = self.entries = 0
        size = _table_size(BLOCK)
        self.table, self.table_ids = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        self.counts, self.places = np.zeros(size, np.int64), np.zeros(size, np.int64)

    def enter(self, block: Sequence[Sentence]) -> Int32[np.ndarray, "n j"]:
        """The ids of the features of a block, by token and template; -1 if there is none."""
        keys = self.maker.keys(block, sentence_starts(block))
        self._make_room(keys.size)
        ids = np.empty(keys.shape, np.int32)
        before = self.n
        self.n = _kernels.enter_keys(keys, self.table, self.table_ids, self.n, self.counts, self.places, ids)
        self.places[before : self.n] += self.entries
        self.entries += keys.size
        return ids

    def keys(self, chosen: Int64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
        """The keys of features, given their ids."""
        there = np.flatnonzero(self.table)
        keys = np.zeros(max(1, self.n), np.uint64)
        keys[self.table_ids[there]] = self.table[there]
        return keys[chosen]

    def _make_room(self, more: int) -> None:
        size = _table_size(self.n + more)
        if size > len(self.table):
            table, ids = np.zeros(size, np.uint64), np.zeros(size, np.int32)
            _kernels.insert_keys(self.table, self.table_ids, table, ids)
            self.table, self.table_ids = table, ids
            self.counts, self.places = (np.resize(x, size) for x in (self.counts, self.places))
            self.counts[self.n :] = 0


def _table_size(entries: int) -> int:
    """A power of two that is at least twice ``entries``."""
    return 1 << max(4, (2 * entries).bit_length())


def _packed(
    blocks: Iterator[Int32[np.ndarray, "n j"]], renumber: Int32[np.ndarray, " k"], first: Int64[np.ndarray, " s"]
) -> FeatureIds:
    parts: list[np.ndarray] = []
    token_first = np.zeros(int(first[-1]) + 1, np.int64)
    token = total = 0
    for ids in blocks:
        starts, packed = np.empty(len(ids) + 1, np.int64), np.empty(max(1, ids.size), np.int32)
        n = _kernels.packed_ids(ids, renumber, starts, packed)
        parts.append(packed[:n].copy())
        token_first[token : token + len(ids) + 1] = starts + total
        token, total = token + len(ids), total + n
    return FeatureIds(np.concatenate(parts) if parts else np.zeros(0, np.int32), token_first, first)


def _names(sentences: Sequence[Sentence], templates: Sequence[Template], places: Int64[np.ndarray, " n"]) -> list[str]:
    """Readable names of features, from their first occurrence."""
    if not len(places):
        return []
    first = sentence_starts(sentences)
    tokens, numbers = np.divmod(places, len(templates))
    owners = np.searchsorted(first, tokens, side="right") - 1
    columns = template_columns(templates)
    return [
        str(templates[j].filled(sentences[s], i, columns))
        for s, i, j in zip(owners.tolist(), (tokens - first[owners]).tolist(), numbers.tolist(), strict=True)
    ]
