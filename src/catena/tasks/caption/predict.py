"""Predictions of a model of captions, and their evaluation. Imports no torch.

Tested in tests/tasks/caption/test_task.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from catena.errors import ConfigError, MissingExtraError
from catena.metrics.likelihood import NATS_PER_TOKEN, PERPLEXITY
from catena.metrics.measure import LOG_PROB_TOLERANCE, Metric, mean_score, mean_statistics
from catena.metrics.translation import caption_measures
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, RankedPrediction
from catena.tasks.caption.config import CAPTION_METRICS, LIKELIHOODS, WORD_LOSS


@dataclass(frozen=True, eq=False)
class CaptionPrediction(RankedPrediction):
    """The caption of a picture. Prints as the caption.

    Args:
        file: the picture.
        caption: the caption.
        tokens: its tokens.
        log_prob: log p(caption | picture), including its end symbol unless it is truncated.
        score: the score by which the search ranked it.
        truncated: whether it was cut at the maximum length.
        log_probs: log-probability of each token, and of the end symbol unless it is truncated; None without ``scores``.
        attention: ``attention[t, i]`` is the weight of part i of the picture for token t; None without ``attention``.
        n_best: the n best or sampled captions, if several were requested.
    """

    file: str
    caption: str
    tokens: tuple[str, ...]
    log_prob: float
    score: float
    truncated: bool = False
    log_probs: tuple[float, ...] | None = None
    attention: Float[np.ndarray, "t s"] | None = field(default=None, repr=False)
    n_best: tuple[Self, ...] = ()

    def __str__(self) -> str:
        return self.caption

    def input_fields(self) -> dict[str, Any]:
        return {"file": self.file}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"caption": self.caption, "tokens": list(self.tokens)}
        row |= {"log_prob": self.log_prob, "score": self.score, "truncated": self.truncated}
        if self.log_probs is not None:
            row["log_probs"] = list(self.log_probs)
        if self.attention is not None:
            row["attention"] = np.round(self.attention.astype(np.float64), 4).tolist()
        return row

    def row_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"file": self.file, "caption": self.caption}
        return row if self.log_probs is None else {**row, "log_prob": self.log_prob}


# --- evaluation -------------------------------------------------------------------------------------------------------


_LIKELIHOODS = dict(zip(LIKELIHOODS, (PERPLEXITY, NATS_PER_TOKEN), strict=True))

_measures = cache(caption_measures)  # the same objects, so that BLEU-1 to BLEU-4 count n-grams once


def _word_statistics(references: Sequence[Any], losses: Sequence[float]) -> np.ndarray:
    return mean_statistics(losses)


_WORD_LOSS = Metric(WORD_LOSS, _word_statistics, mean_score, tolerance=LOG_PROB_TOLERANCE, higher_is_better=False)


def find_metric(name: str, cut: str) -> Metric:
    """The metric of a score. Raise ConfigError for an unknown name."""
    if name == WORD_LOSS:
        return _WORD_LOSS
    if name in _LIKELIHOODS:
        return _LIKELIHOODS[name]
    if name not in CAPTION_METRICS:
        raise ConfigError(
            f"Unknown metric {name!r} of captions: {did_you_mean(name, (*CAPTION_METRICS, *LIKELIHOODS))}"
        )
    return _measures(cut)[name]


def missing_metrics() -> str:
    """A sentence about the package that metrics of captions need; empty if it is installed."""
    try:
        _measures()
    except MissingExtraError as error:
        return f"captions are not scored ({error})"
    return ""


@dataclass(frozen=True, eq=False)
class CaptionEvaluation(EvaluationResult):
    """References and captions of pictures, and the likelihood of references.

    Args:
        cut: the tokenizer of BLEU.
        references: the references of each picture that got a caption.
        captions: its caption.
        sized: references whose likelihood is known, with their number of tokens; empty for an ensemble.
        log_probs: the log-probability of each of them.
        truncated: whether each caption is truncated.
    """

    cut: str
    references: list[tuple[str, ...]]
    captions: list[str]
    sized: list[tuple[str, int]]
    log_probs: list[float]
    truncated: np.ndarray
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return self._metrics

    @cached_property
    def _metrics(self) -> Mapping[str, Metric]:
        names = CAPTION_METRICS if self.captions and not missing_metrics() else ()
        likelihoods = LIKELIHOODS if self.sized else ()
        return {name: find_metric(name, self.cut) for name in (*names, *likelihoods)}

    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        return (self.sized, self.log_probs) if name in LIKELIHOODS else (self.references, self.captions)

    def notes(self) -> list[str]:
        n = sum(map(len, self.references))
        line = f"{len(self.references):,} pictures with {n:,} references"
        if truncated := int(self.truncated.sum()):
            line += f"; {truncated:,} caption{'s' * (truncated > 1)} truncated at the maximum length"
        return [line, *filter(None, [missing_metrics()])]

    def details(self) -> list[str]:
        """Mean lengths."""
        if not self.captions:
            return []
        own, gold = ([len(text.split()) for text in texts] for texts in (self.captions, sum(self.references, ())))
        return [f"words per caption: {np.mean(own):.1f}; references {np.mean(gold):.1f}"]


@dataclass(frozen=True, eq=False)
class WordEvaluation(EvaluationResult):
    """How well the words of captions are predicted from pictures.

    Args:
        references: the references of each picture.
        losses: the loss of its words.
    """

    references: list[tuple[str, ...]]
    losses: list[float]
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return {WORD_LOSS: _WORD_LOSS}

    def pairs(self, name: str) -> tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]:
        return self.references, self.losses

    def notes(self) -> list[str]:
        return [f"{len(self.references):,} pictures; their captions are not predicted, only which words they have"]
