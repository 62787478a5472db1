r"""What a constraint costs: how much less probable texts are that keep to it.

Texts are drawn from the model with what is not allowed left out at each step,

.. math::  q(y) = \prod_t \frac{p(y_t \mid y_{<t})}{Z_t}, \qquad Z_t = \sum_{w \text{ allowed}} p(w \mid y_{<t})

so that :math:`p(y) / q(y) = \prod_t Z_t`. Two costs follow, in nats:

- :math:`-\log p(F)`, of the whole set F, where :math:`p(F) = E_q \prod_t Z_t`: no way to write in form can be cheaper,
  since KL(p(· | F) ‖ p) is just that;
- :math:`KL(q \| p) = E_q [-\sum_t \log Z_t]`, what texts pay that are drawn step by step; never less than the first.

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
"""The filter to draw with: ``score`` is then log q(y), and ``log_prob`` is log p(y)."""


@dataclass(frozen=True)
class ConstraintCost:
    """The costs of a constraint, estimated from texts drawn with :data:`KEEPING`.

    Args:
        n: how many texts.
        ids: how many ids a text has in the mean, its end among them.
        least: -log p(F), in nats.
        drawn: KL(q ‖ p), in nats.
        error: the standard error of ``drawn``.
        effective: how many texts ``least`` rests on, of ``n``: few where a few outweigh all others.
        surprise: -log p(y) of the drawn texts in the mean, in nats.
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
        """The perplexity of an id is so many times what it would be if the form cost nothing."""
        return math.exp(self.drawn / self.ids)

    @property
    def perplexity(self) -> float:
        """exp(-log p(y) / ids) of what was drawn, under the free model."""
        return math.exp(self.surprise / self.ids)


def estimate_cost(drawn: Sequence[Hypothesis]) -> ConstraintCost:
    """The costs that texts tell of, all of them drawn to their end."""
    if len(drawn) < 2 or not all(one.finished for one in drawn):
        what = "some did not come to their end: raise max_length" if len(drawn) > 1 else "draw more"
        raise DataError(
            f"a cost is estimated from two texts or more that came to their end, and of {len(drawn)} {what}"
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
