r"""The cost of a constraint: how much less probable the texts that satisfy it are.

Texts are sampled from the model without the ids that are not allowed at each step,

.. math::  q(y) = \prod_t \frac{p(y_t \mid y_{<t})}{Z_t}, \qquad Z_t = \sum_{w \text{ allowed}} p(w \mid y_{<t})

so that :math:`p(y) / q(y) = \prod_t Z_t`. Two costs follow, in nats:

- :math:`-\log p(F)`, of the whole set F, where :math:`p(F) = E_q \prod_t Z_t`: a lower bound for every method, since it
  is KL(p(· | F) ‖ p);
- :math:`KL(q \| p) = E_q [-\sum_t \log Z_t]`, the cost of texts sampled step by step; never less than the first.

Divided by the ids of a text and exponentiated, a cost is the factor by which perplexity grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from catena.errors import DataError
from catena.search.filters import log_normalize
from catena.search.hypothesis import Hypothesis

KEEPING = (log_normalize,)
"""The filters to sample with: ``score`` is then log q(y), and ``log_prob`` is log p(y)."""


@dataclass(frozen=True)
class ConstraintCost:
    """The costs of a constraint, estimated from texts sampled with :data:`KEEPING`.

    Args:
        n: the number of texts.
        ids: the mean number of ids of a text, including the end.
        least: -log p(F), in nats.
        drawn: KL(q ‖ p), in nats.
        error: the standard error of ``drawn``.
        effective: the effective sample size of ``least``, at most ``n``; small if a few texts dominate.
        surprise: the mean of -log p(y) of the sampled texts, in nats.
    """

    n: int
    ids: float
    least: float
    drawn: float
    error: float
    effective: float
    surprise: float

    @property
    def factor(self) -> float:
        """The factor by which the constraint increases the perplexity per id."""
        return math.exp(self.drawn / self.ids)

    @property
    def perplexity(self) -> float:
        """exp(-log p(y) / ids) of the samples under the unconstrained model."""
        return math.exp(self.surprise / self.ids)


def estimate_cost(drawn: Sequence[Hypothesis]) -> ConstraintCost:
    """The costs of a constraint, estimated from finished samples."""
    if len(drawn) < 2 or not all(one.finished for one in drawn):
        raise DataError(
            f"A cost must be estimated from 2 or more finished texts, got {len(drawn)}, "
            f"{sum(one.finished for one in drawn)} of them finished. Sample more texts, or raise max_length."
        )
    n, paid = len(drawn), [one.score - one.log_prob for one in drawn]
    mean = sum(paid) / n
    weights = [math.exp(min(paid) - each) for each in paid]
    return ConstraintCost(
        n=n,
        ids=sum(len(one.ids) + 1 for one in drawn) / n,
        least=min(paid) - math.log(sum(weights) / n),
        drawn=mean,
        error=math.sqrt(sum((each - mean) ** 2 for each in paid) / (n - 1) / n),
        effective=sum(weights) ** 2 / sum(w * w for w in weights),
        surprise=-sum(one.log_prob for one in drawn) / n,
    )
