"""Pairs of texts for translation: reading, tokens and vocabularies, storage as ids, batches.

Memory does not grow with the text: pairs are stored as provisional token numbers in one flat array (on disk if it is
large), and their ids in each vocabulary are looked up when a batch is made. Only the texts of dev and test are kept,
because translations are scored as text.
"""

from __future__ import annotations

import array
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig, TokenizerConfig, VocabularyConfig
from catena.data.corpus import Corpus, CorpusBuilder
from catena.data.detect import detect_format
from catena.data.examples import ParallelText, SourceLocation
from catena.data.reading import ReadCounter
from catena.data.roles import NoColumnError
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import PAD, Vocabulary
from catena.errors import DataError, FormatError
from catena.search.text_constraints import TextConstraints
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks import pairs as pair_files
from catena.tasks.sources import Sources
from catena.tasks.translate.config import SharedTokenizerConfig, TranslateConfig, TranslateDataConfig
from catena.tasks.translate.constraints import NO_CONSTRAINTS
from catena.tasks.translate.encoding import SPECIALS, PairEncoding, TextEncoding, TranslationSource, build_batch

_TRAINED = ("bpe", "unigram")
"""Tokenizers that are trained on text."""


@dataclass(frozen=True, slots=True)
class TranslationExample:
    """A text with its reference, which is empty if it is not known, and the constraints on its translation."""

    source: str
    target: str
    location: SourceLocation
    constraints: TextConstraints = NO_CONSTRAINTS


# --- reading ----------------------------------------------------------------------------------------------------------


def read_examples(data: TranslateDataConfig, path: Path, counter: ReadCounter) -> Iterator[TranslationExample]:
    """The pairs of a file, or of a file of sources and the one with their targets."""
    target = data.target_of(path)
    if len(data.columns) == 1:
        raise DataError("Only one of --source-column and --target-column is set. Pass both or neither.")
    if target is not None and not data.source and pair_files.has_tabs(path, data.encoding):
        raise DataError(
            f"{path} has a tab on every line, so it already contains targets. Remove --target {target}, or pass a file "
            f"of sources only."
        )
    try:
        for pair in pair_files.read_pairs(data, path, counter, target=target):
            yield to_example(pair)
    except NoColumnError as error:
        raise FormatError(
            f"{path} has no pairs of texts. {error} Use lines of source<TAB>target, or CSV or JSON lines with a column "
            f"for each side, or two files as --source and --target (catena evaluate RUN SOURCES --target TARGETS)."
        ) from None


def to_example(pair: ParallelText) -> TranslationExample:
    """The example of a pair."""
    return TranslationExample(pair.source, pair.target, pair.location)


def _check_files(data: TranslateDataConfig, sources: Sources[TranslationExample]) -> None:
    """Raise an error if there are no training files, or two of them that seem to be sources and targets."""
    if "train" not in sources:
        raise DataError(
            "There is no training file. Name a file of source<TAB>target, or two files, as in 'catena train translate "
            "--source a.en --target a.de'."
        )
    if "train" not in sources.given and len(data.train) == 2 and data.input_format == "auto":
        first, second = data.train
        if all(detect_format(path, data.encoding).format == "text" for path in data.train):
            raise FormatError(
                f"{first} and {second} have no tabs, so they hold no pairs. If they are parallel files, pass --source "
                f"{first} --target {second}."
            )


def prepare_pairs(
    config: TranslateConfig, sources: Sources[TranslationExample], encoding: PairEncoding | None = None
) -> tuple[dict[str, PairRows], list[str]]:
    """The pairs of train, dev and test, and lines about them.

    Args:
        config: the config of the run.
        sources: its files.
        encoding: the encoding of an older model; a new one is fitted if None.
    """
    _check_files(config.data, sources)
    lines = sources.describe()
    if encoding is None:
        store = PairStore(config, sources, fit_tokenizers(config, sources))
        encoding = fit_vocabularies(config, store)
    else:
        store = PairStore(config, sources, (encoding.source.tokenizer, encoding.target.tokenizer))
    parts = store.rows(encoding)
    counts = sources.counter.counts(sum(map(len, parts.values())) - sources.n_shared)
    return parts, [*lines, counts.sentence(), *_describe_rows(encoding, parts)]


# --- storage ----------------------------------------------------------------------------------------------------------


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
        positions = np.arange(int(lengths.max(initial=0)) + 1)
        ids = mapping[self.corpus.flat[np.minimum(first[:, None] + positions, len(self.corpus.flat) - 1)]]
        ids[positions > lengths[:, None]] = PAD
        ids[np.arange(len(rows)), lengths] = end
        return ids, lengths + 1

    def copied(self, i: int) -> tuple[TranslationSource, np.ndarray]:
        """Source and target of a pair for copy models, where unknown tokens have extra ids."""
        source, target = ([self.names[n] for n in self.corpus[2 * i + side].tolist()] for side in (0, 1))
        coded = self.encoding.code(source)
        return coded, self.encoding.target_ids(target, coded.new)

    def target_counts(self, rows: np.ndarray) -> list[int]:
        """Frequency of each target id in the pairs at ``rows``, with end symbols."""
        numbers = self.corpus.counts(2 * rows + 1, len(self.names))
        counts = np.bincount(self._target, weights=numbers, minlength=len(self.encoding.target.vocabulary))
        counts[self.encoding.end] = len(rows)
        return counts.astype(np.int64).tolist()


