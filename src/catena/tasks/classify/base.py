"""The shared part of classifiers by networks: scores of classes and their calibration."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from catena.tasks.base import E
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.evaluation import ClassifyEvaluation, class_log_probs
from catena.tasks.classify.labels import LabeledRows, LabelOutputs
from catena.tasks.classify.loss import LOSSES
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.neural import NeuralTask


class LabelTask(LabelOutputs, NeuralTask[ClassifyConfig, E, ClassPrediction, ClassifyOptions]):
    """A task that assigns labels to inputs of any kind.

    Args:
        config: the config.
        encoding: a value with the field ``names``, the classes.
        network: scores inputs; its buffer ``temperature`` calibrates the probabilities.
    """

    def __init__(self, config: ClassifyConfig, encoding: Any, network: nn.Module) -> None:
        super().__init__(config, encoding, network)
        self.names = encoding.names
        self._loss = LOSSES[config.loss_kind]
        self._class_weights: Float[Tensor, " k"] | None = None

    @property
    def temperature(self) -> Tensor:
        """The divisor of the scores, fitted on dev."""
        return self._network.temperature  # type: ignore[return-value]

    @abstractmethod
    def _logits(self, rows: Any) -> Float[Tensor, "*m n k"]:
        """The scores of encoded inputs, on the CPU."""

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate_dev(self, rows: Any) -> ClassifyEvaluation:
        logits = self._logits(rows)
        if self.config.evaluation.calibrate and logits.ndim == 2:
            # A buffer, so it is saved with the weights; the loss does not read it, so training is not affected.
            self.temperature.fill_(self._fitted_temperature(logits.double().numpy(), rows.gold))
        return self._evaluation(logits, rows)

    def evaluate_rows(self, rows: Any) -> ClassifyEvaluation:
        return self._evaluation(self._logits(rows), rows)

    def _evaluation(self, logits: Float[Tensor, "*m n k"], rows: LabeledRows) -> ClassifyEvaluation:
        return ClassifyEvaluation(self.labels, self._log_probs(logits), rows.gold, self.multilabel)

    def _log_probs(self, logits: Float[Tensor, "*m n k"]) -> np.ndarray:
        return class_log_probs(logits.double().numpy(), self.multilabel, float(self.temperature))
