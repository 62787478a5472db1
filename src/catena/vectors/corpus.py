"""Text as a memory-mapped array of word ids, from files, lines or lists of words.

A text is read once. A compiled loop splits bytes into words and numbers them. The ids go to a temporary file, which is
memory-mapped, so memory grows with the vocabulary and not with the text. Then rare words are dropped and the others are
numbered by frequency. Line ends are kept: windows do not cross them, and a line is a document.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int

from catena.data.config import TokenizerConfig, WhitespaceTokenizerConfig
from catena.data.formats import read_texts, text_format
from catena.data.lines import byte_blocks
from catena.data.tokenize import build_tokenizer
from catena.errors import DataError
from catena.kernels.ngram.cpu_text import BLANK, KINDS, LETTER, insert_keys, tokenize_lines
from catena.kernels.ngram.cpu_text import LINE_END as ENDS_A_LINE
from catena.kernels.word2vec.cpu_sampling import LINE_END
from catena.kernels.word2vec.cpu_words import count_ids, renumber_ids
from catena.vectors.config import PhraseConfig, WordConfig
from catena.vectors.phrases import join_phrases
from catena.vectors.word_index import WordIndex

UNKNOWN = -2
"""A word without an id. It never appears in results."""

_LISTED = np.full(256, LETTER, np.uint8)
"""Byte classes for text that is split already: NUL ends a word, a line feed ends a line."""
_LISTED[0], _LISTED[10] = BLANK, ENDS_A_LINE

TOGETHER = 1 << 20
"""Bytes of short texts that are passed to the loop in one call."""

_Source = Sequence[Path | str] | Iterable[str] | Iterable[Sequence[str]]


@dataclass(frozen=True, eq=False)
class VectorCorpus:
    """A text as ids of its words, ``LINE_END`` after each line.

    Args:
        ids: the text without rare words.
        words: the words by id, the most frequent first.
        read: number of words read, including rare ones.
        lines: number of lines.
        notes: sentences about what was dropped.
    """

    ids: Int[np.ndarray, " n"]
    words: WordIndex
    read: int
    lines: int
    notes: tuple[str, ...] = ()
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Number of words without the rare ones."""
        return len(self.ids) - self.lines


def corpus_of_files(
    paths: Sequence[Path | str],
    words: WordConfig,
    phrases: PhraseConfig,
    *,
    tokens: TokenizerConfig | None = None,
    encoding: str | None = None,
    format: str = "auto",
    text_column: str | None = None,
    known: WordIndex | None = None,
) -> VectorCorpus:
    """Read text files in order. A line is a sentence or a document; words are separated by blanks.

    Args:
        paths: the files, plain or compressed. Of tables (.csv, .tsv, .jsonl, .parquet) one column is read.
        words: which words get ids.
        phrases: which neighbors are joined.
        tokens: how lines are tokenized, if not at blanks.
        encoding: encoding of the files. UTF-8 if omitted.
        format: format of the files, by their extensions if omitted. ``text`` reads the lines of any file.
        text_column: column of tables, detected by name if omitted.
        known: words of an older model, which keep their ids. New words follow.
    """
    if not paths:
        raise DataError("There are no training files. Pass at least one file.")
    tokens = tokens or WhitespaceTokenizerConfig()
    plain = isinstance(tokens, WhitespaceTokenizerConfig) and tokens == WhitespaceTokenizerConfig(
        lowercase=tokens.lowercase
    )
    texts = partial(read_texts, format=format, text_column=text_column, encoding=encoding)
    tokenizer = None if plain else build_tokenizer(tokens, chain.from_iterable(map(texts, paths)))
    scanner = _Scanner(words.scan_limit, known, KINDS if plain else _LISTED)
    for path in paths:
        if tokenizer is None:
            lines = byte_blocks(path, encoding) if text_format(path, format) == "text" else _as_lines(texts(path))
            for block in lines:
                scanner.feed(block.decode().lower().encode() if tokens.lowercase else block)
        else:
            for block in _joined(tokenizer.tokens(text) for text in texts(path)):
                scanner.feed(block)
        scanner.end_line()
    return scanner.corpus(words, phrases, f"{', '.join(map(str, paths[:3]))}{'…' if len(paths) > 3 else ''}")


