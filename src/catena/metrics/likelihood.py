"""Metrics of likelihoods: perplexity, and nats or bits per token, character or byte.

Tested in tests/tasks/lm/test_evaluation.py and tests/tasks/lm/test_unknown.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.metrics.measure import LOG_PROB_TOLERANCE, Metric

MOST_NATS = 700.0
"""Larger means of nats give an infinite perplexity."""


def likelihood_metric(name: str, divisor: float = 1.0) -> Metric:
    """A likelihood metric as a function of sums over texts: nats, and tokens, characters or bytes.

    Args:
        name: the name; ``perplexity`` is exp of the mean, all others are the mean itself.
        divisor: divides the mean; log 2 for bits.

    Its references are pairs of a text and its size, its predictions log-probabilities of whole texts.
    """

    def statistics(references: Sequence[tuple[Any, int]], log_probs: Sequence[float]) -> np.ndarray:
        return np.array([(-log_prob, size) for (_, size), log_prob in zip(references, log_probs, strict=True)])

    def score(sums: np.ndarray) -> np.ndarray:
        mean = np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))
        if name == "perplexity":
            return np.where(mean < MOST_NATS, np.exp(np.minimum(mean, MOST_NATS)), np.inf)
        return np.asarray(mean / divisor)

    return Metric(name, statistics, score, tolerance=LOG_PROB_TOLERANCE, higher_is_better=False)


PERPLEXITY = likelihood_metric("perplexity")
NATS_PER_TOKEN = likelihood_metric("nats_per_token")
