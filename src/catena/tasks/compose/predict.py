"""Predictions of a model of texts with an agenda, and their evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from catena.errors import DataError, MissingExtraError
from catena.metrics.likelihood import PERPLEXITY
from catena.metrics.measure import Metric, mean_score
from catena.metrics.translation import translation_measure
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, PairedPredictions, RankedPrediction
from catena.tasks.compose.config import METRICS
from catena.tasks.compose.data import SEPARATOR, ComposeEncoding, Composition, split_words


@dataclass(frozen=True)
class CompositionPrediction(RankedPrediction):
    """The text that was generated for a goal and its items. Prints as the text.

    Args:
        example: the goal and its items.
        text: the generated text; None if there is neither a goal nor an item.
        log_prob: the log-probability of the text.
        truncated: whether the text reached the maximum length before its end.
        mentioned: for each item, whether the text mentions it.
        n_best: the n best or sampled predictions, if several were requested.
        scores: whether log-probabilities are shown in tables.
    """

    example: Composition
    text: str | None = None
    log_prob: float | None = None
    truncated: bool = False
    mentioned: tuple[bool, ...] = ()
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return self.text or ""

    def input_fields(self) -> dict[str, Any]:
        return {"goal": self.example.goal, "items": list(self.example.items)}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"text": self.text, "log_prob": self.log_prob, "truncated": self.truncated}
        if self.text is None:
            return row
        pairs = list(zip(self.example.items, self.mentioned, strict=True))
        row["mentioned"] = [item for item, is_mentioned in pairs if is_mentioned]
        row["left_out"] = [item for item, is_mentioned in pairs if not is_mentioned]
        return row

    def row_fields(self) -> dict[str, Any]:
        row = {"goal": self.example.goal, "items": f" {SEPARATOR} ".join(self.example.items), "text": str(self)}
        return {**row, "log_prob": self.log_prob} if self.scores else row


# --- evaluation -------------------------------------------------------------------------------------------------------


_OF_TEXTS = METRICS[1:]
"""The metrics of generated texts."""


def find_metric(name: str, encoding: ComposeEncoding) -> Metric:
    """The metric with this name.

    - ``perplexity``: exp of the mean -log p per token of the reference texts.
    - ``coverage``: the fraction of all given items that the texts mention.
    - ``extra``: the mean number of items per text that are mentioned but not given.
    - ``bleu``: lowercase BLEU of sacrebleu, from 0 to 100.
    """
    if name == "perplexity":
        return PERPLEXITY
    if name == "coverage":
        return Metric("coverage", _by_example(encoding, _covered), _fraction)
    if name == "extra":
        return Metric("extra", _by_example(encoding, _extra), mean_score, higher_is_better=False)
    if name == "bleu":
        bleu = translation_measure("bleu_lowercase")
        return Metric(bleu.name, lambda gold, texts: bleu.statistics([one.text for one in gold], texts), bleu.score)
    raise DataError(f"Unknown metric {name!r} of generated texts: {did_you_mean(name, METRICS)}")


def _by_example(
    encoding: ComposeEncoding, count: Callable[[ComposeEncoding, Composition, list[str]], tuple[float, float]]
) -> Callable[..., np.ndarray]:
    def statistics(gold: Sequence[Composition], texts: Sequence[str]) -> np.ndarray:
        pairs = zip(gold, texts, strict=True)
        rows = [count(encoding, example, split_words(text, encoding.tokenizer)) for example, text in pairs]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    return statistics


def _covered(encoding: ComposeEncoding, example: Composition, text: list[str]) -> tuple[float, float]:
    mentioned = encoding.naming.mentioned([item for item in encoding.items(example) if item], text)
    return float(sum(mentioned)), float(len(mentioned))


def _fraction(sums: np.ndarray) -> np.ndarray:
    """Mentioned items divided by given items; 1 if there are none."""
    return np.where(sums[..., 1] > 0, sums[..., 0] / np.maximum(sums[..., 1], 1), 1.0)


def _extra(encoding: ComposeEncoding, example: Composition, text: list[str]) -> tuple[float, float]:
    goal = split_words(example.goal, encoding.tokenizer)
    return float(len(encoding.naming.extra(encoding.items(example), text, goal))), 1.0


@dataclass(frozen=True, eq=False)
class ComposeEvaluation(EvaluationResult):
    """Reference texts with their log-probabilities, and generated texts.

    Args:
        encoding: the encoding of the model.
        examples: goals, items and reference texts.
        log_probs: the log-probability of each reference text.
        n_tokens: the number of its tokens, with the end symbol.
        n_unknown: the number of its tokens outside the vocabulary.
        texts: the text generated for each example, or for the first ones.
    """

    encoding: ComposeEncoding
    examples: list[Composition]
    log_probs: np.ndarray
    n_tokens: np.ndarray
    n_unknown: np.ndarray
    texts: list[str] = field(default_factory=list)
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return self._metrics

    @cached_property
    def _metrics(self) -> dict[str, Metric]:
        """Perplexity and, if texts were generated, their metrics, without BLEU if sacrebleu is not installed."""
        metrics = {"perplexity": PERPLEXITY}
        for name in _OF_TEXTS if self.texts else ():
            try:
                metrics[name] = find_metric(name, self.encoding)
            except MissingExtraError:
                continue
        return metrics

    @cached_property
    def _generated_for(self) -> list[Composition]:
        return self.examples[: len(self.texts)]

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        if name != "perplexity":
            return self._generated_for, self.texts
        texts = [example.text for example in self.examples]
        return list(zip(texts, self.n_tokens.tolist(), strict=True)), self.log_probs.tolist()

    def paired(self, name: str) -> PairedPredictions:
        paired = super().paired(name)
        unknown = float(self.n_unknown.sum() / self.n_tokens.sum()) if name == "perplexity" else 0.0
        return replace(paired, unknown=unknown)

    def notes(self) -> list[str]:
        items = sum(len(example.items) for example in self.examples)
        return [f"{len(self.examples):,} texts with {items:,} items"]

    def details(self) -> list[str]:
        """The scores of the reference texts, and lengths."""
        references = [example.text for example in self._generated_for]
        if not references:
            return []
        found = {name: float(self._metrics[name](self._generated_for, references)) for name in ("coverage", "extra")}
        return [
            f"reference texts: {', '.join(f'{name} {score:.4f}' for name, score in found.items())}",
            f"words per text: {self._mean_length(self.texts):.1f}; reference texts {self._mean_length(references):.1f}",
        ]

    def _mean_length(self, texts: Sequence[str]) -> float:
        return float(np.mean([len(self.encoding.tokenizer.tokens(text)) for text in texts]))
