r"""Weights of logits and retrieval scores, fitted by maximum likelihood of correct spans on development questions.

.. math::  p(w, i, j) \propto \exp(\alpha (s_{wi} + e_{wj}) + \beta\, r_{w})

With :math:`\beta = 0`, :math:`\alpha` is the inverse of a temperature, which makes probabilities agree with the
frequency of correct answers (Guo et al. 2017, section 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from catena.data.readers.questions import QuestionExample
from catena.errors import DataError
from catena.metrics.reading import normalize_answer
from catena.retrieval.mixing import fit_weights
from catena.tasks.read.answers import AnswerFinder, WindowLogits, span_distribution
from catena.tasks.read.data import ReadingTexts

_CANDIDATES = 10
"""Number of spans of each window from which weights are fitted."""


class MixtureWeights(NamedTuple):
    """Weights of the logits of spans and of the retrieval score of their paragraph."""

    spans: float = 1.0
    retrieval: float = 0.0


def score_candidates(
    encoded: ReadingTexts,
    logits: Sequence[WindowLogits],
    references: Sequence[str],
    retrieval: Mapping[int, float],
    max_answer: int,
) -> Float[np.ndarray, "c 2"] | None:
    """Logits and retrieval score of the best correct span, then of wrong ones; None if either is missing.

    Args:
        encoded: the texts.
        logits: the logits of all windows of a question.
        references: the correct answers.
        retrieval: the retrieval score of each text, by its index.
        max_answer: the maximum number of tokens of a span.
    """
    correct = {normalize_answer(text) for text in references}
    right: list[tuple[float, float]] = []
    wrong: list[tuple[float, float]] = []
    for window in logits:
        for span in span_distribution([window], max_answer).top(_CANDIDATES):
            at = window.window.first
            text = encoded.slice(window.source, at + span.first, at + span.last)
            side = right if normalize_answer(text) in correct else wrong
            side.append((span.score, retrieval.get(window.source, 0.0)))
    return np.array([max(right), *wrong]) if right and wrong else None


def fit_mixture(tables: Sequence[Float[np.ndarray, "_ 2"]]) -> MixtureWeights:
    """The most probable weights, from the candidates of :func:`score_candidates`.

    Raises:
        DataError: if there are no candidates, or if correct spans have lower logits than wrong ones.
    """
    if not tables:
        raise DataError("The weights need a question whose answer was found, got none. Pass more dev questions.")
    (spans, retrieval), _ = fit_weights(tables)
    if spans <= 0:
        raise DataError(f"The fitted weight of spans must be positive, got {spans:.3g}. Train the model longer.")
    return MixtureWeights(float(spans), float(retrieval))


def fit_scale(finder: AnswerFinder, examples: Sequence[QuestionExample]) -> float:
    """The factor of the logits with which probabilities fit development questions best.

    Args:
        finder: the model.
        examples: questions with answers.
    """
    given = [example for example in examples if example.answers]
    encoded = ReadingTexts(finder.encoding, [e.context for e in given], [e.question for e in given])
    logits = finder.read(encoded, [(i, [i]) for i in range(len(given))])
    tables = [
        score_candidates(encoded, windows, example.references, {}, finder.options.max_answer)
        for example, windows in zip(given, logits, strict=True)
    ]
    return fit_mixture([table for table in tables if table is not None]).spans
