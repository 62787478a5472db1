"""The outputs of classifiers: calibrated log-probabilities, evaluations and predictions. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from catena.data.vocabulary import Labels
from catena.metrics.calibration import fit_temperature
from catena.metrics.measure import Metric
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.data import encode_labels
from catena.tasks.classify.evaluation import METRICS, ClassifyEvaluation, predicted_ids
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.options import PredictOptions


@runtime_checkable
class LabeledRows(Protocol):
    """Encoded inputs with their gold labels, and a few of them in words, by position."""

    @property
    def gold(self) -> list[tuple[str, ...]]: ...

    @property
    def shown(self) -> dict[int, str]: ...


class LabelOutputs:
    """What all tasks that assign labels to inputs have in common. Mixed into a task."""

    name: ClassVar[str] = "classify"
    options_class: ClassVar[type[PredictOptions]] = ClassifyOptions
    formats: ClassVar[tuple[str, ...]] = ("tsv", "text", "csv", "jsonl")

    config: ClassifyConfig
    names: Labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the columns of log-probabilities."""
        return self.names.names

    @property
    def multilabel(self) -> bool:
        """Whether an input may have several labels."""
        return self.config.data.multilabel

    def all_metrics(self) -> Mapping[str, Metric]:
        return METRICS

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def _fitted_temperature(self, logits: np.ndarray, gold: Sequence[tuple[str, ...]]) -> float:
        """The temperature with the highest likelihood. A binary decision is a choice between scores s and 0.

        Inputs with a label that does not occur in training are skipped: their likelihood is 0 at any temperature.
        """
        if not self.multilabel:
            known = {name: j for j, name in enumerate(self.labels)}
            seen = [i for i, labels in enumerate(gold) if labels[0] in known]
            ids = np.array([known[gold[i][0]] for i in seen], np.int64)
            return fit_temperature(logits[seen], ids) if seen else 1.0
        own = [[label for label in labels if label in self.names] for labels in gold]
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
        ranked = np.take_along_axis(np.exp(log_probs), order, axis=1).tolist()
        separator = self.config.data.label_separator or (", " if self.multilabel else "")
        names, several, shown = self.labels, self.multilabel, (options.n_best, options.scores, separator, key)
        made = []
        for text, ids, row, columns in zip(inputs, chosen, ranked, order.tolist(), strict=True):
            probabilities = {names[j]: p for j, p in zip(columns, row, strict=True)}
            made.append(ClassPrediction(text, tuple(names[j] for j in ids), probabilities, several, *shown))
        return made
