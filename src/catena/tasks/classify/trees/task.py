"""Classification of trees as a task: a loss on all labeled nodes, scores at roots and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.examples import SourceLocation, Tree
from catena.data.reading import ReadCounter
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import UNK, Labels, Vocabulary
from catena.draw.picture import Picture
from catena.draw.terminal.tree import tree_text
from catena.draw.tree import draw_tree
from catena.errors import DataError
from catena.metrics.calibration import fit_temperature
from catena.metrics.measure import Metric
from catena.tasks.base import DataParts, Origin
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.data import SAMPLES, describe_labels, describe_unseen, find_unseen
from catena.tasks.classify.encoding import ClassifyEncoding, TokenEncoding
from catena.tasks.classify.labels import describe_temperature, is_dev_trained_on
from catena.tasks.classify.model import LOSSES, balanced_weights
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.classify.tree_config import TreeClassifierConfig
from catena.tasks.classify.trees.data import TreeReader, TreeShape, relabel_tree
from catena.tasks.classify.trees.model import (
    NO_LABEL,
    EncodedTrees,
    TreeClassifier,
    Which,
    WordTrees,
    build_tree_model,
    encode_shapes,
)
from catena.tasks.classify.trees.predict import TREE_METRICS, TreeEvaluation, TreePrediction, polarity_classes
from catena.tasks.config import model_section
from catena.tasks.neural import Dataset, NeuralTask
from catena.tasks.pretrained import initial_vectors
from catena.training.task import BatchLoss

if TYPE_CHECKING:
    from catena.tasks.baselines.fitting import BaselineSuite


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Trees, their shapes and their arrays."""

    examples: Sequence[Tree]
    shapes: list[TreeShape]
    trees: EncodedTrees

    @property
    def lengths(self) -> np.ndarray:
        return self.trees.lengths

    def __len__(self) -> int:
        return len(self.shapes)


