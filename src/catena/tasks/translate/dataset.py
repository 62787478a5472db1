"""From files to pairs of ids: read, split, learn tokenizers and vocabularies, encode.

Texts are stored as provisional token numbers in one flat array (on disk if it is large). Their ids in each vocabulary
are looked up when a batch is made. The original texts of dev and test are kept, because translations are scored as
text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from catena.data.config import TokenizerConfig, VocabularyConfig
from catena.data.corpus import Corpus, CorpusBuilder
from catena.data.detect import UNKNOWN, detect_format
from catena.data.examples import ParallelText
from catena.data.files import open_text
from catena.data.pairing import find_pair_columns_by_name, part_header
from catena.data.readers.paired import PairKind, pair_layout, read_kind
from catena.data.readers.parallel import read
from catena.data.reading import ReadCounter
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import PAD, Vocabulary
from catena.errors import DataError, FormatError
from catena.randomness import hash_fraction
from catena.tasks.translate.config import SharedTokenizerConfig, TranslateConfig, TranslateDataConfig
from catena.tasks.translate.encoding import SPECIALS, PairEncoding, TextEncoding, TranslationSource

_TRAINED = ("bpe", "unigram")
"""Tokenizers that are trained on text."""
PARTS: tuple[Literal["train", "dev", "test"], ...] = ("train", "dev", "test")
FORMATS: dict[str, PairKind] = {"parallel": "lines", "tsv": "tsv", "csv": "csv", "jsonl": "jsonl"}
"""Values of data.format other than auto."""


@dataclass(frozen=True, eq=False)
class ReferenceTexts:
    """Source texts and reference translations."""

    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)


class EncodedPairs:
    """Pairs of texts as ids.

    Args:
        corpus: provisional token numbers; example ``2 i`` is the source of pair ``i`` and ``2 i + 1`` its target.
        names: the token of each number.
        encoding: the vocabularies.
    """

    def __init__(self, corpus: Corpus, names: Sequence[str], encoding: PairEncoding) -> None:
        self.corpus, self.names, self.encoding = corpus, names, encoding
        self._source = np.array(encoding.source.vocabulary.ids(names), np.int64)
        self._target = np.array(encoding.target.vocabulary.ids(names), np.int64)

    def __len__(self) -> int:
        return len(self.corpus) // 2

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each source and target, with end symbols."""
        return self.corpus.lengths.reshape(-1, 2) + 1

    def batch(self, rows: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
        """Padded ids, with end symbols, and lengths of the sources (side 0) or targets (side 1) at ``rows``."""
        mapping, end = (self._source, self.encoding.source.end) if side == 0 else (self._target, self.encoding.end)
        first, last = self.corpus.offsets[2 * rows + side], self.corpus.offsets[2 * rows + side + 1]
        lengths = last - first
        places = np.arange(int(lengths.max(initial=0)) + 1)
        ids = mapping[self.corpus.flat[np.minimum(first[:, None] + places, len(self.corpus.flat) - 1)]]
        ids[places > lengths[:, None]] = PAD
        ids[np.arange(len(rows)), lengths] = end
        return ids, lengths + 1

    def copied(self, i: int) -> tuple[TranslationSource, np.ndarray]:
        """Source and target of a pair for copy models, where unknown tokens have extra ids."""
        tokens, wanted = ([self.names[n] for n in self.corpus[2 * i + side].tolist()] for side in (0, 1))
        coded = self.encoding.code(tokens)
        return coded, self.encoding.target_ids(wanted, coded.new)

    def target_counts(self, rows: np.ndarray) -> list[int]:
        """Frequency of each target id in the pairs at ``rows``, with end symbols."""
        numbers = self.corpus.counts(2 * rows + 1, len(self.names))
        counts = np.bincount(self._target, weights=numbers, minlength=len(self.encoding.target.vocabulary))
        counts[self.encoding.end] = len(rows)
        return counts.astype(np.int64).tolist()


@dataclass(frozen=True, eq=False)
class TranslateDataset:
    """The encoded pairs, the row indices of each split, and the texts of dev and test."""

    encoding: PairEncoding
    pairs: EncodedPairs
    rows: dict[str, np.ndarray]
    dev: ReferenceTexts
    test: ReferenceTexts
    tally: ReadCounter
    lines: list[str] = field(default_factory=list)

    @property
    def counts(self) -> list[int]:
        """The frequency of each target id in train, with end symbols."""
        return self.pairs.target_counts(self.rows["train"])


# --- reading ----------------------------------------------------------------------------------------------------------


def read_pairs(files: Sequence[tuple[str, str | None]], data: TranslateDataConfig) -> Iterator[ParallelText]:
    """The pairs of files of two columns or of parallel files, swapped if the config says so.

    A header row is skipped.
    """
    for first, second in files:
        pairs = read(first, second, encoding=data.encoding) if second is not None else _parted(Path(first), data)[1]
        for pair in pairs:
            yield ParallelText(pair.target, pair.source, pair.place) if data.swap else pair


def headers(files: Sequence[tuple[str, str | None]], data: TranslateDataConfig) -> list[str]:
    """A report line for each file with a header row."""
    found = (_parted(Path(first), data)[0] for first, second in files if second is None)
    return [line for line in found if line]


def _parted(path: Path, data: TranslateDataConfig) -> tuple[str | None, Iterator[ParallelText]]:
    """A report line about the header row of a file, if it has one, and its pairs."""
    check_pairs(path, data)
    kind = kind_of_pairs(path, data)
    if kind != "lines":
        return read_kind(path, kind, data.columns, encoding=data.encoding)
    header, pairs = part_header(read(path, encoding=data.encoding), lambda pair: (pair.source, pair.target))
    if header is None:
        return None, pairs
    names = header.source, header.target
    if find_pair_columns_by_name(names) == (1, 0):
        names, pairs = names[::-1], (ParallelText(pair.target, pair.source, pair.place) for pair in pairs)
    return f"{header.place} is a header ({', '.join(names)}), not a pair", pairs


def kind_of_pairs(path: Path, data: TranslateDataConfig) -> PairKind:
    """The layout of a file of pairs, from the config or detected."""
    if data.format == "auto":
        return pair_layout(path, data.encoding, data.columns)
    return FORMATS[data.format]


def has_pairs(path: Path, encoding: str | None) -> bool:
    """Whether every nonblank line at the start of the file has a tab."""
    with open_text(path, encoding) as lines:
        filled = [line for _, line in islice(lines, 200) if line.strip()]
    return bool(filled) and all(line.count("\t") == 1 for line in filled)


def check_pairs(path: Path, data: TranslateDataConfig) -> None:
    """Raise FormatError if a file has no pairs, and report its detected format."""
    if data.format != "auto" and data.format not in FORMATS:
        raise FormatError(
            f"data.format must be auto or {', '.join(FORMATS)} for pairs of texts, got {data.format!r}. Remove it, or "
            f"pass two parallel files as --source and --target."
        )
    if kind_of_pairs(path, data) != "lines":
        return
    with open_text(path, data.encoding) as lines:
        filled = [line for _, line in zip(range(200), (line for _, line in lines), strict=False) if line.strip()]
    if data.format == "auto" and filled and all(line.count("\t") != 1 for line in filled):
        found = detect_format(path, data.encoding)
        looks = f"it looks like {found.format!r}: {found.why}" if found.format != UNKNOWN else found.why
        raise FormatError(
            f"{path} has no pairs of texts ({looks}). Use lines of source<TAB>target, or CSV or JSON lines with a "
            f"column for each side (--format csv, or --input-format csv after training, if the name does not end in "
            f".csv), or two files as --source and --target (catena evaluate RUN SOURCES --target TARGETS)."
        )


def check_two_files(data: TranslateDataConfig) -> None:
    """Raise FormatError if train is two files of plain text, which are probably sources and targets."""
    if len(data.train) != 2 or data.format != "auto":
        return
    first, second = data.train
    if all(kind_of_pairs(Path(path), data) == "lines" and not _has_tabs(Path(path), data) for path in data.train):
        raise FormatError(
            f"{first} and {second} have no tabs, so they hold no pairs. If they are parallel files, pass --source "
            f"{first} --target {second}."
        )


def _has_tabs(path: Path, data: TranslateDataConfig) -> bool:
    with open_text(path, data.encoding) as lines:
        return any("\t" in line for _, line in islice(lines, 200))


# --- preparation ------------------------------------------------------------------------------------------------------


def prepare(config: TranslateConfig, encoding: PairEncoding | None = None) -> TranslateDataset:
    """Read and encode the files of a config.

    Args:
        config: the config of the run.
        encoding: the encoding of a trained model if training starts from it; a new one is built otherwise.
    """
    data = config.data
    files = data.part("train")
    if not files:
        raise DataError(
            "There is no training file. Name a file of source<TAB>target, or two files, as in 'catena train translate "
            "--source a.en --target a.de'."
        )
    check_two_files(data)
    if not any(pair.source.strip() and pair.target.strip() for pair in read_pairs(files, data)):
        read = ", ".join(name for both in files for name in both if name)
        raise DataError(f"There are no pairs in {read}. Use files with at least two pairs of nonempty texts.")
    tokenizers = (
        (encoding.source.tokenizer, encoding.target.tokenizer) if encoding else _learn_tokenizers(config, files)
    )
    gatherer = PairReader(config, *tokenizers)
    gatherer.read_train(files)
    for part in ("dev", "test"):
        if named := data.part(part):
            gatherer.read_part(part, named)
    corpus, names = gatherer.builder.finish(), gatherer.builder.tokens
    rows = {name: np.array(found, np.int64) for name, found in gatherer.rows.items()}
    counts = gatherer.tally.counts(used=sum(map(len, rows.values())))
    summary = counts.sentence("")
    longer = ", or raise data.max_length (--data.max-length)" if "max_length" in summary else ""
    for name, cure in (("train", longer), ("dev", f", a dev file, or a larger data.dev_fraction{longer}")):
        if not len(rows[name]):
            raise DataError(f"There are no pairs in {name}: {summary}. Add pairs{cure}.")
    if encoding is None:
        encoding = _learn_vocabularies(config, corpus, names, rows["train"], *tokenizers)
    pairs = EncodedPairs(corpus, names, encoding)
    columns = [line for part in PARTS for line in headers(data.part(part), data)]
    lines = [*columns, counts.sentence(), *_describe(pairs, rows)]
    return TranslateDataset(encoding, pairs, rows, gatherer.texts["dev"], gatherer.texts["test"], gatherer.tally, lines)


class PairReader:
    """Reads and tokenizes pairs, and sorts them into train, dev and test."""

    def __init__(self, config: TranslateConfig, source: Tokenizer, target: Tokenizer) -> None:
        self.config, self.tokenizers = config, (source, target)
        self.builder, self.tally = CorpusBuilder(), ReadCounter()
        self.rows: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
        self.texts = {"dev": ReferenceTexts([], []), "test": ReferenceTexts([], [])}
        self._n = 0

    def read_train(self, files: Sequence[tuple[str, str | None]]) -> None:
        """Read train, and split off dev if it has no file."""
        data = self.config.data
        share = 0.0 if data.part("dev") else data.dev_fraction
        nearest: tuple[float, int, ParallelText] | None = None
        for pair in self.tally.seen(read_pairs(files, data)):
            at = hash_fraction(pair.source.strip()) if share else 1.0
            part = "dev" if at < share else "train"
            kept = self._add(pair, part, data.max_length if part == "train" else None)
            if kept and part == "train" and (nearest is None or at < nearest[0]):
                nearest = (at, self._n - 1, pair)
        if share and not self.rows["dev"] and nearest is not None and len(self.rows["train"]) > 1:
            self.rows["train"].remove(nearest[1])  # few pairs: the one nearest to dev_fraction
            self._keep("dev", nearest[1], nearest[2])

    def read_part(self, part: str, files: Sequence[tuple[str, str | None]]) -> None:
        """Read dev or test from a file, without a length limit."""
        for pair in self.tally.seen(read_pairs(files, self.config.data)):
            self._add(pair, part, None)

    def _add(self, pair: ParallelText, part: str, longest: int | None) -> bool:
        tokens = [cut.tokens(text) for cut, text in zip(self.tokenizers, (pair.source, pair.target), strict=True)]
        shown = f"{pair.source}\t{pair.target}"
        if not tokens[0] or not tokens[1]:
            self.tally.drop(f"with an empty {'target' if tokens[0] else 'source'}", pair.place, shown)
            return False
        if longest is not None and max(map(len, tokens)) > longest:
            self.tally.drop(f"longer than max_length={longest}", pair.place, shown)
            return False
        for side in tokens:
            self.builder.add(side)
        self._keep(part, self._n, pair)
        self._n += 1
        return True

    def _keep(self, part: str, row: int, pair: ParallelText) -> None:
        self.rows[part].append(row)
        if part != "train":
            self.texts[part].sources.append(pair.source)
            self.texts[part].targets.append(pair.target)


# --- tokens and vocabularies ------------------------------------------------------------------------------------------


def _learn_tokenizers(config: TranslateConfig, files: Sequence[tuple[str, str | None]]) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides; the same one, learned from both, if they are joint."""

    def side(index: int) -> Iterator[str]:
        return ((pair.source, pair.target)[index] for pair in read_pairs(files, config.data))

    if config.joint:
        both = (text for pair in read_pairs(files, config.data) for text in (pair.source, pair.target))
        one = _tokenizer(config.tokenizer, both)
        return one, one
    of_targets = (
        config.tokenizer if isinstance(config.target_tokenizer, SharedTokenizerConfig) else config.target_tokenizer
    )
    return _tokenizer(config.tokenizer, side(0)), _tokenizer(of_targets, side(1))


def _tokenizer(settings: TokenizerConfig, texts: Iterator[str]) -> Tokenizer:
    return build_tokenizer(settings, texts if settings.kind in _TRAINED else ())


def _learn_vocabularies(
    config: TranslateConfig, corpus: Corpus, names: Sequence[str], rows: np.ndarray, *tokenizers: Tokenizer
) -> PairEncoding:
    counted = [corpus.counts(2 * rows + side, len(names)) for side in (0, 1)]
    if config.joint:
        both = _side(config, tokenizers[0], names, counted[0] + counted[1])
        return PairEncoding(both, both)
    source, target = (_side(config, *pair) for pair in zip(tokenizers, (names, names), counted, strict=True))
    return PairEncoding(source, target)


def _side(config: TranslateConfig, tokenizer: Tokenizer, names: Sequence[str], numbers: np.ndarray) -> TextEncoding:
    counted = {name: int(n) for name, n in zip(names, numbers, strict=True) if n}
    limits = VocabularyConfig()
    if not tokenizer.symbols:
        limits = VocabularyConfig(min_count=config.vocabulary.min_count, max_size=config.vocabulary.max_size)
    vocabulary = Vocabulary.from_counts(counted, limits, specials=SPECIALS, symbols=tokenizer.symbols)
    return TextEncoding(tokenizer, vocabulary)


def _describe(pairs: EncodedPairs, rows: dict[str, np.ndarray]) -> list[str]:
    """Report lines about the data, printed before training."""
    encoding = pairs.encoding
    sizes = [len(side.vocabulary) for side in (encoding.source, encoding.target)]
    lines = [f"vocabulary: {sizes[0]:,} tokens for " + ("both sides" if encoding.joint else "sources")]
    if not encoding.joint:
        lines[0] += f", {sizes[1]:,} for targets"
    lines += dict.fromkeys(note for side in (encoding.source, encoding.target) for note in side.vocabulary.notes())
    lengths = pairs.lengths
    for name, part in rows.items():
        if len(part):
            source, target = (int(lengths[part, side].sum()) for side in (0, 1))
            lines.append(f"{name}: {len(part):,} pairs, {source:,} source tokens, {target:,} target tokens")
    return lines
