r"""A mixture of logistic distributions around the predictions of several linear predictors.

.. math::
    P(v) &= \sum_k \pi_k \Big[\sigma\Big(\frac{e_{v+1} - m_k}{s_k}\Big) - \sigma\Big(\frac{e_v - m_k}{s_k}\Big)\Big] \\
    m_k &= \sum_p \alpha_{kp} \mu_p + a_k s_k \qquad
    \log s_k = \sum_p \alpha_{kp} (\gamma_k \log \sigma_p + (1 - \gamma_k) \log \tau_p) + b_k

where e are the edges between mu-law levels as samples, :math:`\mu_p` is the mean of predictor p, and
:math:`\sigma_p, \tau_p` are its slow and its fast scale. A network gives the weights :math:`\pi`, how the predictors
are mixed, :math:`\alpha` and :math:`\gamma`, the shifts a and the log-scales b. So it corrects the predictions relative
to their usual errors, and what it learns holds for any level and any sound. It starts as a fixed mixture of the
predictors. A small part of the probability, :data:`EVEN`, is spread evenly. Time O(n k v) for all levels, O(n k) for
given ones. Tested in tests/outputs/test_prediction.py.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.data.mulaw import expand, level_positions
from catena.errors import ConfigError
from catena.numerics import log_sum_exp
from catena.outputs.base import OutputLayer, checked_targets
from catena.shapes import match_shape

WIDTHS = (0.3, 0.5, 0.8)
"""The first scales of the logistic distributions, as multiples of the mean size of errors."""
MIN_SCALE = 1e-5
"""The smallest scale of samples from -1 to 1: less than a tenth of the narrowest level."""
MAX_LOG_SCALE = 2.0
"""The log of the largest scale."""
OUTSIDE = 1e4
"""The edges of the first and the last level, which are open: an edge at infinity has no gradient."""
CENTER, SPREAD = -5.0, 2.0
"""The log of a scale is CENTER + SPREAD times the value in an input."""
EVEN = 1e-3
"""The part of the probability that is spread evenly over the levels."""


class PredictionMixture(OutputLayer):
    """A mixture of ``n_logistics`` logistic distributions over ``v`` mu-law levels, around predictions.

    Args:
        d: the size of a vector of the network.
        v: the number of levels, at least 2.
        n_predictors: the number of predictions. An input has, after the vector of the network, a mean, the log of the
            slow and the log of the fast scale for each, in this order; see :data:`CENTER`.
        n_logistics: the number of distributions.
    """

    normalized = likelihood = True
    low: Tensor
    high: Tensor

    def __init__(self, d: int, v: int, n_predictors: int, n_logistics: int = 10) -> None:
        super().__init__()
        if v < 2 or n_predictors < 1 or n_logistics < 1:
            raise ConfigError(
                f"v must be at least 2, and n_predictors and n_logistics at least 1, got {v}, {n_predictors} and "
                f"{n_logistics}. Use 256, 1 and 10."
            )
        self.d, self.d_in, self.v = d, d + 3 * n_predictors, v
        self.n_predictors, self.n_logistics = n_predictors, n_logistics
        self.parts = nn.Linear(d, n_logistics * (4 + n_predictors))
        inner = expand(level_positions(v)[1:] - 1 / (v - 1), v - 1)
        edges = torch.from_numpy(np.concatenate(([-OUTSIDE], inner, [OUTSIDE]))).float()
        self.register_buffer("low", edges[:-1], persistent=False)
        self.register_buffer("high", edges[1:], persistent=False)
        self.start_at(np.ones(v))

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        return -self.log_prob(hidden, targets).sum() / max(len(hidden), 1)

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        targets = checked_targets(self, hidden, targets)
        return self._of_levels(hidden, self.low[targets][:, None], self.high[targets][:, None])[:, 0]

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        return self._of_levels(hidden, self.low[None], self.high[None])

    def _of_levels(
        self, hidden: Float[Tensor, "n d_in"], low: Float[Tensor, "#n c"], high: Float[Tensor, "#n c"]
    ) -> Float[Tensor, "n c"]:
        """log p of the levels between these edges; sigma(a) - sigma(b) = sigma(a) sigma(-b) (1 - e^(b - a))."""
        with torch.autocast(hidden.device.type, enabled=False):
            weights, means, scales = self._distributions(hidden)
            above = (high[:, None].to(means.dtype) - means[..., None]) / scales[..., None]  # n k c
            below = (low[:, None].to(means.dtype) - means[..., None]) / scales[..., None]
            inner = torch.log(-torch.expm1(-(high - low)[:, None].to(means.dtype) / scales[..., None]))
            scores = F.logsigmoid(above) + F.logsigmoid(-below) + inner
            mixed = log_sum_exp(weights[..., None] + scores, dim=1)
            return torch.logaddexp(mixed + math.log1p(-EVEN), mixed.new_tensor(math.log(EVEN / self.v)))

    def _distributions(
        self, hidden: Float[Tensor, "n d_in"]
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k"], Float[Tensor, "n k"]]:
        """Log-weights, means and scales."""
        wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        parts = F.linear(wide[:, : self.d], self.parts.weight.to(wide.dtype), self.parts.bias.to(wide.dtype))
        weights, shifts, widths, speeds, mixed = parts.split((*[self.n_logistics] * 4, self._n_mixed), dim=-1)
        mixed = torch.softmax(mixed.unflatten(-1, (self.n_logistics, self.n_predictors)), dim=-1)
        means, slow, fast = wide[:, self.d :].unflatten(-1, (self.n_predictors, 3))[:, None].unbind(dim=-1)
        part = torch.sigmoid(speeds)
        usual = part * (mixed * slow).sum(dim=-1) + (1 - part) * (mixed * fast).sum(dim=-1)
        scales = (CENTER + SPREAD * usual + widths).clamp(max=MAX_LOG_SCALE).exp() + MIN_SCALE
        return torch.log_softmax(weights, dim=-1), (mixed * means).sum(dim=-1) + shifts * scales, scales

    @property
    def _n_mixed(self) -> int:
        return self.n_logistics * self.n_predictors

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        """Start as an even mixture of the predictors in several widths. The frequencies are not used."""
        self.parts.weight.zero_()
        weights, shifts, widths, speeds, mixed = self.parts.bias.split((*[self.n_logistics] * 4, self._n_mixed))
        for each in (weights, shifts, speeds, mixed):
            each.zero_()
        for k in range(self.n_logistics):
            mixed[k * self.n_predictors + k % self.n_predictors] = 2.0
            widths[k] = math.log(WIDTHS[k // self.n_predictors % len(WIDTHS)])

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_predictors={self.n_predictors}, n_logistics={self.n_logistics}"