def corpus_of_sentences(
    sentences: Iterable[Sequence[str]], words: WordConfig, phrases: PhraseConfig, *, known: WordIndex | None = None
) -> VectorCorpus:
    """Read lists of words, such as the output of a tokenizer. A word must not contain NUL or line feed."""
    scanner = _Scanner(words.scan_limit, known, _LISTED)
    for block in _joined(sentences):
        scanner.feed(block)
    return scanner.corpus(words, phrases, "the sentences")


def ids_of_sentences(sentences: Iterable[Sequence[str]], known: WordIndex) -> tuple[Int[np.ndarray, " n"], int]:
    """The ids of known words, with ``LINE_END`` after each sentence, and the number of unknown words."""
    scanner = _Scanner(len(known), known, _LISTED)
    for block in _joined(sentences):
        scanner.feed(block)
    ids = scanner.ids()
    kept = ids[ids != UNKNOWN]
    return kept.astype(np.int32), len(ids) - len(kept)


def _as_lines(texts: Iterable[str]) -> Iterator[bytes]:
    """Each text as one line, with its own line ends removed."""
    return (f"{' '.join(text.splitlines())}\n".encode("utf-8", "surrogatepass") for text in texts)


def _joined(sentences: Iterable[Sequence[str]]) -> Iterator[bytes]:
    held: list[str] = []
    size = 0
    for sentence in sentences:
        if isinstance(sentence, str):
            raise DataError(
                f"A sentence must be a list of words, got the string {sentence[:40]!r}. Split it into words first, for "
                f"example with .split()."
            )
        line = "\0".join(sentence)
        if "\n" in line or line.count("\0") >= max(1, len(sentence)):
            raise DataError(
                f"A word must not contain a line feed or NUL, got one of {list(sentence)[:5]!r}. Remove it."
            )
        held.append(line + "\n")
        size += len(line) + 1
        if size > TOGETHER:
            yield "".join(held).encode("utf-8", "surrogatepass")
            held, size = [], 0
    yield "".join(held).encode("utf-8", "surrogatepass")


