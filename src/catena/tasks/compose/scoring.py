"""Metrics of generated texts: coverage of the agenda, extra items and BLEU, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from catena.data.tokenize import Tokenizer
from catena.errors import DataError, MissingExtraError
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.measure import Metric, mean_score, signature
from catena.metrics.translation import translation_measure
from catena.registry import did_you_mean
from catena.tasks.application import EvaluationReport
from catena.tasks.compose.encoding import ComposeEncoding
from catena.tasks.compose.naming import split_words
from catena.tasks.compose.reading import Composition

WRITTEN = ("coverage", "extra", "bleu")
"""The metrics of generated texts."""


def build_metric(name: str, encoding: ComposeEncoding) -> Metric:
    """The metric of generated texts with this name.

    - ``coverage``: the fraction of all given items that the texts mention.
    - ``extra``: the mean number of items per text that are mentioned but not given.
    - ``bleu``: lowercase BLEU of sacrebleu, from 0 to 100.
    """
    if name == "coverage":
        return Metric("coverage", _by_example(encoding, _covered), _share)
    if name == "extra":
        return Metric("extra", _by_example(encoding, _extra), mean_score)
    if name == "bleu":
        bleu = translation_measure("bleu_lowercase")
        return Metric(bleu.name, lambda right, given: bleu.statistics([r.text for r in right], given), bleu.score)
    raise DataError(f"Unknown metric {name!r} of generated texts: {did_you_mean(name, WRITTEN)}")


def _by_example(
    encoding: ComposeEncoding, count: Callable[[ComposeEncoding, Composition, list[str]], tuple[float, float]]
) -> Callable[..., np.ndarray]:
    def statistics(right: Sequence[Composition], given: Sequence[str]) -> np.ndarray:
        rows = [count(encoding, r, split_words(g, encoding.tokenizer)) for r, g in zip(right, given, strict=True)]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    return statistics


def _covered(encoding: ComposeEncoding, example: Composition, text: list[str]) -> tuple[float, float]:
    found = encoding.naming.mentioned([item for item in encoding.items(example) if item], text)
    return float(sum(found)), float(len(found))


def _share(sums: np.ndarray) -> np.ndarray:
    """Mentioned items divided by given items; 1 if there are none."""
    return np.where(sums[..., 1] > 0, sums[..., 0] / np.maximum(sums[..., 1], 1), 1.0)


def _extra(encoding: ComposeEncoding, example: Composition, text: list[str]) -> tuple[float, float]:
    goal = split_words(example.goal, encoding.tokenizer)
    return float(len(encoding.naming.extra(encoding.items(example), text, goal))), 1.0


def compute_scores(
    examples: Sequence[Composition], texts: Sequence[str], encoding: ComposeEncoding
) -> dict[str, float]:
    """The scores of texts for all metrics, without BLEU if sacrebleu is not installed."""
    found = {}
    for name in WRITTEN:
        try:
            found[name] = float(build_metric(name, encoding)(examples, texts))
        except MissingExtraError:
            continue
    return found


def build_report(
    examples: Sequence[Composition], texts: Sequence[str], encoding: ComposeEncoding, perplexity: float, tokens: int
) -> EvaluationReport:
    """The report of the scores with confidence intervals, and the scores of the reference texts.

    Args:
        examples: goals, items and reference texts.
        texts: the generated texts.
        encoding: the encoding of the model.
        perplexity: perplexity of the reference texts.
        tokens: their number of tokens.
    """
    scores, signed = {"perplexity": perplexity}, {"perplexity": f"perplexity|tokens={tokens}"}
    items = sum(len(example.items) for example in examples)
    lines = [
        f"{len(examples):,} texts with {items:,} items",
        f"perplexity {perplexity:.4f}   {signed['perplexity']}",
    ]
    written = [example.text for example in examples]
    for name, value in compute_scores(examples, texts, encoding).items():
        measure = build_metric(name, encoding)
        scores[name], signed[name] = value, signature(measure.name, len(examples))
        between = ""
        if len(examples) > 1:
            rows = measure.statistics(examples, texts)
            interval = bootstrap_score_interval(rows, measure.score, np.random.default_rng(0))
            between = f" ({interval.low:.4f} to {interval.high:.4f})"
        theirs = "" if name == "bleu" else f"; reference texts {float(measure(examples, written)):.4f}"
        lines.append(f"{name} {value:.4f}{between}{theirs}   {signed[name]}")
    lines.append(
        f"words per text: {_mean_length(texts, encoding.tokenizer):.1f}; reference texts "
        f"{_mean_length(written, encoding.tokenizer):.1f}"
    )
    return EvaluationReport(scores, signed, tuple(lines))


def _mean_length(texts: Sequence[str], tokenizer: Tokenizer) -> float:
    return float(np.mean([len(tokenizer.tokens(text)) for text in texts]))
