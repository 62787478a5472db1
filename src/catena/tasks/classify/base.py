"""The shared part of classifiers: scores of classes, their calibration, evaluation and predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from catena.data.vocabulary import Labels
from catena.metrics.calibration import fit_temperature
from catena.metrics.measure import Metric
from catena.tasks.base import E
from catena.tasks.classify.config import METRICS, ClassifyConfig, ClassifyOptions
from catena.tasks.classify.data import encode_labels
from catena.tasks.classify.evaluation import ClassifyEvaluation, find_metric, predicted_ids
from catena.tasks.classify.loss import LOSSES
from catena.tasks.classify.model import log_probabilities
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.neural import NeuralTask


@runtime_checkable
class LabeledRows(Protocol):
    """Encoded inputs with their gold labels, and a few of them in words, by position."""

    @property
    def gold(self) -> list[tuple[str, ...]]: ...

    @property
    def shown(self) -> dict[int, str]: ...


class LabelTask(NeuralTask[ClassifyConfig, E, ClassPrediction, ClassifyOptions]):
    """A task that assigns labels to inputs of any kind.

    Args:
        config: the config.
        encoding: a value with the field ``names``, the classes.
        network: scores inputs; its buffer ``temperature`` calibrates the probabilities.
    """

    name = "classify"
    options_class = ClassifyOptions
    formats = ("tsv", "text", "csv", "jsonl")

    def __init__(self, config: ClassifyConfig, encoding: Any, network: nn.Module) -> None:
        super().__init__(config, encoding, network)
        self.names: Labels = encoding.names
        self._loss = LOSSES[config.loss_kind]
        self._class_weights: Float[Tensor, " k"] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the columns of log-probabilities."""
        return self.names.names

    @property
    def multilabel(self) -> bool:
        """Whether an input may have several labels."""
        return self.config.data.multilabel

    @property
    def temperature(self) -> Tensor:
        """The divisor of the scores, fitted on dev."""
        return self._network.temperature  # type: ignore[return-value]

    @abstractmethod
    def _logits(self, rows: Any) -> Float[Tensor, "*m n k"]:
        """The scores of encoded inputs, on the CPU."""

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        return METRICS[0]

    def find_metric(self, name: str) -> Metric:
        return find_metric(name)

    def evaluate_dev(self, rows: Any) -> ClassifyEvaluation:
        logits = self._logits(rows)
        if self.config.evaluation.calibrate and logits.ndim == 2:
            # A buffer, so it is saved with the weights; the loss does not read it, so training is not affected.
            self.temperature.fill_(self._fitted_temperature(logits.double().numpy(), rows))
        return self._evaluation(logits, rows)

    def evaluate_rows(self, rows: Any) -> ClassifyEvaluation:
        return self._evaluation(self._logits(rows), rows)

    def _evaluation(self, logits: Float[Tensor, "*m n k"], rows: LabeledRows) -> ClassifyEvaluation:
        return ClassifyEvaluation(self.labels, self._log_probs(logits), rows.gold, self.multilabel)

    def _log_probs(self, logits: Float[Tensor, "*m n k"]) -> np.ndarray:
        return log_probabilities(logits.double(), self.multilabel, self.temperature.double().cpu()).numpy()

    def _fitted_temperature(self, logits: np.ndarray, rows: LabeledRows) -> float:
        """The temperature with the highest likelihood. A binary decision is a choice between scores s and 0.

        Inputs with a label that does not occur in training are skipped: their likelihood is 0 at any temperature.
        """
        if not self.multilabel:
            known = {name: j for j, name in enumerate(self.labels)}
            seen = [i for i, labels in enumerate(rows.gold) if labels[0] in known]
            ids = np.array([known[rows.gold[i][0]] for i in seen], np.int64)
            return fit_temperature(logits[seen], ids) if seen else 1.0
        own = [[label for label in labels if label in self.names] for labels in rows.gold]
        pairs = np.stack((np.zeros(logits.size), logits.reshape(-1)), axis=-1)
        return fit_temperature(pairs, encode_labels(own, self.labels, True).reshape(-1).astype(np.int64))

    def show(self, rows: LabeledRows, result: ClassifyEvaluation) -> list[str]:
        lines = []
        for i, text in rows.shown.items():
            guess = [self.labels[j] for j in predicted_ids(result.log_probs[i : i + 1], self.multilabel)[0]]
            mark = "✓" if set(guess) == set(rows.gold[i]) else f"✗ (is {', '.join(rows.gold[i]) or 'none'})"
            shown = text if len(text) <= 60 else text[:57] + "…"
            lines.append(f"{shown}  →  {', '.join(guess) or 'none'} {mark}")
        return lines

    # --- prediction ---------------------------------------------------------------------------------------------------

    def _predictions(
        self, inputs: Sequence[str], log_probs: np.ndarray, options: ClassifyOptions, key: str = "text"
    ) -> list[ClassPrediction]:
        """The predictions of inputs with these log-probabilities; ``key`` is the name of the input in JSON."""
        chosen = predicted_ids(log_probs, self.multilabel, options.threshold)
        order = np.argsort(-log_probs, axis=1, kind="stable")
        separator = self.config.data.label_separator or (", " if self.multilabel else "")
        made = []
        for text, ids, row, ranked in zip(inputs, chosen, np.exp(log_probs), order, strict=True):
            probabilities = {self.labels[j]: float(row[j]) for j in ranked}
            labels = tuple(self.labels[j] for j in ids)
            made.append(
                ClassPrediction(
                    text, labels, probabilities, self.multilabel, options.n_best, options.scores, separator, key
                )
            )
        return made
