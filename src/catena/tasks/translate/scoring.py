"""How good translations are: metrics of texts, and how probable the right ones are."""

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
    """A metric of translations or summaries by its name."""
    return summary_measure(name) if name in SUMMARY_METRICS else translation_measure(name, evaluation.cut)


def missing_packages(names: Sequence[str], evaluation: TranslateEvaluationConfig) -> tuple[list[str], str]:
    """The metrics that need a package which is not installed, and a line on them for a person; none and nothing where
    all are at hand."""
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
    """The scores that the evaluation names."""
    return {name: float(build_metric(name, evaluation)(references, given)) for name in evaluation.metrics}


def likelihood_scores(log_prob: float, tokens: int) -> dict[str, float]:
    """Perplexity and nats of a target token, ends counted."""
    nats = -log_prob / max(tokens, 1)
    return {"perplexity": math.exp(min(nats, 700.0)), "nats_per_token": nats}


def likelihood_measure(name: str) -> Metric:
    """A score of likelihood as a function of sums: a pair adds its nats and its target tokens."""

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
    """Every score with its signature and, of translations, its interval, in lines for a person."""
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
