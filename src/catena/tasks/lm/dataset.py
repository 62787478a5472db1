"""From files to ids: read lines, tokenize, split, build the vocabulary, encode.

A text is stored as ids in one flat array (on disk if it is large), the end of each line, and its number of characters
and bytes, so that scores per character and per byte refer to the original text.
"""

from __future__ import annotations

import array
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from catena.data.config import VocabularyConfig
from catena.data.corpus import IN_MEMORY, Corpus, CorpusBuilder
from catena.data.texts import read_texts
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import UNK, UNK_SYMBOL, Vocabulary
from catena.errors import DataError
from catena.lm.base import END_SYMBOL
from catena.randomness import Randomness
from catena.tasks.lm.config import LmConfig, LmDataConfig
from catena.tasks.lm.encoding import LmEncoding, line_tokens, special_tokens


@dataclass(frozen=True, eq=False)
class TextPart:
    """Lines of a text as ids.

    Args:
        corpus: the ids with an end symbol after every line, or after every file if a file is one text.
        characters: number of Unicode characters of the lines; each line break counts as one.
        bytes: number of UTF-8 bytes of the lines; each line break counts as one.
        outside: number of tokens outside the vocabulary; tokens written as ``<unk>`` in the text do not count.
    """

    corpus: Corpus
    characters: int
    bytes: int
    outside: int

    @property
    def flat(self) -> np.ndarray:
        """All ids, concatenated."""
        return self.corpus.flat[self.corpus.offsets[0] : self.corpus.offsets[-1]]

    @property
    def tokens(self) -> int:
        return int(self.corpus.offsets[-1] - self.corpus.offsets[0])

    @property
    def unknown(self) -> int:
        return int((self.flat == UNK).sum())

    def __len__(self) -> int:
        return len(self.corpus)


@dataclass(frozen=True, eq=False)
class LmDataset:
    """The encoded splits. ``counts[id]`` is the frequency of an id in train, end symbols included."""

    encoding: LmEncoding
    train: TextPart
    dev: TextPart
    test: TextPart | None
    counts: list[int]
    lines: list[str] = field(default_factory=list)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_lines(path: Path, data: LmDataConfig) -> Iterator[str]:
    """The texts of a file: its lines, or the cells of its text column."""
    lines = read_texts(path, data.format, data.text_column, data.encoding)
    return lines if data.blank_lines == "keep" else (line for line in lines if line.strip())


