"""Counts of a text that does not fit into memory: sorted runs on disk, merged, and a trie in mapped files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from catena.errors import ConfigError, DataError
from catena.kernels.ngram.cpu_counts import build_levels, distinct_rows, link_suffixes, merge_rows, sorted_positions
from catena.lm.ngram.array_storage import MappedSpace
from catena.lm.ngram.counts import NgramCounts
from catena.lm.ngram.reading import ProgressFn
from catena.lm.ngram.trie import IntegerArray, TrieLayout, check_ids, check_size

LEAST = 16 << 20
"""The minimum limit: below it, the tables of a vocabulary do not fit."""


class ExternalCounter:
    """Counts the n-grams of sentences, added in pieces, within about ``memory`` bytes.

    Args:
        order, v, begin, end, impossible: as for :func:`~catena.lm.ngram.counts.count_ids`.
        memory: the limit in bytes.
        folder: the folder of runs, which can be removed after :meth:`finish`.
    """

    def __init__(
        self, order: int, v: int, begin: int, end: int, impossible: Iterable[int], memory: int, folder: Path
    ) -> None:
        if memory < LEAST:
            raise ConfigError(f"memory must be at least {LEAST:,} bytes, got {memory:,}. Raise the limit.")
        self.order, self.v, self.begin, self.end, self.impossible = order, v, begin, end, tuple(impossible)
        self.memory, self.folder = memory, folder
        # A token in a chunk needs its id twice, its position twice, and a row.
        self.most = max(1 << 14, (memory // 4) // (4 * (order + 5)))
        self._waiting: list[IntegerArray] = []
        self._n = 0
        self._runs: list[Path] = []
        self._made = 0

    def add(self, tokens: IntegerArray) -> None:
        """Add whole sentences, each from begin to end."""
        check_ids("tokens", tokens, self.v)
        if len(tokens) and tokens[-1] != self.end:
            raise DataError(f"tokens must end with the end, {self.end}, got {tokens[-1]}. Add whole sentences.")
        for part in self._cut(tokens):
            self._waiting.append(part.copy())
            self._n += len(part)
            if self._n >= self.most:
                self._write_run()

    def _cut(self, tokens: IntegerArray) -> Iterator[IntegerArray]:
        """Parts that end with a sentence, about as long as the capacity of a chunk."""
        ends = np.flatnonzero(tokens == self.end) + 1
        low = 0
        while low < len(tokens):
            wanted = low + self.most - self._n
            place = min(int(np.searchsorted(ends, wanted)), len(ends) - 1)
            yield tokens[low : ends[place]]
            low = int(ends[place])

    def _path(self) -> Path:
        self._made += 1
        return self.folder / f"run-{self._made}"

    def _write_run(self) -> None:
        tokens = np.concatenate([*self._waiting, np.zeros(self.order, np.int32)])
        self._waiting, self._n = [], 0
        positions = sorted_positions(tokens, len(tokens) - self.order, self.order, self.v)
        rows = np.empty((len(positions) + 1) * (self.order + 1), np.int32)
        n = distinct_rows(tokens, positions, self.order, self.end, rows)
        self._runs.append(self._path())
        rows[: n * (self.order + 1)].tofile(self._runs[-1])

    def finish(self, space: MappedSpace, progress: ProgressFn | None = None) -> NgramCounts:
        """Merge all runs, and build their trie in mapped files."""
        if self._waiting or not self._runs:
            self._write_run()
        total = len(self._runs)
        while len(self._runs) > 1:
            a, b = self._runs.pop(0), self._runs.pop(0)
            self._runs.append(self._merged(a, b))
            if progress:
                progress("merging", 1.0 - (len(self._runs) - 1) / max(total - 1, 1))
        levels = self._levels(self._runs[0])
        self._runs[0].unlink()
        return self._counts(levels, space)

    # --- merging two runs ----------------------------------------------------------------------------------------

    def _merged(self, a: Path, b: Path) -> Path:
        width, path = self.order + 1, self._path()
        block = max(1024, self.memory // (16 * 4 * width))
        out = np.empty(block * width, np.int32)
        at = np.array([0, 0, 0, 0, 0, block])
        with open(a, "rb") as left, open(b, "rb") as right, open(path, "wb") as file:
            rows = [np.empty(0, np.int32), np.empty(0, np.int32)]
            streams = (left, right)
            while True:
                for side in (0, 1):
                    if at[side] == at[3 + side]:
                        rows[side] = np.fromfile(streams[side], np.int32, block * width)
                        at[side], at[3 + side] = 0, len(rows[side]) // width
                if not (at[3] and at[4]):
                    break
                merge_rows(rows[0], rows[1], at, width, out)
                out[: at[2] * width].tofile(file)
                at[2] = 0
            for side in (0, 1):
                rows[side][at[side] * width :].tofile(file)
                _copy(streams[side], file, block * width)
        a.unlink()
        b.unlink()
        return path

    # --- from a run to a trie ------------------------------------------------------------------------------------

    def _levels(self, run: Path) -> list[Path]:
        """For each length, a file of (word, count, children) of its nodes."""
        order, width = self.order, self.order + 1
        block = max(1024, self.memory // (64 * 4 * width))
        paths = [self.folder / f"level-{k}" for k in range(order + 1)]
        before, pending = np.full(order, -1, np.int32), np.full(3 * (order + 1), -1, np.int32)
        pending[:3] = 0
        nodes = np.empty(3 * (order + 1) * (block + 1), np.int32)
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(open(run, "rb"))
            files = [stack.enter_context(open(path, "wb")) for path in paths]  # the file of length 0 stays empty
            while len(rows := np.fromfile(stream, np.int32, block * width)):
                filled, n = np.zeros(order + 1, np.int64), len(rows) // width
                build_levels(rows, n, order, self.end, before, pending, nodes, filled)
                for k in range(1, order + 1):
                    start = 3 * k * (n + 1)
                    nodes[start : start + 3 * filled[k]].tofile(files[k])
            for k in range(1, order + 1):
                if pending[3 * k] >= 0:
                    pending[3 * k : 3 * k + 3].tofile(files[k])
        return paths

    def _counts(self, levels: list[Path], space: MappedSpace) -> NgramCounts:
        order, v = self.order, self.v
        sizes = [1, v, *(levels[k].stat().st_size // 12 for k in range(2, order + 1))]
        check_size(sum(sizes), "n-grams")
        bases = np.concatenate(([0], np.cumsum(sizes)))
        words, counts, suffix = (space.zeros(int(bases[-1]), np.int32) for _ in range(3))
        first = space.zeros(int(bases[order]) + 1, np.int32)
        first[0], first[1] = 1, 1 + v
        words[1 : 1 + v] = np.arange(v)
        for k in range(1, order + 1):
            low, child = int(bases[k]), int(bases[k + 1])
            for nodes in _blocks(levels[k], self.memory // 1024):
                if k == 1:
                    dense = np.zeros((v, 3), np.int32)
                    dense[nodes[:, 0]] = nodes
                    dense[:, 0] = np.arange(v)
                    nodes = dense
                high = low + len(nodes)
                words[low:high], counts[low:high] = nodes[:, 0], nodes[:, 1]
                if k < order:
                    first[low + 1 : high + 1] = child + np.cumsum(nodes[:, 2])
                    child = int(first[high])
                low = high
        for path in levels:
            path.unlink()
        counts[1 + self.begin] = 0
        link_suffixes(words, first, bases, suffix)
        return NgramCounts(
            TrieLayout(words, first, suffix, bases), counts, self.begin, self.end, self.impossible, space=space
        )


def _blocks(path: Path, rows: int) -> Iterator[np.ndarray]:
    """(word, count, children) of many nodes at a time; for length 1 all nodes in one block."""
    at_once = -1 if path.name == "level-1" else 3 * max(rows, 1024)
    with open(path, "rb") as stream:
        found = np.fromfile(stream, np.int32, at_once)
        while len(found) or at_once < 0:
            yield found.reshape(-1, 3)
            if at_once < 0:
                return
            found = np.fromfile(stream, np.int32, at_once)


def _copy(source: IO[bytes], target: IO[bytes], at_once: int) -> None:
    while len(rows := np.fromfile(source, np.int32, at_once)):
        rows.tofile(target)


def folder_for_runs() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder on disk for sorted runs."""
    return tempfile.TemporaryDirectory(prefix="catena-ngrams-")
