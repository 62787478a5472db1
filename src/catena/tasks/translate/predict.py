"""Predictions of a translator, and their evaluation: translations, scores, attention weights. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from catena.data.special_tokens import UNK_SYMBOL
from catena.errors import ConfigError, MissingExtraError
from catena.metrics.measure import LOG_PROB_TOLERANCE, Metric
from catena.metrics.rouge_scores import SUMMARY_METRICS, summary_measure
from catena.metrics.translation import translation_measure
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, PairedPredictions, RankedPrediction
from catena.tasks.translate.config import LIKELIHOODS, TRANSLATIONS, TranslateEvaluationConfig


@dataclass(frozen=True, eq=False)
class TranslationPrediction(RankedPrediction):
    """The translation of a text. Prints as the translation.

    Args:
        source: the source text.
        source_tokens: its tokens in readable form.
        translation: the translation; empty for a text without tokens.
        tokens: the generated tokens in readable form.
        log_prob: log p(translation | source), including its end symbol unless it is truncated; None for an empty text.
        score: the score by which the search ranked the translation.
        truncated: whether it was cut at the maximum length, so that it has no end symbol.
        known: whether any token of the source is in the vocabulary or can be copied.
        log_probs: log-probability of each token, and of the end symbol unless it is truncated; None without ``scores``.
        attention: weights ``[head, t, s]`` of each layer that attends to the source; None without ``alignment``. The
            last row is the end symbol unless it is truncated; the last column is the end of the source.
        links: the alignment as pairs (source token, target token); None without ``alignment``.
        ids: the ids of the generated tokens; copied tokens have ids from the size of the vocabulary on.
        n_best: the n best or sampled translations, if several were requested.
    """

    source: str
    source_tokens: tuple[str, ...]
    translation: str = ""
    tokens: tuple[str, ...] = ()
    log_prob: float | None = None
    score: float | None = None
    truncated: bool = False
    known: bool = True
    log_probs: tuple[float, ...] | None = None
    attention: tuple[np.ndarray, ...] | None = field(default=None, repr=False)
    links: tuple[tuple[str, str], ...] | None = None
    ids: tuple[int, ...] = field(default=(), repr=False)
    n_best: tuple[Self, ...] = ()

    def __str__(self) -> str:
        return self.translation

    @property
    def weights(self) -> Float[np.ndarray, "t s"] | None:
        """The mean attention weights over all layers and heads; None without alignment or attention."""
        return mean_weights(self.attention) if self.attention else None

    def alignment(self) -> list[tuple[int, int]]:
        """Pairs (source position, target position) of each target token and its most attended source token.

        Target tokens that attend most to the end of the source have no pair.
        """
        weights = self.weights
        return [] if weights is None else most_attended(weights, len(self.tokens))

    def input_fields(self) -> dict[str, Any]:
        return {"source": self.source, "source_tokens": list(self.source_tokens), "known": self.known}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"translation": self.translation, "tokens": list(self.tokens)}
        row |= {"log_prob": self.log_prob, "score": self.score, "truncated": self.truncated}
        if self.log_probs is not None:
            row["log_probs"] = list(self.log_probs)
        if self.attention is not None:
            row["alignment"] = [list(pair) for pair in self.alignment()]
            row["attention"] = [np.round(layer.astype(np.float64), 4).tolist() for layer in self.attention]
        return row

    def row_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"source": self.source, "translation": self.translation}
        if self.log_probs is not None:
            row["log_prob"] = self.log_prob
        if self.links is not None:
            row["alignment"] = " ".join(f"{a}|{b}" for a, b in self.links)
        return row


def mean_weights(attention: Sequence[np.ndarray]) -> Float[np.ndarray, "t s"]:
    """The mean attention weights over all layers and heads."""
    return np.asarray(np.mean([layer.mean(axis=0) for layer in attention], axis=0))


def most_attended(weights: Float[np.ndarray, "t s"], n: int) -> list[tuple[int, int]]:
    """Pairs (source position, target position) of the first ``n`` target tokens, without the end of the source."""
    most = weights[:n].argmax(axis=1).tolist()
    return [(s, t) for t, s in enumerate(most) if s < weights.shape[1] - 1]


def copy_unknown_words(tokens: Sequence[str], source: Sequence[str], attention: Sequence[np.ndarray]) -> list[str]:
    """The tokens with each unknown token replaced by the source word with the largest attention weight.

    Args:
        tokens: the target tokens.
        source: the source tokens, without the end symbol.
        attention: weights ``[head, t, s]`` of each layer.
    """
    if not attention:
        return list(tokens)
    weights = mean_weights(attention)[:, :-1]
    return [source[int(weights[i].argmax())] if token == UNK_SYMBOL else token for i, token in enumerate(tokens)]


# --- evaluation -------------------------------------------------------------------------------------------------------


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
