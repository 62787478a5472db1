"""The classifier of trees as a task of the training loop: loss on all labeled nodes, scores at roots and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.metrics.calibration import fit_temperature
from catena.randomness import Randomness
from catena.tasks.classify.config import METRICS, ClassifyConfig
from catena.tasks.classify.encoding import write_model_files
from catena.tasks.classify.loss import LOSSES, balanced_weights
from catena.tasks.classify.trees.batch import EncodedTrees, Which, WordTrees
from catena.tasks.classify.trees.dataset import TreeDataset
from catena.tasks.classify.trees.model import TreeClassifier
from catena.tasks.classify.trees.scoring import JudgedNodes, polarity_classes, tree_scores
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.training.task import BatchLoss, EpochPlan, Evaluation


class TreeTask(NeuralTask):
    """A classifier of trees, its data and its metric."""

    def __init__(
        self,
        config: ClassifyConfig,
        data: TreeDataset,
        model: TreeClassifier,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._model = model.to(device)
        self._loss = LOSSES[config.loss_kind]
        self._class_weights = self._weights_of_classes()
        self._sides = polarity_classes(config.evaluation.binary, data.names)

    @property
    def model(self) -> nn.Module:
        return self._model

    @property
    def metric(self) -> str:
        return METRICS[0]

    @property
    def higher_is_better(self) -> bool:
        return True

    def epoch(self, number: int) -> EpochPlan:
        generator = self.randomness.numpy("batches", number)
        plan = BatchPlan.shuffled(self.data.trees.lengths[self.data.train], self.config.batches, generator)
        return BatchedEpoch(plan, self._batch)

    def _batch(self, rows: np.ndarray) -> WordTrees:
        return self.data.trees.batch(self.data.train[rows], "labeled", self.device)

    def loss(self, batch: WordTrees) -> BatchLoss:
        losses = self._loss.single(self._model(batch), batch.labels, self.config.loss.label_smoothing)
        if self._class_weights is not None:
            losses = losses * self._class_weights[batch.labels]
        return BatchLoss(losses.mean(), len(batch.labels), batch.nodes)

    def _weights_of_classes(self) -> Float[Tensor, "k"] | None:
        if self.config.loss.class_weights == "none":
            return None
        nodes = self.data.trees.scored_nodes(self.data.train, "labeled")
        counts = np.bincount(self.data.trees.labels[nodes], minlength=len(self.data.names))
        return balanced_weights(torch.from_numpy(counts)).to(self.device)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        logits, nodes = self._scored(self.data.dev)
        is_root, labels = self._is_root(nodes), self.data.trees.labels[nodes]
        scored = is_root & (labels < len(self.data.names))
        if self.config.evaluation.calibrate and scored.any():
            # A buffer, so it is saved with the weights; the loss does not read it, so training is not affected.
            self._model.temperature.fill_(fit_temperature(logits.double().numpy()[scored], labels[scored]))
        judged = self._judged(logits, nodes)
        return Evaluation(tree_scores(judged, self._sides), self._samples(judged, nodes))

    def test_scores(self) -> dict[str, float]:
        return tree_scores(self._judged(*self._scored(self.data.test)), self._sides) if len(self.data.test) else {}

    def _scored(self, rows: np.ndarray) -> tuple[Float[Tensor, "s k"], np.ndarray]:
        """The scores of all labeled nodes of some trees, and the indices of these nodes."""
        size = self.config.evaluation.texts_at_once
        return score_trees(self._model, self.data.trees, rows, "labeled", size, self.device)

    def _judged(self, logits: Float[Tensor, "s k"], nodes: np.ndarray) -> JudgedNodes:
        log_probs = (logits.double() / self._model.temperature.double().cpu()).log_softmax(-1).numpy()
        names = (*self.data.names.names, *self.data.unseen)
        return JudgedNodes(log_probs, self.data.trees.labels[nodes], self._is_root(nodes), names)

    def _is_root(self, nodes: np.ndarray) -> np.ndarray:
        return self.data.trees.forest.parents[nodes] < 0

    def _samples(self, judged: JudgedNodes, nodes: np.ndarray) -> list[str]:
        place = {int(node): i for i, node in enumerate(nodes)}
        lines = []
        for row, text in self.data.samples:
            root = int(self.data.trees.roots[row])
            if root not in place:
                continue
            guess, right = int(judged.log_probs[place[root]].argmax()), int(judged.labels[place[root]])
            mark = "✓" if guess == right else f"✗ (is {judged.names[right]})"
            shown = text if len(text) <= 60 else text[:57] + "…"
            lines.append(f"{shown}  →  {self.data.names.name(guess)} {mark}")
        return lines

    # --- saving and reports -------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        write_model_files(folder, self.config, self.data.names, self.data.encoding)

    def describe_batch(self, batch: WordTrees) -> str:
        return f"{batch.size} trees, {batch.nodes:,} nodes on {len(batch.trees.levels)} levels"

    def summary(self) -> Sequence[str]:
        return self.data.lines


def score_trees(
    model: TreeClassifier, trees: EncodedTrees, rows: np.ndarray, which: Which, size: int, device: torch.device
) -> tuple[Float[Tensor, "s k"], np.ndarray]:
    """The scores of nodes on the CPU, with trees of similar length scored together, and the indices of the nodes."""
    plan = BatchPlan.by_length(trees.lengths[rows], BatchConfig(batch_size=size))
    found, nodes = [], []
    with torch.inference_mode():
        for part in plan:
            found.append(model(trees.batch(rows[part], which, device)).float().cpu())
            nodes.append(trees.scored_nodes(rows[part], which))
    joined, numbers = torch.cat(found), np.concatenate(nodes)
    order = np.argsort(numbers, kind="stable")
    return joined[torch.from_numpy(order)].clone(), numbers[order]
