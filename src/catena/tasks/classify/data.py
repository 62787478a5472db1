"""Labeled texts: reading, and their storage as ids.

Memory does not grow with the text: of each example only its token ids (on disk if there are many), its labels and a
hash are kept.
"""

from __future__ import annotations

import array
import hashlib
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catena.data.corpus import Corpus, CorpusBuilder
from catena.data.detect import detect_format
from catena.data.examples import LabeledText, SourceLocation, Tree
from catena.data.readers.brackets import read as read_trees
from catena.data.reading import ReadCounter
from catena.data.records import open_records, read_examples
from catena.data.roles import LABEL, TEXT
from catena.data.tables import TABLE_FORMATS
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import Labels
from catena.errors import DataError, FormatError
from catena.tasks.classify.config import ClassifyConfig, ClassifyDataConfig
from catena.tasks.sources import DataParts, Sources, unseen_line

if TYPE_CHECKING:
    from catena.tasks.classify.encoding import EncodedTexts

SAMPLES = 3
"""Number of dev texts that are shown with their predictions at each evaluation."""
MANY = 2_000_000
"""Number of texts up to which dev and test have exact sizes and the exact proportions of labels."""
_SENTENCES = ("conllu", "columns")
"""Formats that have no texts."""
_LOOKED_AT = 1000
"""Number of records whose labels are compared with those of a model."""
_SAMPLED = 10_000
"""Number of texts of each part whose beginning is kept, so that some of them can be shown."""
_BEGINNING = 100


@dataclass(frozen=True, eq=False)
class ClassifyRows:
    """Some of the encoded texts of a dataset, with their gold labels.

    Args:
        texts: all encoded texts.
        rows: the indices of these texts.
        gold: the gold labels of these texts.
        shown: a few of them as text, by position.
    """

    texts: EncodedTexts
    rows: np.ndarray
    gold: list[tuple[str, ...]]
    shown: dict[int, str] = field(default_factory=dict)

    @property
    def lengths(self) -> np.ndarray:
        return self.texts.lengths[self.rows]

    def __len__(self) -> int:
        return len(self.rows)


# --- reading ----------------------------------------------------------------------------------------------------------


def _reader_columns(data: ClassifyDataConfig, gold: bool) -> dict[str, str]:
    """The columns that a config sets, by role."""
    named = {"text": data.text_column, "label": data.label_column if gold else None}
    return {role: column for role, column in named.items() if column is not None}


def read_labeled_texts(
    data: ClassifyDataConfig, path: Path, counter: ReadCounter, *, gold: bool = True, phrases: bool = False
) -> Iterator[LabeledText]:
    """The examples of one file, in the configured or detected format, with renamed labels.

    Args:
        data: the config of the data.
        path: the file.
        counter: counts what is read and dropped.
        gold: whether labels are read; otherwise they may be missing.
        phrases: for trees, yield every distinct phrase instead of the sentence.
    """
    format = None if data.input_format == "auto" else data.input_format
    detected = detect_format(path, data.encoding) if format is None else None
    if detected is not None and detected.options.get("separator") == "spans":  # texts with spans, and perhaps labels
        format = detected.options["stored"]
    found = detected.format if format is None and detected is not None else format
    if detected is not None and detected.task == "read" and data.text_column is None:
        raise FormatError(
            f"{path} has questions on texts: it is {detected.why}. Pass --text-column question or --text-column "
            f"context, whichever is the text."
        )
    if found == "brackets":
        examples: Iterator[LabeledText] = _from_trees(path, data.encoding, phrases, counter)
    elif found in _SENTENCES and not gold:
        raise FormatError(
            f"{path} has one word per line, not one text. Use --input-format text to read each of its lines as a text."
        )
    else:
        examples = read_examples(
            path,
            format=format,
            columns=_reader_columns(data, gold),
            separator=data.label_separator,
            multilabel=data.multilabel,
            encoding=data.encoding,
            counter=counter,
            labeled=gold,
            keep_empty=not gold,
        )
    return _relabeled(examples, data.relabel, counter) if data.relabel and gold else examples