class _Gatherer:
    """Collects lines as provisional token numbers, with their sizes."""

    def __init__(self, tokenizer: Tokenizer, unit: str) -> None:
        self.tokenizer, self.unit = tokenizer, unit
        self.builder = CorpusBuilder()
        self.characters, self.bytes = array.array("q"), array.array("q")
        self.ends: list[int] = []

    def add_file(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.builder.add(line_tokens(self.tokenizer, line, self.unit))
            self.characters.append(len(line) + 1)
            self.bytes.append(len(line.encode("utf-8", "surrogatepass")) + 1)
        self.ends.append(len(self.characters))


@dataclass(frozen=True, eq=False)
class _Gathered:
    corpus: Corpus
    names: list[str]
    characters: np.ndarray
    bytes: np.ndarray
    file_ends: np.ndarray

    def part(self, lines: np.ndarray, encoding: LmEncoding, unit: str) -> TextPart:
        """Selected lines as ids of an encoding, with end symbols inserted."""
        mapping = np.array(encoding.vocabulary.ids(self.names), np.int32)
        other = np.array([name != UNK_SYMBOL for name in self.names], bool)
        ended = np.ones(len(lines), bool) if unit == "line" else np.isin(lines + 1, self.file_ends)
        lengths = self.corpus.lengths[lines]
        offsets = np.concatenate(([0], np.cumsum(lengths + ended)))
        flat = _allocate(int(offsets[-1]))
        outside = 0
        for i, line in enumerate(lines.tolist()):
            numbers = self.corpus[line]
            ids = mapping[numbers]
            flat[offsets[i] : offsets[i] + len(ids)] = ids
            outside += int(((ids == UNK) & other[numbers]).sum())
        flat[offsets[1:][ended] - 1] = encoding.end
        return TextPart(Corpus(flat, offsets), int(self.characters[lines].sum()), int(self.bytes[lines].sum()), outside)


def _allocate(n: int) -> np.ndarray:
    """An array for ids, in memory if it is small and otherwise in a temporary file."""
    if 4 * n < IN_MEMORY:
        return np.empty(n, np.int32)
    return np.memmap(tempfile.TemporaryFile(prefix="catena-ids-"), np.int32, "w+", shape=(n,))


def gather(paths: Iterable[Path], data: LmDataConfig, tokenizer: Tokenizer) -> _Gathered:
    """Read and tokenize files."""
    gatherer = _Gatherer(tokenizer, data.unit)
    for path in paths:
        gatherer.add_file(read_lines(path, data))
    return _Gathered(
        gatherer.builder.finish(),
        gatherer.builder.tokens,
        np.array(gatherer.characters, np.int64),
        np.array(gatherer.bytes, np.int64),
        np.array(gatherer.ends, np.int64),
    )


def encode_lines(lines: Iterable[str], encoding: LmEncoding) -> TextPart:
    """Lines encoded as one file."""
    gatherer = _Gatherer(encoding.tokenizer, encoding.unit)
    gatherer.add_file(lines)
    found = _Gathered(
        gatherer.builder.finish(),
        gatherer.builder.tokens,
        np.array(gatherer.characters, np.int64),
        np.array(gatherer.bytes, np.int64),
        np.array(gatherer.ends, np.int64),
    )
    return found.part(np.arange(len(found.corpus)), encoding, encoding.unit)


# --- preparation ------------------------------------------------------------------------------------------------------


def prepare(config: LmConfig, randomness: Randomness, encoding: LmEncoding | None = None) -> LmDataset:
    """Read and encode the files of a config.

    Args:
        config: the config of the run.
        randomness: source of the random split.
        encoding: the encoding of a trained model if training starts from it; a new one is built otherwise.
    """
    data = config.data
    if not data.train:
        raise DataError("There is no training file. Name a text file, as in 'catena train lm FILE'.")
    paths = [Path(path) for path in data.train]
    tokenizer = encoding.tokenizer if encoding else _learn_tokenizer(config, paths)
    found = gather(paths, data, tokenizer)
    rows = split(found.characters, data, randomness)
    if encoding is None:
        encoding = LmEncoding(tokenizer, _learn_vocabulary(config, tokenizer, found, rows["train"]), data.unit)
    parts = {name: found.part(lines, encoding, data.unit) for name, lines in rows.items()}
    for name, path in (("dev", data.dev), ("test", data.test)):
        if path is not None:
            other = gather([Path(path)], data, tokenizer)
            parts[name] = other.part(np.arange(len(other.corpus)), encoding, data.unit)
    for name, part in parts.items():
        if part.tokens == 0 and name != "test":
            raise DataError(f"{name} has no tokens. Check its files and data.blank_lines = {data.blank_lines!r}.")
    counts = np.bincount(parts["train"].flat, minlength=len(encoding.vocabulary)).tolist()
    test = parts.get("test")
    test = test if test is not None and test.tokens else None
    return LmDataset(encoding, parts["train"], parts["dev"], test, counts, describe(parts, encoding))


def split(sizes: np.ndarray, data: LmDataConfig, randomness: Randomness) -> dict[str, np.ndarray]:
    """Line indices of train, dev and test; dev comes before test.

    Args:
        sizes: number of characters of each line. Fractions count characters, rounded to the nearest line.
        data: the fractions, and whether dev and test are the last lines or random lines.
        randomness: source of a random split.
    """
    n = len(sizes)
    order = np.arange(n) if data.split == "end" else randomness.numpy("split").permutation(n)
    reached = np.cumsum(sizes[order])
    test_fraction = data.test_fraction if data.test is None else 0.0
    dev_fraction = data.dev_fraction if data.dev is None else 0.0
    first_test = _nearest(reached, 1 - test_fraction)
    first_dev = _nearest(reached, 1 - test_fraction - dev_fraction)
    if dev_fraction and first_dev == first_test:
        first_dev -= 1
    if first_dev < 1:
        if n == 0:
            raise DataError(f"The training text is empty. Check {', '.join(data.train)}.")
        lines = "1 line" if n == 1 else f"{n} lines"
        raise DataError(
            f"A text of {lines} cannot be split into train, dev and test. Pass a dev file with --dev, or add text."
        )
    rows = {"train": np.sort(order[:first_dev])}
    if dev_fraction:
        rows["dev"] = np.sort(order[first_dev:first_test])
    if test_fraction:
        rows["test"] = np.sort(order[first_test:])
    return rows


def _nearest(reached: np.ndarray, fraction: float) -> int:
    """Number of lines whose total size is nearest to a fraction of the text."""
    if not len(reached) or fraction >= 1:
        return len(reached)
    wanted = fraction * reached[-1]
    i = int(np.searchsorted(reached, wanted))
    before = reached[i - 1] if i else 0
    return i if wanted - before < reached[i] - wanted else i + 1


def _learn_tokenizer(config: LmConfig, paths: Iterable[Path]) -> Tokenizer:
    if config.tokenizer.kind not in ("bpe", "unigram"):
        return build_tokenizer(config.tokenizer)
    end = "\n" if config.data.unit == "file" else ""
    return build_tokenizer(config.tokenizer, (line + end for path in paths for line in read_lines(path, config.data)))


def _learn_vocabulary(config: LmConfig, tokenizer: Tokenizer, found: _Gathered, lines: np.ndarray) -> Vocabulary:
    numbers = found.corpus.counts(lines, len(found.names))
    counted = {name: int(n) for name, n in zip(found.names, numbers, strict=True) if n}
    limits = VocabularyConfig() if tokenizer.symbols else config.vocabulary
    return Vocabulary.from_counts(counted, limits, specials=special_tokens(config), symbols=tokenizer.symbols)


def describe(parts: Mapping[str, TextPart], encoding: LmEncoding) -> list[str]:
    """Report lines about the data, printed before training."""
    lines = [f"vocabulary: {len(encoding.vocabulary):,} symbols, including {END_SYMBOL} and other special tokens"]
    lines += encoding.vocabulary.notes()
    for name in ("train", "dev", "test"):
        part = parts.get(name)
        if part is not None and part.tokens:
            unknown = part.unknown
            percent = f", {100 * unknown / part.tokens:.2f} % unknown" if unknown else ""
            outside = f" ({part.outside:,} of them not in the vocabulary)" if part.outside and name != "train" else ""
            lines.append(f"{name}: {len(part):,} lines, {part.tokens:,} tokens{percent}{outside}")
            if name == "train" and 2 * unknown > part.tokens - len(part):  # one end symbol per line
                lines.append(
                    "most words of train are too rare for the vocabulary and read as <unk>: --min-count 1 keeps them, "
                    "--tokenizer characters or bpe splits them"
                )
    return lines
