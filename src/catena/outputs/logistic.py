r"""A mixture of logistic distributions over ordered levels, such as those of samples or pixels.

.. math::
    P(v) = \sum_k \pi_k \Big[\sigma\Big(\frac{v + \frac 1 2 - m_k}{s_k}\Big) -
           \sigma\Big(\frac{v - \frac 1 2 - m_k}{s_k}\Big)\Big]

where the first level also has what lies below it, and the last one what lies above. A few smooth bumps instead of one
weight for each level: neighboring levels are learned together, and 16 bits need no 65,536 outputs. Salimans et al.
2017, section 2.1. Uses :math:`\sigma(a) - \sigma(b) = \sigma(a)\, \sigma(-b)\, (1 - e^{b - a})`, which loses nothing
where both are near 0 or 1. Time O(n k v) for all levels, O(n k) for given ones.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.errors import ConfigError
from catena.numerics import log_sum_exp
from catena.outputs.base import OutputLayer, checked_targets
from catena.shapes import match_shape

MIN_LOG_SCALE = -5.0
"""The log of the smallest scale, in levels: such a bump lies within one level."""


class LogisticMixture(OutputLayer):
    """A mixture of ``n_logistics`` logistic distributions over ``v`` levels.

    Args:
        d_in: the size of an input vector.
        v: the number of levels, at least 2.
        n_logistics: the number of distributions.
    """

    normalized = likelihood = True

    def __init__(self, d_in: int, v: int, n_logistics: int = 10) -> None:
        super().__init__()
        if v < 2 or n_logistics < 1:
            raise ConfigError(
                f"v must be at least 2 and n_logistics at least 1, got {v} and {n_logistics}. Use 256 and 10."
            )
        self.d_in, self.v, self.n_logistics = d_in, v, n_logistics
        self.parts = nn.Linear(d_in, 3 * n_logistics)
        self.start_at(np.ones(v))

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        return -self.log_prob(hidden, targets).sum() / max(len(hidden), 1)

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        targets = checked_targets(self, hidden, targets)
        return self._of_levels(hidden, targets[:, None])[:, 0]

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        return self._of_levels(hidden, torch.arange(self.v, device=hidden.device)[None])

    def _of_levels(self, hidden: Float[Tensor, "n d_in"], levels: Int[Tensor, "#n c"]) -> Float[Tensor, "n c"]:
        weights, means, log_scales = self._distributions(hidden)
        from_mean = levels[:, None] - means[..., None]  # n k c
        inverse = torch.exp(-log_scales)[..., None]
        above, below = (from_mean + 0.5) * inverse, (from_mean - 0.5) * inverse
        last, first = levels[:, None] == self.v - 1, levels[:, None] == 0
        inner = torch.log(-torch.expm1(-inverse))
        scores = F.logsigmoid(above).masked_fill(last, 0.0) + F.logsigmoid(-below).masked_fill(first, 0.0)
        scores = scores + inner.masked_fill(first | last, 0.0)
        return log_sum_exp(weights[..., None] + scores, dim=1)

    def _distributions(
        self, hidden: Float[Tensor, "n d_in"]
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k"], Float[Tensor, "n k"]]:
        """Log-weights, means in levels, and log-scales."""
        with torch.autocast(hidden.device.type, enabled=False):
            wide = torch.promote_types(hidden.dtype, torch.float32)
            weight, bias = self.parts.weight.to(wide), self.parts.bias.to(wide)
            weights, means, log_scales = F.linear(hidden.to(wide), weight, bias).chunk(3, dim=-1)
        middle = (self.v - 1) / 2
        return torch.log_softmax(weights, dim=-1), middle * (1 + means), log_scales.clamp(min=MIN_LOG_SCALE)

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        """Set the biases so that a zero vector gives about these frequencies: equal weights at their quantiles."""
        k, middle = self.n_logistics, (self.v - 1) / 2
        cumulative = np.cumsum(frequencies) / np.sum(frequencies)
        edges = np.concatenate(([0.0], cumulative))
        means = np.interp((np.arange(k) + 0.5) / k, edges, np.arange(self.v + 1) - 0.5)
        gap = max(np.ptp(means) / max(k - 1, 1), self.v / (4 * k))
        values = torch.tensor(means / middle - 1)
        self.parts.bias[:k] = 0.0
        self.parts.bias[k : 2 * k] = values.to(self.parts.bias)
        self.parts.bias[2 * k :] = math.log(gap / 2)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_logistics={self.n_logistics}"
