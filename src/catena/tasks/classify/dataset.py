"""From data files to arrays: read, drop and count, tokenize once, split, choose the vocabulary, encode.

Memory does not grow with the text: of each example only its token ids (on disk if there are many), its label and its
location are kept.
"""

from __future__ import annotations

import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from catena.data.corpus import Corpus, CorpusBuilder
from catena.data.detect import detect_format, read_examples
from catena.data.examples import LabeledText, SourceLocation, Tree
from catena.data.readers.brackets import read as read_trees
from catena.data.reading import ReadCounter
from catena.data.tokenize import Tokenizer, build_tokenizer
from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyConfig, ClassifyDataConfig
from catena.tasks.classify.encoding import EncodedTexts, Encoding, learn_encoding, unknown_fraction
from catena.tasks.classify.gold import SETS, TEXTS, describe_unseen, encode_labels, find_unseen

SAMPLES = 3
"""Number of dev texts that are shown with their predictions at each evaluation."""


@dataclass(frozen=True, eq=False)
class ClassifyDataset:
    """Everything that training needs: encoded texts, labels, and the rows of train, dev and test.

    ``labels`` has the class of each text, or a row of 0 and 1 if a text may have several. Ids from ``len(names)`` on
    are labels of dev and test that do not occur in train (``unseen``); the model has no class for them.
    """

    encoding: Encoding
    names: Labels
    texts: EncodedTexts
    labels: np.ndarray
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    samples: list[tuple[int, str]]
    lines: list[str] = field(default_factory=list)
    tally: ReadCounter = field(default_factory=ReadCounter)
    unseen: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """The name of each id in ``labels``."""
        return (*self.names.names, *self.unseen)


# --- reading ----------------------------------------------------------------------------------------------------------


def reader_options(data: ClassifyDataConfig) -> dict[str, Any]:
    """The reader options that a config sets."""
    named = {
        "text_column": data.text_column,
        "label_column": data.label_column,
        "separator": data.label_separator,
    }
    return {key: value for key, value in named.items() if value is not None}


def read_labeled_texts(
    data: ClassifyDataConfig, path: str | Path, tally: ReadCounter, *, labeled: bool = True, phrases: bool = False
) -> Iterator[LabeledText]:
    """The examples of one file, in the configured or detected format, with renamed labels."""
    format = None if data.format == "auto" else data.format
    if (format or detect_format(path, data.encoding).format) == "brackets":
        examples: Iterator[LabeledText] = _from_trees(Path(path), data.encoding, phrases, tally)
    else:
        examples = read_examples(
            Path(path),
            format,
            options=reader_options(data),
            encoding=data.encoding,
            tally=tally,
            labeled=labeled,
        )
    return _relabeled(examples, data.relabel, tally) if data.relabel else examples


def _from_trees(path: Path, encoding: str | None, phrases: bool, tally: ReadCounter) -> Iterator[LabeledText]:
    """One text for each tree with the label of its root, or one for each distinct node."""
    seen: set[tuple[str, str]] = set()
    for tree in read_trees(path, encoding=encoding):
        for node in _nodes(tree) if phrases else (tree,):
            example = LabeledText(" ".join(node.words()), (node.label,), node.place)
            tally.saw()
            if phrases and (node.label, example.text) in seen:
                tally.drop("met before", example.place, example.text)
                continue
            seen.add((node.label, example.text))
            yield example


def _nodes(tree: Tree) -> Iterator[Tree]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _relabeled(examples: Iterator[LabeledText], pairs: Sequence[str], tally: ReadCounter) -> Iterator[LabeledText]:
    names = dict(pair.split("=", 1) for pair in pairs)
    for example in examples:
        labels = tuple(names.get(label, label) for label in example.labels)
        if "" in labels:
            tally.drop("with a label that is left out", example.place, example.text)
        else:
            yield LabeledText(example.text, labels, example.place)


@dataclass
class _Gathered:
    """Result of one pass over the files."""

    corpus: Corpus
    tokens: list[str]
    labels: list[tuple[str, ...]]
    parts: dict[str, np.ndarray]
    tally: ReadCounter
    lines: list[str]


def gather(
    config: ClassifyConfig, sources: Mapping[str, Iterable[LabeledText]], tokenizer: Tokenizer, tally: ReadCounter
) -> _Gathered:
    """Tokenize the examples of all files once; drop and count those that training cannot use."""
    builder = CorpusBuilder()
    labels: list[tuple[str, ...]] = []
    parts: dict[str, np.ndarray] = {}
    limit, cut = config.data.max_length, config.data.too_long == "cut"
    for part, examples in sources.items():
        rows = array.array("q")
        for example in examples:
            tokens = tokenizer.tokens(example.text)
            if reason := _why_not(example, tokens, config, part, None if cut else limit):
                tally.drop(reason, example.place, example.text)
                continue
            rows.append(len(labels))
            builder.add(tokens[:limit])
            labels.append(example.labels)
        parts[part] = np.frombuffer(rows, np.int64) if rows else np.zeros(0, np.int64)
    return _Gathered(builder.finish(), builder.tokens, labels, parts, tally, [])


