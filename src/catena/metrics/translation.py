r"""BLEU, chrF and TER as in sacrebleu (Post 2018), as functions of sums over sentences.

.. math::  \mathrm{BLEU} = \min(1, e^{1 - r/c}) \prod_{n=1}^{4} p_n^{1/4}, \qquad
           \mathrm{chrF} = \frac{5 P R}{4 P + R}, \qquad \mathrm{TER} = \frac{\text{edits}}{r}

Papineni et al. 2002; Popović 2015; Snover et al. 2006. All range from 0 to 100, as in sacrebleu, except that TER may be
higher. The statistics of a sentence (matches, n-grams, lengths) are counted by sacrebleu, whose signature is kept. The
scores of sums are computed here for many corpora together, so that intervals and paired tests do not count again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.extras import require
from catena.metrics.measure import Metric, MetricValue, as_pairs
from catena.registry import did_you_mean

_Cut = Literal["13a", "intl", "zh", "char", "none"]
"""The tokenizer of sacrebleu for BLEU: 13a for most languages, zh for Chinese, char for scripts without blanks, none
for texts that are tokenized already."""

ORDER, LETTERS = 4, 6
"""The maximum length of word n-grams in BLEU, and of character n-grams in chrF."""

TRANSLATION_METRICS = ("bleu", "bleu_lowercase", "chrf", "ter")
"""The names of the metrics in this module. Lower TER is better."""


def translation_measure(name: str, cut: _Cut = "13a") -> Metric:
    """A metric of translations by name, for untokenized references and predictions.

    Args:
        name: ``bleu``, ``bleu_lowercase`` (both sides in lower case), ``chrf`` or ``ter``.
        cut: the tokenizer of BLEU.
    """
    if name not in TRANSLATION_METRICS:
        raise DataError(f"Unknown metric of translations {name!r}: {did_you_mean(name, TRANSLATION_METRICS)}")
    counter = _counter(name, cut)
    score = {"bleu": bleu_of_sums, "chrf": chrf_of_sums, "ter": ter_of_sums}[name.partition("_")[0]]
    counter.num_refs = 1
    title = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}[name.partition("_")[0]]
    signature = f"{title}|{counter.get_signature().format()}"
    return Metric(signature, partial(_statistics, counter, title), score, higher_is_better=title != "TER")


def _counter(name: str, cut: _Cut) -> Any:
    """The metric object of sacrebleu."""
    metrics = require("sacrebleu.metrics", "translate", f"scoring translations by {name}")
    if name == "chrf":
        return metrics.CHRF()
    if name == "ter":
        return metrics.TER()
    return metrics.BLEU(lowercase=name == "bleu_lowercase", tokenize=cut, force=True)


def _statistics(counter: Any, title: str, references: Sequence[str], predictions: Sequence[str]) -> np.ndarray:
    right, given = as_pairs(title, references, predictions)
    for what, texts in (("reference", right), ("prediction", given)):
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
        if wrong is not None:
            raise DataError(
                f"{title} needs strings, got {what} {wrong} of type {type(texts[wrong]).__name__}. "
                "Join tokens by blanks, and pass one reference for each prediction."
            )
    return np.array(counter._extract_corpus_statistics(given, [right]), np.float64)


def bleu_of_sums(sums: Float[np.ndarray, "*batch 10"]) -> Float[np.ndarray, "*batch"]:
    """BLEU from the lengths of both sides, matches and n-grams, with exponential smoothing of zero matches."""
    given, wanted = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2 : 2 + ORDER], sums[..., 2 + ORDER :]
    misses = np.cumsum(matches == 0, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(matches > 0, matches, 0.5**misses) / totals
        brevity = np.where(given < wanted, np.exp(1 - wanted / given), 1.0)
        score = 100 * brevity * np.exp(np.log(precisions).mean(axis=-1))
    possible = (matches.sum(axis=-1) > 0) & (totals > 0).all(axis=-1)
    return np.where(possible, score, 0.0)


def chrf_of_sums(sums: Float[np.ndarray, "*batch 18"]) -> Float[np.ndarray, "*batch"]:
    """F2 of the mean precision and recall over the n-gram orders that both sides have."""
    counts = sums.reshape(*sums.shape[:-1], LETTERS, 3)
    given, wanted, matches = counts[..., 0], counts[..., 1], counts[..., 2]
    both = (given > 0) & (wanted > 0)
    orders = np.maximum(both.sum(axis=-1), 1)
    precision = (np.where(both, matches, 0) / np.maximum(given, 1)).sum(axis=-1) / orders
    recall = (np.where(both, matches, 0) / np.maximum(wanted, 1)).sum(axis=-1) / orders
    below = 4 * precision + recall
    return np.where(below > 0, 500 * precision * recall / np.where(below > 0, below, 1.0), 0.0)


def ter_of_sums(sums: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
    """Edits divided by the length of the references; 100 if a reference is empty and its prediction is not."""
    edits, wanted = sums[..., 0], sums[..., 1]
    return np.where(wanted > 0, 100 * edits / np.where(wanted > 0, wanted, 1.0), np.where(edits > 0, 100.0, 0.0))


def bleu(references: Sequence[str], predictions: Sequence[str], tokenize: _Cut = "13a") -> MetricValue:
    """Corpus BLEU of ``predictions`` in [0, 100], as sacrebleu computes it.

    Args:
        references: one reference for each prediction.
        predictions: detokenized texts.
        tokenize: how sacrebleu splits texts into words.
    """
    return translation_measure("bleu", tokenize)(references, predictions)


def chrf(references: Sequence[str], predictions: Sequence[str]) -> MetricValue:
    """Corpus chrF2 of ``predictions`` in [0, 100], as sacrebleu computes it."""
    return translation_measure("chrf")(references, predictions)


def ter(references: Sequence[str], predictions: Sequence[str]) -> MetricValue:
    """Translation edit rate of ``predictions`` in percent, as sacrebleu computes it; lower is better."""
    return translation_measure("ter")(references, predictions)