class TreeTask(NeuralTask[ClassifyConfig, Tree, TreePrediction, ClassifyOptions]):
    """A classifier of trees."""

    name = "classify"
    options_class = ClassifyOptions
    formats = ("tsv", "text", "csv", "jsonl", "brackets")

    def __init__(self, config: ClassifyConfig, encoding: ClassifyEncoding, network: TreeClassifier) -> None:
        super().__init__(config, encoding, network)
        assert isinstance(encoding.texts, TokenEncoding)
        self.model, self.names, self.words = network, encoding.names, encoding.texts
        self.reader = TreeReader(model_section(config, TreeClassifierConfig), config.data, encoding.texts.tokenizer)
        self.sides = polarity_classes(config.evaluation.binary, encoding.names)
        self._loss = LOSSES[config.loss_kind]
        self._class_weights: Float[Tensor, " k"] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the order of their ids."""
        return self.names.names

    @property
    def multilabel(self) -> bool:
        """Whether a node may have several classes: never."""
        return False

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, config: ClassifyConfig, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[Tree]:
        reader = TreeReader(model_section(config, TreeClassifierConfig), config.data, build_tokenizer(config.tokenizer))
        for tree in reader.trees(path, counter, gold=gold):
            if gold and (reason := _why_not(reader.shape(tree))):
                counter.drop(reason, tree.location, " ".join(tree.words()))
            else:
                yield tree

    def to_example(self, item: Any) -> Tree:
        if not isinstance(item, str | Tree):
            raise DataError(
                f"an item must be a tree or a string, got {type(item).__name__}: {item!r:.60}. Pass trees or texts."
            )
        return self.reader.tree_of_item(item, SourceLocation("input", 1))

    @classmethod
    def split_key(cls, example: Tree) -> str:
        return " ".join(example.words())

    @classmethod
    def split_group(cls, example: Tree) -> str:
        return example.label

    def baselines(self) -> BaselineSuite:
        from catena.tasks.classify.baselines import TreeSuite

        return TreeSuite(self)

    def usable(self, example: Tree) -> Tree | str:
        limit = self.config.data.max_length
        return f"longer than max_length={limit}" if len(list(example.words())) > limit else example

    # --- the network --------------------------------------------------------------------------------------------------

    @classmethod
    def fit_encoding(cls, config: ClassifyConfig, train: Sequence[Tree], origin: Origin) -> ClassifyEncoding:
        tokenizer = build_tokenizer(config.tokenizer)
        reader = TreeReader(model_section(config, TreeClassifierConfig), config.data, tokenizer)
        shapes = [reader.shape(tree) for tree in train]
        tokens = reader.tokens(shapes)
        counted = ([tokens[word] for word in shape.words if word is not None] for shape in shapes)
        vocabulary = Vocabulary.count(counted, config.vocabulary)
        texts = TokenEncoding(tokenizer, vocabulary, config.data.max_length)
        return ClassifyEncoding(texts, _count_labels(shapes, model_section(config, TreeClassifierConfig)))

    @classmethod
    def load_encoding(cls, config: ClassifyConfig, folder: Path) -> ClassifyEncoding:
        return ClassifyEncoding.load(config, folder)

    @classmethod
    def build_network(
        cls, config: ClassifyConfig, encoding: ClassifyEncoding, report: list[str] | None = None
    ) -> TreeClassifier:
        assert isinstance(encoding.texts, TokenEncoding)
        vectors = initial_vectors(
            model_section(config, TreeClassifierConfig).embedding, encoding.texts.vocabulary, report
        )
        return build_tree_model(config, encoding.texts.size, len(encoding.names), vectors)

    def encode(self, examples: Sequence[Tree], *, gold: bool = True) -> TreeRows:
        shapes = [self.reader.shape(tree) for tree in examples]
        if not gold:
            shapes = [TreeShape(s.parents, s.words, [""] * len(s.labels), s.origins) for s in shapes]
        unseen = find_unseen(([label for label in shape.labels if label] for shape in shapes), self.labels)
        tokens = self.reader.tokens(shapes)
        return TreeRows(examples, shapes, encode_shapes(shapes, tokens, self.words.vocabulary, (*self.labels, *unseen)))

    def collate(self, rows: TreeRows, index: np.ndarray) -> WordTrees:
        if self.config.loss.class_weights != "none" and self._class_weights is None:
            nodes = rows.trees.scored_nodes(np.arange(len(rows)), "labeled")
            counts = np.bincount(rows.trees.labels[nodes], minlength=len(self.names))
            self._class_weights = balanced_weights(torch.from_numpy(counts)).to(self.device)
        return rows.trees.batch(index, "labeled", self.device)

    def loss(self, batch: WordTrees) -> BatchLoss:
        losses = self._loss.single(self.model(batch), batch.labels, self.config.loss.label_smoothing)
        if self._class_weights is not None:
            losses = losses * self._class_weights[batch.labels]
        return BatchLoss(losses.mean(), len(batch.labels), batch.nodes)

    def describe_batch(self, batch: WordTrees) -> str:
        return f"{batch.size} trees, {batch.nodes:,} nodes on {len(batch.trees.levels)} levels"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return TREE_METRICS

    def evaluate_dev(self, rows: TreeRows) -> TreeEvaluation:
        logits, nodes = self._scored(rows, "labeled")
        is_root, labels = rows.trees.forest.parents[nodes] < 0, rows.trees.labels[nodes]
        scored = is_root & (labels < len(self.names))
        if self.config.evaluation.calibrate and scored.any():
            # A buffer, so it is saved with the weights; the loss does not read it, so training is not affected.
            fitted = fit_temperature(logits.double().numpy()[scored], labels[scored])
            given = self.config.evaluation.temperature
            self.model.temperature.fill_(given if is_dev_trained_on(self.config) else fitted)
        return self._evaluation(rows, logits, nodes)

    def evaluate_rows(self, rows: TreeRows) -> TreeEvaluation:
        return self._evaluation(rows, *self._scored(rows, "labeled"))

    def _scored(self, rows: TreeRows, which: Which) -> tuple[Float[Tensor, "s k"], np.ndarray]:
        """The scores of nodes, and the indices of these nodes."""
        size = self.config.evaluation.texts_at_once
        return score_trees(self.model, rows.trees, np.arange(len(rows)), which, size, self.device)

    def _evaluation(self, rows: TreeRows, logits: Float[Tensor, "s k"], nodes: np.ndarray) -> TreeEvaluation:
        flat = [label for shape in rows.shapes for label in shape.labels]
        is_root = rows.trees.forest.parents[nodes] < 0
        gold: list[tuple[str, ...]] = [(flat[node],) for node in nodes]
        return TreeEvaluation(self.labels, self._log_probs(logits), gold, is_root, self.sides)

    def _log_probs(self, logits: Float[Tensor, "s k"]) -> np.ndarray:
        return (logits.double() / self.model.temperature.double().cpu()).log_softmax(-1).numpy()

    def show(self, rows: TreeRows, result: TreeEvaluation) -> list[str]:
        nodes = rows.trees.scored_nodes(np.arange(len(rows)), "labeled")
        index = {int(node): i for i, node in enumerate(nodes)}
        lines = []
        for row in np.linspace(0, len(rows) - 1, min(SAMPLES, len(rows))).astype(int):
            root = int(rows.trees.roots[row])
            if root not in index:
                continue
            guess, gold = self.labels[int(result.log_probs[index[root]].argmax())], rows.shapes[row].labels[0]
            text = " ".join(rows.examples[row].words())
            shown = text if len(text) <= 60 else text[:57] + "…"
            lines.append(f"{shown}  →  {guess} {'✓' if guess == gold else f'✗ (is {gold})'}")
        return lines

    # --- prediction ---------------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[Tree], options: ClassifyOptions) -> list[TreePrediction]:
        rows = self.encode(examples, gold=False)
        probabilities = np.exp(self._log_probs(self._scored(rows, "all")[0]))
        ends = np.cumsum([len(shape.parents) for shape in rows.shapes])[:-1]
        parts = zip(examples, rows.shapes, np.split(probabilities, ends), strict=True)
        return [self._prediction(tree, shape, own, options) for tree, shape, own in parts]

    def _prediction(
        self, tree: Tree, shape: TreeShape, probabilities: np.ndarray, options: ClassifyOptions
    ) -> TreePrediction:
        best = probabilities.argmax(1)
        nodes = tuple((self.labels[int(best[n])], float(probabilities[n, best[n]])) for n in shape.origins)
        root = ClassPrediction(
            " ".join(tree.words()),
            (nodes[0][0],) if options.threshold is None or nodes[0][1] >= options.threshold else (),
            {self.labels[i]: float(probabilities[0, i]) for i in np.argsort(-probabilities[0], kind="stable").tolist()},
            n_best=options.n_best,
            scores=options.scores,
        )
        return TreePrediction(root, relabel_tree(tree, [label for label, _ in nodes]), nodes)

    # --- reports ------------------------------------------------------------------------------------------------------

    def summarize(self, parts: DataParts[Tree], data: Dataset) -> list[str]:
        lines = []
        for part in ("train", "dev", "test"):
            if len(rows := getattr(data, part)):
                lines.append(_describe_rows(part, rows))
        labels = data.train.trees.labels
        counts = np.bincount(labels[labels != NO_LABEL], minlength=len(self.names))
        lines.append(describe_labels(self.labels, dict(zip(self.labels, counts.tolist(), strict=True))))
        held = [[label for label in shape.labels if label] for shape in (*data.dev.shapes, *data.test.shapes)]
        return [*lines, *describe_unseen(held, self.labels, "dev and test", "nodes have a label")]

    def describe(self, top: int) -> list[str]:
        return [
            f"a classifier of trees of kind {self.config.model.kind}: {len(self.names)} classes, {self.words.size:,} "
            f"ids, {self.n_parameters:,} parameters",
            f"classes: {', '.join(self.labels)}",
            describe_temperature(self.config, float(self.model.temperature)),
        ]

    def draw(self, example: Tree, options: ClassifyOptions) -> Picture:
        """The tree with the predicted class of every node; classes that differ from the input's are marked."""
        prediction = self.predict_examples([example], options)[0].tree
        return draw_tree(prediction, reference=example if self._is_labeled(example) else None)

    def draw_text(self, example: Tree, options: ClassifyOptions) -> str:
        return tree_text(self.predict_examples([example], options)[0].tree)

    def _is_labeled(self, tree: Tree) -> bool:
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            if node.label not in self.names:
                return False
            waiting += node.children
        return True