def has_foreign_labels(data: ClassifyDataConfig, path: Path, labels: Collection[str]) -> bool:
    """Whether a file without column names seems to have labels, and none of the first of them is in ``labels``.

    Such a file has lines of text, since only the first words of its lines made it look labeled.
    """
    found = detect_format(path, data.encoding)
    is_headerless = found.format == "tsv" and found.options["layout"].header is None
    if found.format != "first-word" and not (is_headerless and found.columns.get("label")):
        return False
    label = replace(LABEL, separator=data.label_separator)
    first = islice(open_records(path, (TEXT, label), encoding=data.encoding).read(), _LOOKED_AT)
    return not any(set(record["label"] or ()) & set(labels) for record in first)


def is_table(data: ClassifyDataConfig, path: Path) -> bool:
    """Whether a file has columns or keys."""
    format = data.input_format
    return (detect_format(path, data.encoding).format if format == "auto" else format) in TABLE_FORMATS


def _from_trees(path: Path, encoding: str | None, phrases: bool, counter: ReadCounter) -> Iterator[LabeledText]:
    """One text for each tree with the label of its root, or one for each distinct node."""
    seen: set[tuple[str, str]] = set()
    for tree in read_trees(path, encoding=encoding, counter=counter):
        for i, node in enumerate(_nodes(tree) if phrases else (tree,)):
            example = LabeledText(" ".join(node.words()), (node.label,), node.location)
            counter.saw(int(i > 0))  # the reader counts each tree
            if phrases and (node.label, example.text) in seen:
                counter.drop("met before", example.location, example.text)
                continue
            seen.add((node.label, example.text))
            yield example


def _nodes(tree: Tree) -> Iterator[Tree]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _relabeled(examples: Iterator[LabeledText], pairs: Sequence[str], counter: ReadCounter) -> Iterator[LabeledText]:
    names = dict(pair.split("=", 1) for pair in pairs)
    for example in examples:
        labels = tuple(names.get(label, label) for label in example.labels)
        if "" in labels:
            counter.drop("with a label that is left out", example.location, example.text)
        else:
            yield LabeledText(example.text, labels, example.location)


# --- storage ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TextStore:
    """The examples of all files as provisional token ids.

    Args:
        corpus: the token ids of each text.
        tokens: the token of each id.
        labels: the labels of each text.
        hashes: the hash of each text, by which it is split.
        weights: the weight of each text.
        parts: the texts of the files, by their role.
        beginnings: the first characters of some texts as the files have them, by index.
    """

    corpus: Corpus
    tokens: list[str]
    labels: list[tuple[str, ...]]
    hashes: np.ndarray
    weights: np.ndarray
    parts: dict[str, np.ndarray]
    beginnings: dict[int, str]

    def split(self, config: ClassifyConfig) -> dict[str, np.ndarray]:
        """The texts of train, dev and test. What has no file is split off train, with the same mix of labels."""
        return split_texts(config, self.hashes, self.labels, self.parts)

    def samples(self, rows: np.ndarray) -> dict[int, str]:
        """The beginnings of a few of the texts ``rows``, by their position in ``rows``."""
        known = [i for i, row in enumerate(rows.tolist()) if row in self.beginnings]
        chosen = np.linspace(0, len(known) - 1, min(SAMPLES, len(known))).astype(int).tolist()
        return {known[n]: self.beginnings[int(rows[known[n]])] for n in chosen}


