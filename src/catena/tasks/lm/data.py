"""Texts for a language model: reading, splitting, and ids by its tokenizer and vocabulary.

Text to ids and back: the tokenizer and vocabulary of a language model, saved with its weights.

From texts to ids: read lines, tokenize, split, build the vocabulary, encode.

A text is stored as ids in one flat array (on disk if it is large), the end of each line, and its number of characters
and bytes, so that scores per character and per byte refer to the original text.
"""

from __future__ import annotations

import array
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from catena.data import records
from catena.data.config import VocabularyConfig
from catena.data.corpus import IN_MEMORY, Corpus, CorpusBuilder
from catena.data.examples import SourceLocation, Text
from catena.data.formats import read_texts, text_format
from catena.data.special_tokens import BEGIN_SYMBOL, END_SYMBOL, MASK_SYMBOL, UNK_SYMBOL
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import DataError
from catena.tasks.config import TOKENIZER, VOCABULARY
from catena.tasks.lm.config import LmConfig, LmDataConfig
from catena.tasks.sources import Sources


class LmEncoding:
    """Converts texts to tokens and ids, and ids back to text.

    Args:
        tokenizer: splits text into tokens.
        vocabulary: maps tokens to ids.
        unit: ``"line"`` if each line is a text, ``"file"`` if each file is one.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary, unit: str) -> None:
        self.tokenizer, self.vocabulary, self.unit = tokenizer, vocabulary, unit
        self.end = vocabulary.special(END_SYMBOL)

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line, with its line break if a file is one text."""
        return line_tokens(self.tokenizer, text, self.unit)

    def ids(self, text: str) -> list[int]:
        """The ids of a text, without an end symbol. The text may have several lines if a file is one text."""
        return self.vocabulary.ids(self.tokenizer.tokens(text))

    def text(self, ids: Iterable[int]) -> str:
        """The text of ids. An end symbol becomes a line break."""
        lines: list[list[int]] = [[]]
        for id in ids:
            if id == self.end:
                lines.append([])
            else:
                lines[-1].append(id)
        return "\n".join(self.tokenizer.join(self.vocabulary.tokens(line)) for line in lines)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)


def line_tokens(tokenizer: Tokenizer, line: str, unit: str) -> list[str]:
    """The tokens of a line, with its line break if a file is one text."""
    return tokenizer.tokens(line + "\n" if unit == "file" else line)


def special_tokens(config: LmConfig) -> Sequence[str]:
    """The special tokens of a model's vocabulary."""
    symbols = (BEGIN_SYMBOL, END_SYMBOL)
    return (*symbols, MASK_SYMBOL) if config.objective.kind == "masked" else symbols


def load_encoding(folder: Path, unit: str) -> LmEncoding:
    """Load the encoding of a model folder."""
    return LmEncoding(load_tokenizer(folder / TOKENIZER), Vocabulary.load(folder / VOCABULARY), unit)


# --- training data ----------------------------------------------------------------------------------------------------


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
class LmData:
    """The encoded parts of the text. ``counts[id]`` is the frequency of an id in train, end symbols included."""

    encoding: LmEncoding
    train: TextPart
    dev: TextPart
    test: TextPart
    counts: list[int]
    lines: list[str] = field(default_factory=list)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_lines(data: LmDataConfig, path: Path) -> Iterator[Text]:
    """The texts of a file: its lines, or the cells of its text column."""
    format, are_paragraphs = text_format(path, data.input_format), data.unit == "paragraph"
    if format == "text" and not are_paragraphs:
        lines = enumerate(read_texts(path, format, encoding=data.encoding), start=1)
        texts: Iterable[Text] = (Text(line, SourceLocation(str(path), number)) for number, line in lines)
    else:
        texts = records.read_texts(
            path, format=format, text_column=data.text_column, paragraphs=are_paragraphs, encoding=data.encoding
        )
    yield from (text for text in texts if text.text.strip() or data.blank_lines == "keep")