def _why_not(shape: TreeShape) -> str | None:
    if not any(shape.labels):
        return "without a label"
    return None if any(shape.words) else "without a token"


def _count_labels(shapes: list[TreeShape], model: TreeClassifierConfig) -> Labels:
    """The labels of the training trees. Raise DataError if a classifier cannot learn them."""
    names = Labels.count([label for label in shape.labels if label] for shape in shapes)
    if len(names) < 2:
        only = f"only the label {names.names[0]!r}" if len(names) else "no label"
        where = "at the roots of the trees" if model.nodes == "root" else "at the nodes of the trees"
        raise DataError(f"Training data must have at least two labels, got {only} {where}. Check the file.")
    return names


def _describe_rows(part: str, rows: TreeRows) -> str:
    trees, lengths = rows.trees, rows.lengths
    words = trees.words[trees.forest.has_input]
    labeled, unknown = int((trees.labels != NO_LABEL).sum()), 100 * float((words == UNK).mean())
    return (
        f"{part}: {len(rows):,} trees, {lengths.mean():.1f} words on average, {lengths.max():,} at most, "
        f"{trees.forest.heights.max() + 1} levels, {labeled:,} labeled nodes"
        + (f", {unknown:.1f} % of words unknown" if unknown and part != "train" else "")
    )


def score_trees(
    model: TreeClassifier, trees: EncodedTrees, rows: np.ndarray, which: Which, size: int, device: torch.device
) -> tuple[Float[Tensor, "s k"], np.ndarray]:
    """The scores of nodes on the CPU, with trees of similar length scored together, and the indices of the nodes."""
    plan = BatchPlan.by_length(trees.lengths[rows], BatchConfig(batch_size=size))
    scores, nodes = [], []
    with torch.inference_mode():
        for part in plan:
            scores.append(model(trees.batch(rows[part], which, device)).float().cpu())
            nodes.append(trees.scored_nodes(rows[part], which))
    joined, numbers = torch.cat(scores), np.concatenate(nodes)
    order = np.argsort(numbers, kind="stable")
    return joined[torch.from_numpy(order)].clone(), numbers[order]