@dataclass(frozen=True, eq=False)
class PairRows:
    """Some of the pairs of a dataset, and their examples unless they are for training."""

    pairs: EncodedPairs
    rows: np.ndarray
    examples: list[TranslationExample] = field(default_factory=list)

    @property
    def lengths(self) -> np.ndarray:
        """The length of the longer side of each pair."""
        return self.pairs.lengths[self.rows].max(axis=1)

    @property
    def target_lengths(self) -> np.ndarray:
        """Number of target tokens of each pair, with the end symbol."""
        return self.pairs.lengths[self.rows, 1]

    def __len__(self) -> int:
        return len(self.rows)


def encode_examples(examples: Sequence[TranslationExample], encoding: PairEncoding) -> PairRows:
    """Examples as ids."""
    builder = CorpusBuilder()
    for example in examples:
        builder.add(encoding.source.tokenizer.tokens(example.source))
        builder.add(encoding.target.tokenizer.tokens(example.target))
    pairs = EncodedPairs(builder.finish(), builder.tokens, encoding)
    return PairRows(pairs, np.arange(len(examples)), list(examples))


class PairStore:
    """The pairs of all files as provisional token numbers.

    Args:
        config: the config of the run.
        sources: the files.
        tokenizers: the tokenizers of sources and targets.
    """

    def __init__(
        self,
        config: TranslateConfig,
        sources: Sources[TranslationExample],
        tokenizers: tuple[Tokenizer, Tokenizer],
    ) -> None:
        self.config, self.sources, self.tokenizers = config, sources, tokenizers
        self._hashes = array.array("Q")
        self._read = array.array("q")  # the index of each training pair among those that were read
        self._long: dict[int, TranslationExample] = {}
        self.examples: dict[str, list[TranslationExample]] = {"dev": [], "test": []}
        self._builder, self._n = CorpusBuilder(), 0
        parts = {part: self._add_all(part) for part in ("train", "dev", "test")}
        self.corpus, self.names = self._builder.finish(), self._builder.tokens
        self.parts = self._split(parts)

    def _add_all(self, part: str) -> np.ndarray:
        """Store the pairs of a part; their rows."""
        first = self._n
        for i, example in enumerate(self.sources.read(part)):
            tokens = [cut.tokens(text) for cut, text in zip(self.tokenizers, _texts(example), strict=True)]
            if not tokens[0] or not tokens[1]:
                self._drop(f"with an empty {'target' if tokens[0] else 'source'}", example)
                continue
            for side in tokens:
                self._builder.add(side)
            if part != "train":
                self.examples[part].append(example)
            else:
                self._hashes.append(_hash(example.source))
                self._read.append(i)
                if max(map(len, tokens)) > self.config.data.max_length:
                    self._long[self._n] = example
            self._n += 1
        return np.arange(first, self._n)

    def _split(self, parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The rows of train without those that are too long, of dev and of test."""
        self.sources.check("train", len(parts["train"]))
        if "dev" not in self.sources:
            splits = self.config.data.splits(has_dev=False, has_test=True, seed=self.config.seed)
            with self.sources.explaining():
                index = splits.rows([f"{number:x}" for number in self._hashes])
            parts = {**parts, "train": index.train, "dev": index.dev}
            self.sources.n_shared = len(np.intersect1d(index.train, index.dev))
            self.examples["dev"] = self._read_again(index.dev)
        for row in (long := [row for row in parts["train"].tolist() if row in self._long]):
            self._drop(f"longer than max_length={self.config.data.max_length}", self._long[row])
        parts["train"] = np.setdiff1d(parts["train"], long)
        if not len(parts["train"]):
            counts = self.sources.counter.counts(self.sources.counter.used).sentence("")
            raise DataError(
                f"There are no pairs in train: {counts}. Add pairs, or raise data.max_length (--data.max-length)."
            )
        self.sources.check("dev", len(parts["dev"]))
        return parts

    def _read_again(self, rows: np.ndarray) -> list[TranslationExample]:
        """The examples of some training rows, in a second pass over the files."""
        wanted = {self._read[row] for row in rows.tolist()}
        again = Sources(self.sources.family, self.config, self.sources.given)
        return [example for i, example in enumerate(again.read("train")) if i in wanted]

    def _drop(self, reason: str, example: TranslationExample) -> None:
        self.sources.counter.drop(reason, example.location, f"{example.source}\t{example.target}")

    def rows(self, encoding: PairEncoding) -> dict[str, PairRows]:
        """The pairs of each part as ids."""
        pairs = EncodedPairs(self.corpus, self.names, encoding)
        return {part: PairRows(pairs, rows, self.examples.get(part, [])) for part, rows in self.parts.items()}


def _texts(example: TranslationExample) -> tuple[str, str]:
    return example.source, example.target


def _hash(source: str) -> int:
    """A 64-bit hash that is the same on every machine."""
    text = source.strip().encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


# --- tokens and vocabularies ------------------------------------------------------------------------------------------


def fit_tokenizers(config: TranslateConfig, sources: Sources[TranslationExample]) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides; the same one, learned from both, if they are joint."""

    def texts(*sides: int) -> Iterator[str]:
        again = Sources(sources.family, config, sources.given)
        return (_texts(example)[side] for example in again.read("train") for side in sides)

    if next(texts(0), None) is None:
        named = ", ".join(str(path) for path in config.data.files().values())
        raise DataError(f"There are no pairs in {named}. Use files with at least two pairs of nonempty texts.")
    if config.joint:
        both = _tokenizer(config.tokenizer, texts(0, 1))
        return both, both
    own = config.target_tokenizer
    target = config.tokenizer if isinstance(own, SharedTokenizerConfig) else own
    return _tokenizer(config.tokenizer, texts(0)), _tokenizer(target, texts(1))


def _tokenizer(config: TokenizerConfig, texts: Iterator[str]) -> Tokenizer:
    return build_tokenizer(config, texts if config.kind in _TRAINED else ())


def fit_vocabularies(config: TranslateConfig, store: PairStore) -> PairEncoding:
    """The encoding with the vocabularies of the training pairs."""
    rows, names = store.parts["train"], store.names
    source, target = (store.corpus.counts(2 * rows + side, len(names)) for side in (0, 1))
    if config.joint:
        both = _text_encoding(config, store.tokenizers[0], names, source + target)
        return PairEncoding(both, both)
    sides = zip(store.tokenizers, (source, target), strict=True)
    return PairEncoding(*(_text_encoding(config, tokenizer, names, counts) for tokenizer, counts in sides))


def _text_encoding(
    config: TranslateConfig, tokenizer: Tokenizer, names: Sequence[str], counts: np.ndarray
) -> TextEncoding:
    limits = VocabularyConfig()
    if not tokenizer.symbols:
        limits = VocabularyConfig(min_count=config.vocabulary.min_count, max_size=config.vocabulary.max_size)
    known = {name: int(n) for name, n in zip(names, counts, strict=True) if n}
    vocabulary = Vocabulary.from_counts(known, limits, specials=SPECIALS, symbols=tokenizer.symbols)
    return TextEncoding(tokenizer, vocabulary)


def _describe_rows(encoding: PairEncoding, parts: dict[str, PairRows]) -> list[str]:
    """Lines about the data for the start of the report."""
    sides = encoding.source.vocabulary, encoding.target.vocabulary
    sizes = f"{len(sides[0]):,} tokens for " + ("both sides" if encoding.joint else "sources")
    lines = [f"vocabulary: {sizes}" + ("" if encoding.joint else f", {len(sides[1]):,} for targets")]
    lines += dict.fromkeys(note for vocabulary in sides for note in vocabulary.notes())
    for part, rows in parts.items():
        if len(rows):
            source, target = rows.pairs.lengths[rows.rows].sum(axis=0).tolist()
            lines.append(f"{part}: {len(rows):,} pairs, {source:,} source tokens, {target:,} target tokens")
    return lines


# --- batches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Encoded pairs on the device.

    Args:
        targets: target ids, with their end symbols.
        tokens: number of target tokens without padding.
        read: number of tokens of both sides without padding.
    """

    source: Source
    targets: Int[Tensor, "b t"]
    lengths: Int[Tensor, " b"]
    tokens: int
    read: int


def make_batch(
    pairs: EncodedPairs, rows: np.ndarray, device: torch.device, *, copies: bool = False
) -> TranslationBatch:
    """A batch of the pairs at ``rows``; ``copies`` includes the ids that copy models need."""
    if copies:
        coded, wanted = zip(*(pairs.copied(row) for row in rows.tolist()), strict=True)
        source = build_batch(coded, device, copies=True)
        targets, lengths = pad(wanted)
        read = sum(map(len, coded))
    else:
        sides = [pairs.batch(rows, side) for side in (0, 1)]
        (ids, source_lengths), (targets, lengths) = ((torch.from_numpy(x) for x in side) for side in sides)
        source = Source(_to(ids, device), _to(source_lengths, device))
        read = int(source_lengths.sum())
    tokens = int(lengths.sum())
    return TranslationBatch(source, _to(targets, device), _to(lengths, device), tokens, tokens + read)


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, copied asynchronously."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


@torch.no_grad()
def pair_log_probs(network: EncoderDecoder, rows: PairRows, plan: BatchConfig) -> Float[np.ndarray, " n"]:
    """log p(target | source) of each pair."""
    log_probs = np.zeros(len(rows))
    copies = bool(getattr(network, "copies", False))
    for index in BatchPlan.by_length(rows.lengths, plan):
        batch = make_batch(rows.pairs, rows.rows[index], network.device, copies=copies)
        tokens = network.token_log_probs(batch.source, batch.targets, batch.lengths)
        log_probs[index] = tokens.double().sum(dim=1).cpu().numpy()
    return log_probs
