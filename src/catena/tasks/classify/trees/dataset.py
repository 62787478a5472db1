"""From bracket files to encoded trees: read, count, split, encode."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from catena.data.examples import Tree
from catena.data.reading import ReadCounter
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import UNK, Labels, Vocabulary
from catena.errors import DataError
from catena.randomness import Randomness
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.dataset import SAMPLES, describe_files, split_rows
from catena.tasks.classify.encoding import TokenEncoding
from catena.tasks.classify.gold import describe_unseen, find_unseen
from catena.tasks.classify.tree_config import TreeClassifierConfig
from catena.tasks.classify.trees.batch import NO_LABEL, EncodedTrees, encode_shapes
from catena.tasks.classify.trees.reading import TreeReader
from catena.tasks.classify.trees.shape import TreeShape


@dataclass(frozen=True, eq=False)
class TreeDataset:
    """Everything that training on trees needs: encoded trees, class names, and the rows of train, dev and test."""

    encoding: TokenEncoding
    names: Labels
    trees: EncodedTrees
    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    samples: list[tuple[int, str]]
    lines: list[str] = field(default_factory=list)
    tally: ReadCounter = field(default_factory=ReadCounter)
    unseen: tuple[str, ...] = ()
    """Labels of dev and test that do not occur in train; their ids follow those of ``names``."""


def prepare_trees(
    config: ClassifyConfig,
    randomness: Randomness,
    encoding: TokenEncoding | None = None,
    names: Labels | None = None,
) -> TreeDataset:
    """Read the files of a config into a dataset.

    ``encoding`` and ``names`` come from a trained model if training starts from it.
    """
    model = config.model
    assert isinstance(model, TreeClassifierConfig)
    tally = ReadCounter()
    lines = describe_files(config.data)
    tokenizer = encoding.tokenizer if encoding else build_tokenizer(config.tokenizer)
    reader = TreeReader(model, config.data, tokenizer)
    shapes, parts = _gathered(config, reader, tally)
    if not len(parts["train"]):
        raise DataError("No training tree is left. See dropped.tsv for the dropped ones and the reasons.")
    train, dev, test = split_rows(config, parts, _root_classes(shapes), randomness)
    own = _count_labels([shapes[i] for i in (train if "dev" in parts else np.union1d(train, dev))], model)
    if names is None:
        names = own
    names.ids(own.names)  # raises if the old model lacks a label
    gold = [[label for label in shape.labels if label] for shape in shapes]
    unseen = find_unseen(gold, names)
    tokens = reader.tokens(shapes)
    if encoding is None:
        counted = ([tokens[word] for word in shapes[i].words if word is not None] for i in train)
        vocabulary = Vocabulary.count(counted, config.vocabulary)
        encoding = TokenEncoding(tokenizer, vocabulary, config.data.max_length)
    trees = encode_shapes(shapes, tokens, encoding.vocabulary, (*names.names, *unseen))
    shown = dev[np.linspace(0, len(dev) - 1, min(SAMPLES, len(dev))).astype(int)]
    samples = [(int(i), " ".join(word for word in shapes[i].words if word is not None)) for i in shown]
    lines += [tally.counts(len(shapes)).sentence(), *_describe(names, trees, train, dev, test)]
    lines += describe_unseen((gold[i] for i in (*dev, *test)), names, "dev and test", "nodes have a label")
    return TreeDataset(encoding, names, trees, train, dev, test, samples, lines, tally, unseen)


def _root_classes(shapes: list[TreeShape]) -> np.ndarray:
    """The class of each root, by which dev is stratified."""
    labels = [shape.labels[0] for shape in shapes]
    ids = {name: i for i, name in enumerate(Labels.count([label] for label in labels if label).names)}
    return np.array([ids.get(label, NO_LABEL) for label in labels], np.int64)


def _gathered(
    config: ClassifyConfig, reader: TreeReader, tally: ReadCounter
) -> tuple[list[TreeShape], dict[str, np.ndarray]]:
    """The trees of all files as shapes, and the rows of each file."""
    files = config.data.files()
    if not any(part.startswith("train") for part in files):
        raise DataError("there is nothing to train on: name a file, as in 'catena train classify FILE'")
    shapes: list[TreeShape] = []
    rows: dict[str, list[int]] = {}
    for name, path in files.items():
        part = name.split("-")[0]
        for shape in _read(path, reader, tally, config.data.max_length if part == "train" else None):
            rows.setdefault(part, []).append(len(shapes))
            shapes.append(shape)
        rows.setdefault(part, [])
    return shapes, {part: np.array(some, np.int64) for part, some in rows.items()}


def _read(path: Path, reader: TreeReader, tally: ReadCounter, limit: int | None) -> list[TreeShape]:
    """The usable trees of a file; the others are dropped and counted."""
    kept = []
    for tree in reader.trees(path, tally):
        shape = reader.shape(tree)
        if reason := _why_not(tree, shape, limit):
            tally.drop(reason, tree.place, " ".join(tree.words()))
        else:
            kept.append(shape)
    return kept


def _why_not(tree: Tree, shape: TreeShape, limit: int | None) -> str | None:
    if not any(shape.labels):
        return "without a label"
    if not any(shape.words):
        return "without a token"
    if limit is not None and sum(word is not None for word in shape.words) > limit:
        return f"longer than max_length={limit}"
    return None


def _count_labels(shapes: list[TreeShape], model: TreeClassifierConfig) -> Labels:
    """The labels of the training trees. Raise DataError if a classifier cannot learn them."""
    names = Labels.count([label for label in shape.labels if label] for shape in shapes)
    if len(names) < 2:
        only = f"only the label {names.names[0]!r}" if len(names) else "no label"
        where = "at the roots of the trees" if model.nodes == "root" else "at the nodes of the trees"
        raise DataError(f"Training data must have at least two labels, got {only} {where}. Check the file.")
    return names


def _describe(names: Labels, trees: EncodedTrees, train: np.ndarray, dev: np.ndarray, test: np.ndarray) -> list[str]:
    lines = []
    lengths = trees.lengths
    for part, rows in (("train", train), ("dev", dev), ("test", test)):
        if len(rows):
            nodes = trees.forest.nodes_of(rows)
            words = trees.words[nodes[trees.forest.has_input[nodes]]]
            labeled = int((trees.labels[nodes] != NO_LABEL).sum())
            unknown = 100 * float((words == UNK).mean())
            lines.append(
                f"{part}: {len(rows):,} trees, {lengths[rows].mean():.1f} words on average, {lengths[rows].max():,} at "
                f"most, {trees.forest.heights[nodes].max() + 1} levels, {labeled:,} labeled nodes"
                + (f", {unknown:.1f} % of words unknown" if unknown and part != "train" else "")
            )
    labels = trees.labels[trees.forest.nodes_of(train)]
    counts = np.bincount(labels[labels != NO_LABEL], minlength=len(names))
    most = sorted(zip(counts.tolist(), names.names, strict=True), reverse=True)
    listed = ", ".join(f"{name} {count:,}" for count, name in most[:8])
    lines.append(f"{len(names)} labels: {listed}" + (f", and {len(most) - 8} more" if len(most) > 8 else ""))
    return lines
