"""Evaluation of translations: text metrics such as BLEU, and the likelihood of the references. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from catena.errors import ConfigError, MissingExtraError
from catena.metrics.measure import LOG_PROB_TOLERANCE, Metric
from catena.metrics.summary import SUMMARY_METRICS, summary_measure
from catena.metrics.translation import translation_measure
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, PairedPredictions
from catena.tasks.translate.config import LIKELIHOODS, TRANSLATIONS, TranslateEvaluationConfig


def find_metric(name: str, config: TranslateEvaluationConfig) -> Metric:
    """The metric of a score. Raise ConfigError for an unknown name."""
    if name in LIKELIHOODS:
        return _likelihood_metric(name)
    if name not in TRANSLATIONS:
        raise ConfigError(
            f"Unknown metric {name!r} of a translator: {did_you_mean(name, (*TRANSLATIONS, *LIKELIHOODS))}"
        )
    return summary_measure(name) if name in SUMMARY_METRICS else translation_measure(name, config.cut)


def _likelihood_metric(name: str) -> Metric:
    """Perplexity or nats per target token, with end symbols. References are pairs of a text and its size."""

    def statistics(references: Sequence[tuple[str, int]], log_probs: Sequence[float] | np.ndarray) -> np.ndarray:
        pairs = zip(references, log_probs, strict=True)
        return np.array([(-log_prob, size) for (_, size), log_prob in pairs], np.float64)

    def score(sums: np.ndarray) -> np.ndarray:
        nats = np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))
        return np.asarray(np.exp(np.minimum(nats, 700.0))) if name == "perplexity" else nats

    return Metric(f"{name}|tokens:own", statistics, score, tolerance=LOG_PROB_TOLERANCE, higher_is_better=False)


def missing_metrics(names: Sequence[str], config: TranslateEvaluationConfig) -> tuple[list[str], str]:
    """The metrics whose package is not installed, and a report line about them; both empty if there are none."""
    missing, why = [], ""
    for name in names:
        try:
            find_metric(name, config)
        except MissingExtraError as error:
            missing.append(name)
            why = str(error)
    return missing, f"not scored: {', '.join(missing)} ({why})" if missing else ""


@dataclass(frozen=True, eq=False)
class TranslateEvaluation(EvaluationResult):
    """References and translations of texts, and the likelihood of references.

    Args:
        config: the options of the metrics.
        names: the metrics of translations to compute.
        references: the reference of each translated text.
        translations: its translation.
        sized: references whose likelihood is known, with their number of tokens; empty for an ensemble.
        log_probs: the log-probability of each of them.
        unknown: number of unknown source tokens of each text.
        truncated: whether each translation is truncated.
        missing: a line about metrics whose package is not installed.
    """

    config: TranslateEvaluationConfig
    names: tuple[str, ...]
    references: list[str]
    translations: list[str]
    sized: list[tuple[str, int]]
    log_probs: np.ndarray
    unknown: np.ndarray
    truncated: np.ndarray
    missing: str = ""
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return self._metrics

    @cached_property
    def _metrics(self) -> Mapping[str, Metric]:
        names = (*(self.names if self.references else ()), *(LIKELIHOODS if self.sized else ()))
        return {name: find_metric(name, self.config) for name in names}

    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        return (self.sized, self.log_probs) if name in LIKELIHOODS else (self.references, self.translations)

    def paired(self, name: str) -> PairedPredictions:
        if name in TRANSLATIONS:  # any metric of texts can be compared, whether the report has it or not
            return PairedPredictions(find_metric(name, self.config), *self.pairs(name))
        return super().paired(name)

    def notes(self) -> list[str]:
        tokens = f"{sum(size for _, size in self.sized):,} target tokens; " if self.sized else ""
        line = f"{len(self.references):,} pairs, {tokens}{int(self.unknown.sum()):,} unknown source tokens"
        if n := int(self.truncated.sum()):
            line += f"; {n:,} translation{'s' * (n > 1)} truncated at the maximum length"
        return [line]

    def details(self) -> list[str]:
        return [self.missing] if self.missing else []
