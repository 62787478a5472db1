"""Prediction with a trained classifier of trees. Needs only its own folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from catena.checkpoint import Checkpoint
from catena.data.detect import detect_format
from catena.data.examples import SourceLocation, Tree
from catena.data.readers.brackets import read as read_brackets
from catena.data.readers.brackets import read_lines, to_text
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.draw.picture import Picture
from catena.draw.terminal.tree import tree_text
from catena.draw.tree import draw_tree
from catena.errors import DataError
from catena.tasks.application import (
    DEFAULT_PREDICT_OPTIONS,
    DEFAULT_READ_OPTIONS,
    EvaluationReport,
    PairedPredictions,
    PredictOptions,
    Predictor,
    ReadOptions,
)
from catena.tasks.classify.config import METRICS, ClassifyConfig
from catena.tasks.classify.encoding import TokenEncoding, load_encoding
from catena.tasks.classify.gold import describe_unseen, encode_labels, find_unseen
from catena.tasks.classify.reading import apply_read_options, read_texts
from catena.tasks.classify.scoring import build_metric
from catena.tasks.classify.tree_config import TreeClassifierConfig
from catena.tasks.classify.trees.batch import encode_shapes
from catena.tasks.classify.trees.model import TreeClassifier, build_tree_model
from catena.tasks.classify.trees.reading import NEEDS_TREES, TreeReader
from catena.tasks.classify.trees.scoring import JudgedNodes, polarity_classes, tree_report, tree_scores, tree_signatures
from catena.tasks.classify.trees.shape import TreeShape, relabel_tree
from catena.tasks.classify.trees.task import score_trees
from catena.tasks.classify.vectors import blank_vectors
from catena.tasks.kept import LABELS

BLOCK = 512
"""Number of trees that are read, encoded and scored together in a stream."""

TreeInput = str | Tree
"""A tree, a tree in brackets, or, if the config allows it, a text without a tree."""


@dataclass(frozen=True)
class TreePrediction:
    """The class of a tree's root with the probability of every class, and the tree with a class at every node.

    ``nodes`` has the class of each node and its probability, in the order of the opening brackets.
    """

    probabilities: dict[str, float]
    tree: Tree
    nodes: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        return self.nodes[0][0]

    @property
    def probability(self) -> float:
        return self.nodes[0][1]

    def __str__(self) -> str:
        return self.label


class TreeClassifierPredictor(Predictor):
    """A classifier of trees with its encoding and the names of its classes."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"confidence"})
    formats: ClassVar[tuple[str, ...]] = ("tsv", "text", "jsonl", "brackets")

    def __init__(
        self,
        config: ClassifyConfig,
        encoding: TokenEncoding,
        names: Labels,
        model: TreeClassifier,
        device: torch.device,
    ) -> None:
        assert isinstance(config.model, TreeClassifierConfig)
        self.config, self.encoding, self.names, self.device = config, encoding, names, device
        self.model = model.to(device).eval()
        self.reader = TreeReader(config.model, config.data, encoding.tokenizer)
        self.sides = polarity_classes(config.evaluation.binary, names)

    def find_network(self) -> TreeClassifier:
        return self.model

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the order of their ids."""
        return self.names.names

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict(
        self, items: Sequence[TreeInput], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> list[TreePrediction]:
        self.check(options)
        return self._predicted(_checked(items), 1)

    def predict_stream(
        self, items: Iterable[TreeInput], options: PredictOptions = DEFAULT_PREDICT_OPTIONS
    ) -> Iterator[TreePrediction]:
        self.check(options)
        waiting, first = iter(items), 1
        while block := list(islice(waiting, BLOCK)):
            yield from self._predicted(block, first)
            first += len(block)

    def _predicted(self, items: Sequence[TreeInput], first: int) -> list[TreePrediction]:
        if not items:
            return []
        trees = [self.reader.tree_of_item(item, SourceLocation("input", first + i)) for i, item in enumerate(items)]
        shapes = _without_labels([self.reader.shape(tree) for tree in trees])
        log_probs = self._log_probabilities(shapes)
        ends = np.cumsum([len(shape.parents) for shape in shapes])[:-1]
        parts = zip(trees, shapes, np.split(log_probs, ends), strict=True)
        return [self._prediction(tree, shape, np.exp(own)) for tree, shape, own in parts]

    def _log_probabilities(self, shapes: list[TreeShape]) -> np.ndarray:
        """The log-probabilities of every class at every node, tree by tree."""
        encoded = encode_shapes(shapes, self.reader.tokens(shapes), self.encoding.vocabulary, self.names.names)
        size, rows = self.config.evaluation.texts_at_once, np.arange(len(shapes))
        logits, _ = score_trees(self.model, encoded, rows, "all", size, self.device)
        return (logits.double() / self.model.temperature.double().cpu()).log_softmax(-1).numpy()

    def _prediction(self, tree: Tree, shape: TreeShape, probabilities: np.ndarray) -> TreePrediction:
        best = probabilities.argmax(1)
        nodes = tuple((self.names.name(int(best[n])), float(probabilities[n, best[n]])) for n in shape.origins)
        root = dict(zip(self.names.names, probabilities[0].tolist(), strict=True))
        return TreePrediction(root, relabel_tree(tree, [name for name, _ in nodes]), nodes)

    def read_inputs(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> Iterator[TreeInput]:
        found = detect_format(path, reading.encoding) if reading.format is None else None
        if (reading.format or (found.format if found else "")) == "brackets":
            yield from read_brackets(path, encoding=reading.encoding)
            return
        if self.reader.model.without_tree == "refuse":
            raise DataError(f"{path} has no trees; {NEEDS_TREES}.")
        yield from read_texts(path, reading, self.config.data, self.labels)

    def items_of_lines(self, lines: Iterator[str]) -> Iterator[TreeInput]:
        """Trees of one or more lines if the first line opens a bracket; otherwise each line is a text."""
        first = next(lines, None)
        if first is None:
            return
        waiting = chain([first], lines)
        if first.lstrip().startswith("("):
            yield from read_lines(enumerate(waiting, start=1), "standard input")
        else:
            yield from waiting

    # --- on labeled data ---------------------------------------------------------------------------------------------

    def judge(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> JudgedNodes:
        """Classify the labeled nodes of a file, block by block."""
        tally = ReadCounter()
        reader = TreeReader(self.reader.model, apply_read_options(self.config.data, reading), self.encoding.tokenizer)
        trees = reader.trees(path, tally)
        found, right, roots = [], [], []
        used = 0
        while block := list(islice(trees, BLOCK)):
            shapes = []
            for tree in block:
                shape = reader.shape(tree)
                if not any(shape.labels):
                    tally.drop("without a label", tree.place, " ".join(tree.words()))
                    continue
                shapes.append(shape)
            if shapes:
                used += len(shapes)
                has_label = np.array([label != "" for shape in shapes for label in shape.labels])
                found.append(self._log_probabilities(_without_labels(shapes))[has_label])
                right += [(label,) for shape in shapes for label in shape.labels if label]
                roots += [i == 0 for shape in shapes for i, label in enumerate(shape.labels) if label]
        if not found:
            raise DataError(f"{path} has no labeled tree to score: {tally.counts(0).sentence('')}. Add labels.")
        names = (*self.names.names, *find_unseen(right, self.names))
        notes = describe_unseen(right, self.names, "this file", "nodes have a label")
        labels = encode_labels(right, names, multilabel=False)
        counts = tally.counts(used).sentence("")
        return JudgedNodes(np.concatenate(found), labels, np.array(roots), names, counts, tuple(notes))

    def evaluate(self, path: Path, reading: ReadOptions = DEFAULT_READ_OPTIONS) -> EvaluationReport:
        judged = self.judge(path, reading)
        lines = tree_report(judged, self.sides)
        return EvaluationReport(tree_scores(judged, self.sides), tree_signatures(judged, self.sides), tuple(lines))

    def answers(
        self, path: Path, metric: str | None = None, reading: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> PairedPredictions:
        """The classes of the labeled roots."""
        roots = self.judge(path, reading).roots
        return PairedPredictions(
            build_metric(metric or METRICS[0], several=False),
            [(roots.names[j],) for j in roots.labels],
            [(roots.names[j],) for j in roots.log_probs.argmax(1)],
        )

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        n = sum(p.numel() for p in self.model.parameters())
        return [
            f"a classifier of trees of kind {self.config.model.kind}: {len(self.names)} classes, "
            f"{self.encoding.size:,} ids, {n:,} parameters",
            f"classes: {', '.join(self.names.names)}",
            f"temperature fitted on dev: {float(self.model.temperature):.3f}",
        ]

    def write(self, prediction: Any, item: Any, format: str) -> str:
        tree = prediction.tree
        text = " ".join(tree.words())
        if format == "brackets":
            return to_text(tree)
        if format == "jsonl":
            best = sorted(prediction.probabilities.items(), key=lambda one: -one[1])
            row = {
                "text": text,
                "label": prediction.label,
                "probability": round(prediction.probability, 6),
                "probabilities": {name: round(p, 6) for name, p in best},
                "tree": to_text(tree),
                "nodes": [[label, round(p, 6)] for label, p in prediction.nodes],
            }
            return json.dumps(row, ensure_ascii=False)
        return f"{prediction.label}\t{prediction.probability:.4f}\t{text}" if format == "tsv" else prediction.label

    def picture(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Picture:
        """The tree with the predicted class of every node; classes that differ from the input's are marked."""
        given = self.reader.tree_of_item(item, SourceLocation("input", 1))
        guess = self.predict([given], options)[0].tree
        return draw_tree(guess, reference=given if self._is_labeled(given) else None)

    def sketch(self, item: Any, options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> str:
        return tree_text(self.predict([item], options)[0].tree)

    def _is_labeled(self, tree: Tree) -> bool:
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            if node.label not in self.names:
                return False
            waiting += node.children
        return True


def _without_labels(shapes: list[TreeShape]) -> list[TreeShape]:
    """The same shapes without labels, which prediction does not use."""
    return [TreeShape(s.parents, s.words, [""] * len(s.labels), s.origins) for s in shapes]


def load_tree_predictor(
    config: ClassifyConfig, checkpoint: Checkpoint, device: torch.device
) -> TreeClassifierPredictor:
    """Load a trained classifier of trees from its checkpoint."""
    encoding = load_encoding(config, checkpoint.folder)
    assert isinstance(encoding, TokenEncoding)
    assert isinstance(config.model, TreeClassifierConfig)
    names = Labels.load(checkpoint.folder / LABELS)
    vectors = blank_vectors(config.model.embedding, encoding.size)
    model = build_tree_model(config, encoding.size, len(names), vectors)
    checkpoint.load_into(model)
    return TreeClassifierPredictor(config, encoding, names, model, device)


def _checked(items: Any) -> Sequence[TreeInput]:
    if isinstance(items, str | Tree):
        raise DataError("predict must get a list of trees, got one tree. Put it in a list: predict([tree]).")
    for i, item in enumerate(items):
        if not isinstance(item, str | Tree):
            raise DataError(
                f"item {i} must be a tree or a string, got {type(item).__name__}: {item!r:.60}. Pass trees or texts."
            )
    return items
