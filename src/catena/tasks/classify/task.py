"""The classifier as a task of the training loop."""

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
from catena.tasks.classify.batch import ClassifyBatch
from catena.tasks.classify.config import METRICS, ClassifyConfig
from catena.tasks.classify.dataset import ClassifyDataset
from catena.tasks.classify.encoding import EncodedTexts, write_model_files
from catena.tasks.classify.loss import LOSSES, balanced_weights
from catena.tasks.classify.model import Classifier, ClassifierOutput, VectorClassifier, log_probabilities
from catena.tasks.classify.pretrained import layer_groups
from catena.tasks.classify.scoring import compute_scores, gold_ids, predicted_labels
from catena.tasks.looped import BatchedEpoch, NeuralTask
from catena.tasks.pretrained import unfreeze_top_layers
from catena.training.task import BatchLoss, EpochPlan, Evaluation


class ClassifyTask(NeuralTask):
    """A classifier, its data and its metric."""

    def __init__(
        self,
        config: ClassifyConfig,
        data: ClassifyDataset,
        model: Classifier,
        device: torch.device,
        randomness: Randomness,
    ) -> None:
        self.config, self.data, self.device, self.randomness = config, data, device, randomness
        self._model = model.to(device)
        # Labels that do not occur in training have no column in the targets of the loss.
        self._targets = data.labels if data.labels.ndim == 1 else data.labels[:, : len(data.names)]
        self._class_weights = self._weights_of_classes()
        self._bootstrap = self._bootstrap_counts()
        self._loss = LOSSES[config.loss_kind]
        self._frozen_at_first = layer_groups(model) if config.pretrained else []

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
        unfreeze_top_layers(self._frozen_at_first, number, self.config.unfreeze)
        generator = self.randomness.numpy("batches", number)
        plan = BatchPlan.shuffled(self.data.texts.lengths[self.data.train], self.config.batches, generator)
        return BatchedEpoch(plan, self._batch)

    def _batch(self, rows: np.ndarray) -> ClassifyBatch:
        return self.data.texts.batch(self.data.train[rows], self._targets, self.device)

    # --- the loss -----------------------------------------------------------------------------------------------------

    def loss(self, batch: ClassifyBatch) -> BatchLoss:
        settings = self.config.loss
        if settings.adversarial and isinstance(self._model, VectorClassifier):
            total = self._adversarial_loss(self._model, batch)
        else:
            total = self._mean_loss(self._model(batch), batch)
        return BatchLoss(total, batch.size, batch.tokens)

    def _mean_loss(self, scores: ClassifierOutput, batch: ClassifyBatch) -> Float[Tensor, ""]:
        """The mean loss of a batch, with class weights, bootstrap counts and the penalty on hidden units."""
        logits, labels, settings = scores.logits, batch.labels, self.config.loss
        assert labels is not None
        if self.config.data.multilabel:
            losses = self._loss.several(logits, labels.expand_as(logits))
        else:
            losses = self._loss.single(logits, labels.expand(logits.shape[:-1]), settings.label_smoothing)
            if self._class_weights is not None:
                losses = losses * self._class_weights[labels]
        if settings.sparsity and scores.hidden is not None:
            losses = losses + settings.sparsity * scores.hidden.abs().sum(-1)
        if self._bootstrap is not None:
            losses = losses * self._bootstrap[:, batch.examples]
        return losses.mean(-1).sum()  # models of a bag have separate parameters, so their losses are added

    def _adversarial_loss(self, model: VectorClassifier, batch: ClassifyBatch) -> Float[Tensor, ""]:
        """(1 - α) J(x) + α J(x + ε sign ∇ₓJ): Goodfellow et al. 2015, equation 3 and section 6."""
        settings = self.config.loss
        vectors = model.vectors(batch)
        clean = self._mean_loss(model.score(vectors, batch), batch)
        (gradient,) = torch.autograd.grad(clean, vectors, retain_graph=True)
        disturbed = vectors + settings.adversarial * gradient.sign()
        share = settings.adversarial_weight
        return (1 - share) * clean + share * self._mean_loss(model.score(disturbed, batch), batch)

    def _weights_of_classes(self) -> Float[Tensor, "k"] | None:
        if self.config.loss.class_weights == "none" or self.config.data.multilabel:
            return None
        counts = np.bincount(self.data.labels[self.data.train], minlength=len(self.data.names))
        return balanced_weights(torch.from_numpy(counts)).to(self.device)

    def _bootstrap_counts(self) -> Float[Tensor, "m n"] | None:
        """The number of times each example occurs in the bootstrap sample of each model of a bag."""
        members, train = self.config.bagging.members, self.data.train
        if members == 1:
            return None
        counts = np.zeros((members, len(self.data.labels)), np.float32)
        for m in range(members):
            drawn = self.randomness.numpy("bootstrap", m).choice(train, size=len(train))
            np.add.at(counts[m], drawn, 1)
        return torch.from_numpy(counts).to(self.device)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self) -> Evaluation:
        rows = self.data.dev
        logits = self.logits(rows)
        several = self.config.data.multilabel
        if self.config.evaluation.calibrate and logits.ndim == 2:
            # A buffer, so it is saved with the weights; the loss does not read it, so training is not affected.
            self._model.temperature.fill_(_fitted_temperature(logits.double().numpy(), self._targets[rows]))
        log_probs = log_probabilities(logits, several, self._model.temperature.cpu()).double().numpy()
        scores = compute_scores(log_probs, self.data.labels[rows], several)
        return Evaluation(scores, self._samples(rows, log_probs, several))

    def test_scores(self) -> dict[str, float]:
        if not len(self.data.test):
            return {}
        several = self.config.data.multilabel
        temperature = self._model.temperature.double().cpu()
        log_probs = log_probabilities(self.logits(self.data.test).double(), several, temperature)
        return compute_scores(log_probs.numpy(), self.data.labels[self.data.test], several)

    def logits(self, rows: np.ndarray) -> Float[Tensor, "*m n k"]:
        """The scores of some texts, in the given order, on the CPU."""
        return score_all(self._model, self.data.texts, rows, self.config.evaluation.texts_at_once, self.device)

    def _samples(self, rows: np.ndarray, log_probs: np.ndarray, several: bool) -> list[str]:
        names, all_names = self.data.names, self.data.all_names
        place = {int(row): i for i, row in enumerate(rows)}
        lines = []
        for row, text in self.data.samples:
            guess = predicted_labels(log_probs[place[row]][None], names, several)[0]
            right = [all_names[j] for j in gold_ids(self.data.labels[row : row + 1])[0]]
            mark = "✓" if set(guess) == set(right) else f"✗ (is {', '.join(right) or 'none'})"
            shown = text if len(text) <= 60 else text[:57] + "…"
            lines.append(f"{shown}  →  {', '.join(guess) or 'none'} {mark}")
        return lines

    # --- saving and reports -------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        write_model_files(folder, self.config, self.data.names, self.data.encoding)

    def describe_batch(self, batch: ClassifyBatch) -> str:
        return f"{batch.size} examples, longest {batch.longest} tokens"

    def summary(self) -> Sequence[str]:
        return self.data.lines


def score_all(
    model: Classifier, texts: EncodedTexts, rows: np.ndarray, batch_size: int, device: torch.device
) -> Float[Tensor, "*m n k"]:
    """The scores of encoded texts in the order of ``rows``; texts of similar length are scored together."""
    plan = BatchPlan.by_length(texts.lengths[rows], BatchConfig(batch_size=batch_size))
    found: list[Tensor] = []
    with torch.inference_mode():
        for part in plan:
            found.append(model(texts.batch(rows[part], None, device)).logits.float().cpu())
    order = np.concatenate(list(plan))
    joined = torch.cat(found, dim=-2)
    return joined[..., torch.from_numpy(np.argsort(order)), :].clone()


def _fitted_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature with the highest likelihood. A binary decision is a choice between scores s and 0.

    Texts with a label that does not occur in training are skipped: their likelihood is 0 at any temperature.
    """
    if labels.ndim == 1:
        seen = labels < logits.shape[1]
        return fit_temperature(logits[seen], labels[seen]) if seen.any() else 1.0
    pairs = np.stack((np.zeros(logits.size), logits.reshape(-1)), axis=-1)
    return fit_temperature(pairs, labels.reshape(-1).astype(np.int64))
