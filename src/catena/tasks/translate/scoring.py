"""Metrics of translations: text metrics such as BLEU, and the likelihood of the references."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from catena.errors import MissingExtraError
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.measure import LOG_PROB_TOLERANCE, Metric, signature
from catena.metrics.summary import SUMMARY_METRICS, summary_measure
from catena.metrics.translation import translation_measure
from catena.tasks.application import EvaluationReport
from catena.tasks.translate.config import TranslateEvaluationConfig


def build_metric(name: str, evaluation: TranslateEvaluationConfig) -> Metric:
    """The metric of translations or summaries with this name."""
    return summary_measure(name) if name in SUMMARY_METRICS else translation_measure(name, evaluation.cut)


def missing_packages(names: Sequence[str], evaluation: TranslateEvaluationConfig) -> tuple[list[str], str]:
    """The metrics whose package is not installed, and a report line about them; both empty if there are none."""
    lost, why = [], ""
    for name in names:
        try:
            build_metric(name, evaluation)
        except MissingExtraError as error:
            lost.append(name)
            why = str(error)
    return lost, f"not scored: {', '.join(lost)} ({why})" if lost else ""


def compute_scores(
    evaluation: TranslateEvaluationConfig, references: Sequence[str], given: Sequence[str]
) -> dict[str, float]:
    """The scores of translations for each metric of the evaluation config."""
    return {name: float(build_metric(name, evaluation)(references, given)) for name in evaluation.metrics}


def likelihood_scores(log_prob: float, tokens: int) -> dict[str, float]:
    """Perplexity and nats per target token, with end symbols."""
    nats = -log_prob / max(tokens, 1)
    return {"perplexity": math.exp(min(nats, 700.0)), "nats_per_token": nats}


def likelihood_measure(name: str) -> Metric:
    """A likelihood metric as a function of sums over pairs: nats and target tokens."""

    def statistics(right: Sequence[tuple[str, int]], given: Sequence[float]) -> np.ndarray:
        return np.array([(-log_prob, size) for (_, size), log_prob in zip(right, given, strict=True)], np.float64)

    def score(sums: np.ndarray) -> np.ndarray:
        mean = np.asarray(sums[..., 0] / sums[..., 1])
        return np.asarray(np.exp(mean)) if name == "perplexity" else mean

    return Metric(name, statistics, score, tolerance=LOG_PROB_TOLERANCE)


def build_report(
    evaluation: TranslateEvaluationConfig, names: Sequence[str], references: Sequence[str], given: Sequence[str],
    likelihood: Mapping[str, float], heading: str,
) -> EvaluationReport:  # fmt: skip
    """The report of all scores with signatures, and confidence intervals for metrics of translations.

    Args:
        evaluation: options of the metrics.
        names: metrics of translations to compute.
        references: the reference translations.
        given: the translations of the model.
        likelihood: likelihood scores by name.
        heading: the first line of the report.
    """
    scores: dict[str, float] = {}
    signed: dict[str, str] = {}
    lines = [heading]
    for name in names:
        measure = build_metric(name, evaluation)
        rows = measure.statistics(references, given)
        scores[name], signed[name] = float(measure.score(rows.sum(0))), signature(measure.name, len(rows))
        between = ""
        if len(rows) > 1:
            found = bootstrap_score_interval(rows, measure.score, np.random.default_rng(0))
            between = f" ({found.low:.2f} to {found.high:.2f})"
        lines.append(f"{name} {scores[name]:.2f}{between}   {signed[name]}")
    for name, value in likelihood.items():
        scores[name], signed[name] = value, signature(f"{name}|tokens:own", len(references))
        lines.append(f"{name} {value:.4f}   {signed[name]}")
    return EvaluationReport(scores, signed, tuple(lines))