class _Scanner:
    """Numbers words by first occurrence, and writes the ids to a file."""

    def __init__(self, limit: int, known: WordIndex | None, kinds: np.ndarray) -> None:
        self.known = len(known) if known is not None else 0
        self.limit, self.kinds = max(limit, self.known), kinds
        self.keys, self.values = np.zeros(1 << 16, np.uint64), np.zeros(1 << 16, np.int32)
        self.names, self.ends = np.zeros(1 << 20, np.uint8), np.zeros(1 << 15, np.int64)
        self.counts = np.zeros(1 << 15, np.int64)
        self.at = np.zeros(4, np.int64)
        self.read = self.lines = self.unknown = 0
        self.old_counts = np.zeros(0, np.int64)
        self.folder = tempfile.TemporaryDirectory(prefix="catena-corpus-")
        self.file = open(Path(self.folder.name) / "ids", "wb")  # noqa: SIM115
        if known is not None and len(known):
            self._enter(known)

    def _enter(self, known: WordIndex) -> None:
        keys, values = known._table
        self.keys, self.values = keys.copy(), values.copy()
        self.names, self.old_counts = known.names.copy(), known.counts.copy()
        self.ends = known.ends.copy()
        self.counts = np.zeros(len(known), np.int64)
        self.at[3] = len(known)

    @property
    def types(self) -> int:
        return int(self.at[3])

    def feed(self, block: bytes) -> None:
        """Number the words of a block, which ends after a word."""
        data = np.frombuffer(block, np.uint8)
        out = np.empty(len(data) + 2, np.int32)
        self.at[0] = self.at[2] = 0
        while True:
            if self.types < self.limit:
                self._make_room(len(data) - int(self.at[0]))
            full = self.types >= self.limit
            most, new = (0, UNKNOWN) if full else (min(len(self.ends), len(self.keys) // 2, self.limit), 0)
            tokenize_lines(
                data,
                self.at,
                self.keys,
                self.values,
                self.names,
                self.ends,
                out,
                self.kinds,
                most,
                new,
                -1,
                LINE_END,
                0,
            )
            if self.at[0] >= len(data):
                break
        self._write(out[: int(self.at[2])])

    def _make_room(self, size: int) -> None:
        used = int(self.ends[self.types - 1]) if self.types else 0
        if len(self.names) < used + size:
            self.names = _grown(self.names, max(used + size, 2 * len(self.names)))
        if self.types + 1 >= len(self.ends):
            self.ends = _grown(self.ends, 2 * len(self.ends) + 2)
        self.counts = _grown(self.counts, len(self.ends)) if len(self.counts) < len(self.ends) else self.counts
        if 2 * (self.types + 1) >= len(self.keys):
            keys, values = np.zeros(4 * len(self.keys), np.uint64), np.zeros(4 * len(self.keys), np.int32)
            insert_keys(self.keys, self.values, keys, values)
            self.keys, self.values = keys, values

    def _write(self, ids: np.ndarray) -> None:
        ids = np.ascontiguousarray(ids)
        count_ids(ids, len(ids), self.counts)
        ends = int((ids == LINE_END).sum())
        self.unknown += int((ids == UNKNOWN).sum())
        self.lines += ends
        self.read += len(ids) - ends
        self.file.write(ids.tobytes())

    def end_line(self) -> None:
        """End a line that a file does not end."""
        if self.at[1]:
            self._write(np.array([LINE_END], np.int32))
            self.at[1] = 0

    def ids(self) -> np.ndarray:
        """The written ids, memory-mapped."""
        self.end_line()
        self.file.close()
        path = Path(self.folder.name) / "ids"
        if not path.stat().st_size:
            return np.zeros(0, np.int32)
        return np.memmap(path, np.int32, "r+")

    def corpus(self, settings: WordConfig, phrases: PhraseConfig, name: str) -> VectorCorpus:
        """Drop rare words, join phrases, and number the rest by frequency. Known words keep their ids."""
        ids = self.ids()
        if not self.read:
            raise DataError(f"{name} has no words. Pass a file with text.")
        types = self.types
        words = WordIndex(self.names[: int(self.ends[types - 1])], self.ends[:types].copy(), self.counts[:types].copy())
        notes = []
        if self.unknown:
            notes.append(
                f"{self.unknown:,} words that first occurred after words.scan_limit = {self.limit:,} distinct words "
                f"were dropped"
            )
        ids, words, joined = join_phrases(ids, words, phrases)
        if phrases.passes:
            notes.append(f"{joined:,} phrases were joined")
        order = chosen_words(words.counts, settings, self.known)
        if len(order) < 2:
            raise DataError(
                f"At least 2 words must occur words.min_count = {settings.min_count} times, got {len(order)} in {name} "
                f"({self.read:,} words, {len(words):,} distinct). Lower --min-count, or add text."
            )
        new = np.full(len(words), -1, np.int32)
        new[order] = np.arange(len(order), dtype=np.int32)
        n = renumber_ids(np.asarray(ids), new, LINE_END)
        kept = words.take(order)
        kept.counts[: self.known] += self.old_counts
        corpus = VectorCorpus(ids[:n], kept, self.read, self.lines, tuple(notes), self.folder)
        weakref.finalize(corpus, self.folder.cleanup)
        return corpus


def chosen_words(counts: Int[np.ndarray, " v"], settings: WordConfig, known: int = 0) -> Int[np.ndarray, " n"]:
    """The ids of the words to keep: known ones first, then the others in descending order of frequency."""
    order = np.argsort(-counts, kind="stable")
    order = order[(counts[order] >= settings.min_count) & (order >= known)]
    most = len(order) if settings.max_size is None else max(0, settings.max_size - known)
    return np.concatenate([np.arange(known), order[:most]]).astype(np.int64)


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    grown = np.zeros(size, array.dtype)
    grown[: len(array)] = array
    return grown