def split_texts(
    config: ClassifyConfig,
    hashes: Sequence[int] | np.ndarray,
    labels: Sequence[tuple[str, ...]],
    parts: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The indices of train, dev and test.

    Of more than ``MANY`` texts, those whose hash is below a limit are held out: see :func:`split_by_limits`.

    Args:
        config: how texts are split.
        hashes: the hash of each text.
        labels: the labels of each text.
        parts: the indices of the texts of the files of each part.
    """
    train = parts["train"]
    if is_split_by_limits(config, len(train)):
        part = split_by_limits(config, np.asarray(hashes, np.uint64)[train], parts)
        return {
            "train": train[part == 0],
            "dev": parts.get("dev", train[part == 1]),
            "test": parts.get("test", train[part == 2]),
        }
    splits = config.data.splits(has_dev="dev" in parts, has_test="test" in parts, seed=config.seed)
    keys = [f"{value:x}" for value in np.asarray(hashes, np.uint64)[train].tolist()]
    index = splits.rows(keys, [labels[i] for i in train.tolist()], fold=config.data.fold)
    found = {"train": train[index.train], "dev": train[index.dev], "test": train[index.test]}
    return {name: parts.get(name, rows) if name != "train" else rows for name, rows in found.items()}


def is_split_by_limits(config: ClassifyConfig, n: int) -> bool:
    """Whether ``n`` training texts are too many for a split of exact sizes."""
    return n > MANY and config.data.folds is None


def split_by_limits(config: ClassifyConfig, hashes: np.ndarray, parts: Container[str]) -> np.ndarray:
    """0, 1 or 2 for texts of train, dev and test: those whose hash is below a limit are held out.

    Labels are then in proportion without being counted.

    Args:
        config: how texts are split.
        hashes: the hash of each text of the training files.
        parts: the parts that have files.
    """
    splits = config.data.splits(has_dev="dev" in parts, has_test="test" in parts, seed=config.seed)
    own = hashes / 2.0**64
    is_test = own < splits.test_fraction
    return np.where(is_test, 2, own < splits.test_fraction + splits.dev_fraction).astype(np.int8)


def store_texts(config: ClassifyConfig, sources: Sources[LabeledText], tokenizer: Tokenizer) -> TextStore:
    """Tokenize the examples of all files once; drop and count those that training cannot use."""
    builder = CorpusBuilder()
    labels: list[tuple[str, ...]] = []
    hashes, weights, parts = array.array("Q"), array.array("d"), {}
    beginnings: dict[int, str] = {}
    for part in ("train", "dev", "test"):
        first = len(labels)
        for example, tokens in _read_usable(config, sources, tokenizer, part):
            if len(labels) - first < _SAMPLED:
                beginnings[len(labels)] = " ".join(example.text[:_BEGINNING].split())
            builder.add(tokens)
            labels.append(example.labels)
            hashes.append(hash_text(example.text))
            weights.append(example.weight)
        if part in sources:
            parts[part] = np.arange(first, len(labels))
            sources.check(part, len(parts[part]))
    by_text = np.array(hashes, np.uint64), np.array(weights, np.float64)
    return TextStore(builder.finish(), builder.tokens, labels, *by_text, parts, beginnings)


def _read_usable(
    config: ClassifyConfig, sources: Sources[LabeledText], tokenizer: Tokenizer, part: str
) -> Iterator[tuple[LabeledText, list[str]]]:
    """The examples of a part that training can use, with their tokens; the others are dropped and counted."""
    limit, cut = config.data.max_length, config.data.too_long == "cut"
    for example in sources.read(part):
        tokens = tokenizer.tokens(example.text)
        if reason := why_unusable(example, tokens, config, part, None if cut else limit):
            sources.counter.drop(reason, example.location, example.text)
        else:
            yield example, tokens[:limit]


def read_parts(config: ClassifyConfig, sources: Sources[LabeledText], tokenizer: Tokenizer) -> DataParts[LabeledText]:
    """The examples of train, dev and test as :func:`store_texts` uses them, in memory."""
    every: list[LabeledText] = []
    parts = {}
    for part in ("train", "dev", "test"):
        first = len(every)
        every += [example for example, _ in _read_usable(config, sources, tokenizer, part)]
        if part in sources:
            parts[part] = np.arange(first, len(every))
    with sources.explaining():
        index = split_texts(config, [hash_text(e.text) for e in every], [e.labels for e in every], parts)
    return DataParts(*([every[i] for i in index[part]] for part in ("train", "dev", "test")))


def hash_text(text: str) -> int:
    """A 64-bit hash that is the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def why_unusable(
    example: LabeledText, tokens: Sized, config: ClassifyConfig, part: str, limit: int | None
) -> str | None:
    """The reason why training cannot use an example; None if it can.

    Args:
        example: the example.
        tokens: its tokens.
        config: the config of the task.
        part: ``train``, ``dev`` or ``test``.
        limit: longer training texts are dropped; None if they are cut.
    """
    several = config.data.multilabel
    if not example.labels and not several:
        return "without a label"
    if len(example.labels) > 1 and not several:
        raise DataError(
            f"{example.location} must have one label, got {len(example.labels)} ({', '.join(example.labels)}). Use "
            f"--multilabel if texts may have several."
        )
    if not tokens:
        return "without a token"
    if part == "train" and limit is not None and len(tokens) > limit:
        return f"longer than max_length={limit}"
    return None


def fit_tokenizer(config: ClassifyConfig, sources: Sources[LabeledText]) -> Tokenizer:
    """Build the tokenizer. A trained one reads the training texts first, in an extra pass."""
    if config.tokenizer.kind not in ("bpe", "unigram"):
        return build_tokenizer(config.tokenizer)
    again = Sources(sources.family, config, sources.given)
    return build_tokenizer(config.tokenizer, (example.text for example in again.read("train")))


def count_labels(labels: Sequence[Sequence[str]], config: ClassifyConfig, n: int | None = None) -> Labels:
    """The labels of the training texts. Raise DataError if a classifier cannot learn them.

    Args:
        labels: the labels of each text, or each set of labels once.
        config: the config of the task.
        n: the number of texts, if not one for each of ``labels``.
    """
    names, n = Labels.count(labels), len(labels) if n is None else n
    if len(names) < 2 and not config.data.multilabel:
        only = f"only the label {names.names[0]!r}" if len(names) else "no label"
        raise DataError(f"Training data must have at least two labels, got {only}. Check --label-column and the file.")
    if len(names) > 1000 and len(names) > n / 2:
        raise DataError(
            f"The data has {len(names):,} different labels for {n:,} texts: probably the text was read as the label. "
            f"Check --input-format, or name the columns with --text-column and --label-column."
        )
    return names


def describe_rows(names: Labels, parts: dict[str, ClassifyRows], unknown: dict[str, float | None]) -> list[str]:
    """Lines about the data: sizes, the fraction of ``unknown`` tokens, and the labels of train."""
    lines = []
    for part, rows in parts.items():
        if len(rows):
            unit = "known features" if unknown[part] is None else "tokens"
            fraction = unknown[part] if part != "train" else None
            line = describe_sizes(part, len(rows), float(rows.lengths.mean()), int(rows.lengths.max()), unit)
            lines.append(line + (f", {100 * fraction:.1f} % unknown" if fraction else ""))
    return [*lines, describe_labels(names.names, Counter(label for labels in parts["train"].gold for label in labels))]


def describe_sizes(part: str, n: int, mean: float, longest: int, unit: str) -> str:
    """A line about the number of texts of a part and their lengths."""
    return f"{part}: {n:,} texts, {mean:.1f} {unit} on average, {longest:,} at most"


def describe_labels(names: Sequence[str], counts: Mapping[str, int]) -> str:
    """A line about the labels and the number of training examples with the most frequent ones."""
    most = sorted(((counts[name], name) for name in names), reverse=True)
    listed = ", ".join(f"{name} {count:,}" for count, name in most[:8])
    return f"{len(names)} labels: {listed}" + (f", and {len(most) - 8} more" if len(most) > 8 else "")


def find_unseen(labels: Iterable[Sequence[str]], names: Collection[str]) -> tuple[str, ...]:
    """Return the labels that are not in ``names``, without duplicates, sorted."""
    return Labels.count([label for label in some if label not in names] for some in labels).names


def encode_labels(labels: Sequence[Sequence[str]], names: Sequence[str], multilabel: bool) -> np.ndarray:
    """Return the class of each text, or a row of 0 and 1 over ``names`` for each text if ``multilabel``."""
    ids = {name: i for i, name in enumerate(names)}
    if not multilabel:
        return np.array([ids[label] for (label,) in labels], np.int64)
    rows = np.zeros((len(labels), len(names)), np.float32)
    for i, some in enumerate(labels):
        rows[i, [ids[label] for label in some]] = 1.0
    return rows


def describe_unseen(labels: Iterable[Sequence[str]], names: Collection[str], where: str, what: str) -> list[str]:
    """Return a line about gold labels that are not in ``names``, or an empty list if there are none.

    Args:
        labels: the gold labels of each text.
        names: the classes of the model.
        where: the data of the labels, such as ``"this file"``.
        what: what is counted, such as ``"texts have a label"``.
    """
    line = unseen_line(Counter(label for some in labels for label in some if label not in names), where, what)
    return [line] if line else []


def from_lists(texts: Iterable[str], labels: Iterable[Sequence[str]], source: str) -> Iterator[LabeledText]:
    """Examples from Python lists; the location of each is its position, counted from 1."""
    for i, (text, some) in enumerate(zip(texts, labels, strict=True), start=1):
        yield LabeledText(text, tuple(some), SourceLocation(source, i))