class _Gatherer:
    """Collects lines as provisional token numbers, with their sizes."""

    def __init__(self, tokenizer: Tokenizer, unit: str) -> None:
        self.tokenizer, self.unit = tokenizer, unit
        self.builder = CorpusBuilder()
        self.characters, self.bytes = array.array("q"), array.array("q")
        self.ends: list[int] = []

    def add(self, texts: Iterable[Text]) -> None:
        """Add texts; where the file changes, the one before ends."""
        file = None
        for text in texts:
            if file not in (None, text.location.file):
                self.ends.append(len(self.characters))
            file = text.location.file
            self.builder.add(line_tokens(self.tokenizer, text.text, self.unit))
            self.characters.append(len(text.text) + 1)
            self.bytes.append(len(text.text.encode("utf-8", "surrogatepass")) + 1)
        self.ends.append(len(self.characters))

    def finish(self) -> _Gathered:
        """Everything that was added."""
        arrays = (np.array(values, np.int64) for values in (self.characters, self.bytes, self.ends))
        return _Gathered(self.builder.finish(), self.builder.tokens, *arrays)


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
        ended = np.ones(len(lines), bool) if unit != "file" else np.isin(lines + 1, self.file_ends)
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


def _gather(texts: Iterable[Text], tokenizer: Tokenizer, unit: str) -> _Gathered:
    gatherer = _Gatherer(tokenizer, unit)
    gatherer.add(texts)
    return gatherer.finish()


def encode_texts(texts: Iterable[Text], encoding: LmEncoding) -> TextPart:
    """Texts as ids."""
    gathered = _gather(texts, encoding.tokenizer, encoding.unit)
    return gathered.part(np.arange(len(gathered.corpus)), encoding, encoding.unit)


# --- preparation ------------------------------------------------------------------------------------------------------


def prepare_text(config: LmConfig, sources: Sources[Text], encoding: LmEncoding | None = None) -> LmData:
    """Read, split and encode the text of a config.

    Args:
        config: the config of the run.
        sources: the texts of train, dev and test.
        encoding: the encoding of a trained model if training starts from it; a new one is built otherwise.
    """
    data, lines = config.data, sources.describe()
    tokenizer = encoding.tokenizer if encoding else _fit_tokenizer(config, sources)
    gathered = _gather(sources.read("train"), tokenizer, data.unit)
    rows = _split(gathered.characters, config, sources)
    if encoding is None:
        encoding = LmEncoding(tokenizer, _fit_vocabulary(config, tokenizer, gathered, rows["train"]), data.unit)
    parts = {name: gathered.part(index, encoding, data.unit) for name, index in rows.items()}
    for name in ("dev", "test"):
        if name in sources:
            parts[name] = encode_texts(sources.read(name), encoding)
    for name in ("train", "dev"):
        if parts[name].tokens == 0:
            raise DataError(f"{name} has no tokens. Check its files and data.blank_lines = {data.blank_lines!r}.")
    counts = np.bincount(parts["train"].flat, minlength=len(encoding.vocabulary)).tolist()
    lines += _describe(parts, encoding)
    return LmData(encoding, parts["train"], parts["dev"], parts["test"], counts, lines)


def _split(sizes: np.ndarray, config: LmConfig, sources: Sources[Text]) -> dict[str, np.ndarray]:
    """The lines of train, dev and test. Fractions are of the characters, rounded to lines."""
    splits = config.data.splits(has_dev="dev" in sources, has_test="test" in sources, seed=config.seed)
    if len(sizes) < 2 and splits.dev_fraction:
        n = "1 line" if len(sizes) else "no lines"
        raise DataError(f"A text of {n} cannot be split into train and dev. Pass a dev file with --dev, or add text.")
    keys = [str(i) for i in range(len(sizes))]  # lines are not identified by their text: names may repeat
    rows = splits.rows(keys, sizes=sizes.tolist() if splits.by == "end" else None)
    return {"train": rows.train, "dev": rows.dev, "test": rows.test}


def _fit_tokenizer(config: LmConfig, sources: Sources[Text]) -> Tokenizer:
    if config.tokenizer.kind not in ("bpe", "unigram"):
        return build_tokenizer(config.tokenizer)
    end = "\n" if config.data.unit == "file" else ""
    again = Sources(sources.family, config, sources.given)
    return build_tokenizer(config.tokenizer, (text.text + end for text in again.read("train")))


def _fit_vocabulary(config: LmConfig, tokenizer: Tokenizer, found: _Gathered, lines: np.ndarray) -> Vocabulary:
    numbers = found.corpus.counts(lines, len(found.names))
    counted = {name: int(n) for name, n in zip(found.names, numbers, strict=True) if n}
    limits = VocabularyConfig() if tokenizer.symbols else config.vocabulary
    return Vocabulary.from_counts(counted, limits, specials=special_tokens(config), symbols=tokenizer.symbols)


def _describe(parts: Mapping[str, TextPart], encoding: LmEncoding) -> list[str]:
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