def _why_not(
    example: LabeledText, tokens: Sequence[str], config: ClassifyConfig, part: str, limit: int | None
) -> str | None:
    several = config.data.multilabel
    if not example.labels and not several:
        return "without a label"
    if len(example.labels) > 1 and not several:
        raise DataError(
            f"{example.place} must have one label, got {len(example.labels)} ({', '.join(example.labels)}). Use "
            f"--multilabel if texts may have several."
        )
    if not tokens:
        return "without a token"
    if part == "train" and limit is not None and len(tokens) > limit:
        return f"longer than max_length={limit}"
    return None


# --- splitting --------------------------------------------------------------------------------------------------------


def split(
    rows: np.ndarray, classes: np.ndarray, share: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a fraction of the rows, stratified by class; at least one row."""
    order = rows[generator.permutation(len(rows))]
    # The rank of a row within its class, as a fraction: holding out the smallest takes the same fraction of each class.
    shuffled = classes[order]
    place = np.empty(len(order))
    for value in np.unique(shuffled):
        members = np.flatnonzero(shuffled == value)
        start = generator.random()
        # The only example of a class stays in train, as long as less than half is held out.
        place[members] = (np.arange(len(members)) + start) / len(members) if len(members) > 1 else 0.5
    count = min(max(1, round(share * len(order))), len(order) - 1)
    held = np.zeros(len(order), bool)
    held[np.argsort(place, kind="stable")[:count]] = True
    return np.sort(order[~held]), np.sort(order[held])


def split_fold(
    rows: np.ndarray, folds: int, fold: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows outside and inside one of ``folds`` random parts of nearly equal size."""
    parts = np.array_split(rows[generator.permutation(len(rows))], folds)
    inside = np.sort(parts[fold])
    return np.sort(np.concatenate([part for i, part in enumerate(parts) if i != fold])), inside


# --- the whole --------------------------------------------------------------------------------------------------------


def prepare(
    config: ClassifyConfig,
    randomness: Randomness,
    sources: Mapping[str, Iterable[LabeledText]] | None = None,
    encoding: Encoding | None = None,
    names: Labels | None = None,
) -> ClassifyDataset:
    """Read the files of a config, or the given examples, into a dataset.

    ``encoding`` and ``names`` come from a trained model if training starts from it.
    """
    tally = ReadCounter()
    lines: list[str] = []
    if sources is None:
        lines = describe_files(config.data)
        sources = _open_sources(config.data, tally)
    else:
        sources = {part: tally.seen(examples) for part, examples in sources.items()}
    tokenizer = encoding.tokenizer if encoding else _learn_tokenizer(config, sources)
    found = gather(config, sources, tokenizer, tally)
    several = config.data.multilabel
    train, dev, test = split_rows(config, found.parts, _classes(found, config), randomness)
    own = _count_labels([found.labels[i] for i in (train if "dev" in found.parts else np.union1d(train, dev))], config)
    names = own if names is None else _check_known(own, names)
    unseen = find_unseen(found.labels, names)
    labels = encode_labels(found.labels, (*names.names, *unseen), several)
    if encoding is None:
        encoding = learn_encoding(config, tokenizer, found.corpus, found.tokens, train)
    shown = dev[np.linspace(0, len(dev) - 1, min(SAMPLES, len(dev))).astype(int)]
    samples = [(int(i), tokenizer.join([found.tokens[n] for n in found.corpus[int(i)]])) for i in shown]
    texts = encoding.encode_corpus(found.corpus, found.tokens)
    lines += [tally.counts(len(found.labels)).sentence(), *_describe(names, labels, texts, train, dev, test)]
    lines += encoding.notes()
    held = (found.labels[i] for i in (*dev, *test))
    lines += describe_unseen(held, names, "dev and test", SETS if several else TEXTS)
    if several and max(map(len, found.labels)) < 2:
        lines.append("no text has several labels: if they are joined, name their separator with --label-separator")
    return ClassifyDataset(encoding, names, texts, labels, train, dev, test, samples, lines, tally, unseen)


def describe_files(data: ClassifyDataConfig) -> list[str]:
    """The detected format of each file, and the evidence."""
    lines = []
    for part, path in data.files().items():
        if data.format == "auto":
            found = detect_format(path, data.encoding)
            lines.append(f"{part}: {_short(path)} is {found.format}: {found.why}")
        else:
            lines.append(f"{part}: {_short(path)} is read as {data.format}")
    return lines


def _short(path: Path) -> Path:
    """A path relative to the current folder if it is inside it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _open_sources(data: ClassifyDataConfig, tally: ReadCounter) -> dict[str, Iterable[LabeledText]]:
    if not data.train:
        raise DataError("there is nothing to train on: name a file, as in 'catena train classify FILE'")
    sources: dict[str, Iterable[LabeledText]] = {"train": _chained(data, tally)}
    if data.dev is not None:
        sources["dev"] = read_labeled_texts(data, data.dev, tally)
    if data.test is not None:
        sources["test"] = read_labeled_texts(data, data.test, tally)
    return sources


def _chained(data: ClassifyDataConfig, tally: ReadCounter) -> Iterator[LabeledText]:
    for path in data.train:
        yield from read_labeled_texts(data, path, tally, phrases=data.phrases)


def _learn_tokenizer(config: ClassifyConfig, sources: Mapping[str, Iterable[LabeledText]]) -> Tokenizer:
    """Build the tokenizer. A trained one reads the training files first, in an extra pass."""
    if config.tokenizer.kind not in ("bpe", "unigram"):
        return build_tokenizer(config.tokenizer)
    if config.data.train:
        return build_tokenizer(config.tokenizer, (example.text for example in _chained(config.data, ReadCounter())))
    examples = list(sources["train"])
    sources["train"] = examples  # type: ignore[index]
    return build_tokenizer(config.tokenizer, (example.text for example in examples))


def _classes(found: _Gathered, config: ClassifyConfig) -> np.ndarray:
    """A number for the labels of each text of train, by which :func:`split` stratifies; 0 for other texts."""
    rows = found.parts["train"]
    labels = [found.labels[i] for i in rows]
    encoded = encode_labels(labels, _count_labels(labels, config).names, config.data.multilabel)
    classes = np.zeros(len(found.labels), np.int64)
    classes[rows] = encoded if encoded.ndim == 1 else encoded @ (1 << np.arange(encoded.shape[1]) % 60)
    return classes


def _count_labels(labels: Sequence[Sequence[str]], config: ClassifyConfig) -> Labels:
    """The labels of the training texts. Raise DataError if a classifier cannot learn them."""
    names, n = Labels.count(labels), len(labels)
    if n == 0:
        raise DataError("No training example is left. See dropped.tsv for the dropped ones and the reasons.")
    if len(names) < 2 and not config.data.multilabel:
        only = f"only the label {names.names[0]!r}" if len(names) else "no label"
        raise DataError(f"Training data must have at least two labels, got {only}. Check --label-column and the file.")
    if len(names) > 1000 and len(names) > n / 2:
        raise DataError(
            f"The data has {len(names):,} different labels for {n:,} texts: probably the text was read as the label. "
            f"Check --format, or name the columns with --text-column and --label-column."
        )
    return names


def _check_known(own: Labels, names: Labels) -> Labels:
    """The classes of a trained model. Raise DataError if training texts have other labels."""
    names.ids(own.names)
    return names


def split_rows(
    config: ClassifyConfig, parts: Mapping[str, np.ndarray], classes: np.ndarray, randomness: Randomness
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of train, dev and test; ``parts`` are the rows of the files by their role."""
    data = config.data
    train = parts["train"]
    test = parts.get("test", np.zeros(0, np.int64))
    if data.folds is not None:
        if len(train) < data.folds:
            raise DataError(
                f"data.folds must be at most the number of examples, {len(train)}, got {data.folds}. Lower data.folds."
            )
        train, test = split_fold(train, data.folds, data.fold or 0, randomness.numpy("folds"))
    if "dev" in parts:
        return _not_empty(train, "train"), _not_empty(parts["dev"], "dev"), test
    if len(train) < 2:
        raise DataError("One example cannot be split into train and dev. Give a dev file with --dev.")
    train, dev = split(train, classes, data.dev_fraction, randomness.numpy("dev", data.fold or 0))
    return train, dev, test


def _not_empty(rows: np.ndarray, part: str) -> np.ndarray:
    if len(rows) == 0:
        raise DataError(f"No example of {part} is left. See dropped.tsv for the dropped ones and the reasons.")
    return rows


def _describe(
    names: Labels,
    labels: np.ndarray,
    texts: EncodedTexts,
    train: np.ndarray,
    dev: np.ndarray,
    test: np.ndarray,
) -> list[str]:
    lines = []
    for part, rows in (("train", train), ("dev", dev), ("test", test)):
        if len(rows):
            lengths = texts.lengths[rows]
            unknown = unknown_fraction(texts, rows)
            unit = "known features" if unknown is None else "tokens"
            words = f"{part}: {len(rows):,} texts, {lengths.mean():.1f} {unit} on average, {lengths.max():,} at most"
            lines.append(words + (f", {100 * unknown:.1f} % unknown" if unknown and part != "train" else ""))
    own = labels[train]
    counts = np.bincount(own if own.ndim == 1 else np.nonzero(own)[1], minlength=len(names))
    most = sorted(zip(counts.tolist(), names.names, strict=True), reverse=True)
    listed = ", ".join(f"{name} {count:,}" for count, name in most[:8])
    lines.append(f"{len(names)} labels: {listed}" + (f", and {len(most) - 8} more" if len(most) > 8 else ""))
    return lines


def from_lists(texts: Iterable[str], labels: Iterable[Sequence[str]], source: str) -> Iterator[LabeledText]:
    """Examples from Python lists; the location of each is its position, counted from 1."""
    for i, (text, some) in enumerate(zip(texts, labels, strict=True), start=1):
        yield LabeledText(text, tuple(some), SourceLocation(source, i))
