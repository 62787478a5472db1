r"""The full softmax, exact, without storing the logits of the whole batch.

.. math::  p(w \mid h) = \frac{\exp(s(w, h) / \tau)}{\sum_{w'} \exp(s(w', h) / \tau)}

Time O(n v d); memory O(v d) for the gradient and one block of logits, for any n: see
:mod:`catena.kernels.softmax.ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.errors import ConfigError
from catena.kernels.linear.int8_weight import Int8Matrix, Int8Weight
from catena.kernels.linear.ops import PackedLinear
from catena.kernels.softmax.ops import softmax_log_prob, softmax_loss
from catena.kernels.softmax.reference import wide
from catena.outputs.base import OutputLayer, check_possible, checked_ids, checked_targets, log_normalize_counts
from catena.outputs.scores import WordScores
from catena.shapes import match_shape

TOGETHER = 192
"""The number of rows whose probabilities of all words are computed together with 8-bit weights."""


class ScoredOutput(OutputLayer):
    """Abstract layer that scores each word by a row of weights; its distribution is the softmax of the scores."""

    scores: WordScores
    temperature: float = 1.0
    _rows: PackedLinear | Int8Matrix | None = None

    def train(self, mode: bool = True) -> Any:
        """Drop the copy of the weights when the mode changes: fused optimizers change weights unnoticed."""
        if mode != self.training:
            self._rows = None
        return super().train(mode)

    @property
    def final_bias(self) -> Float[Tensor, " v"] | None:
        """The bias that is added to the product of vector and weights before the softmax."""
        return self.scores.effective_bias

    def log_prob(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        targets = checked_targets(self, hidden, targets)
        if isinstance(self.scores.weight, Int8Weight):  # by the same products as in a search
            blocks = zip(hidden.split(TOGETHER), targets.split(TOGETHER), strict=True)
            return torch.cat([self.log_probs(x).gather(1, y[:, None]).squeeze(1) for x, y in blocks])
        return softmax_log_prob(hidden, self.scores.weight, self.final_bias, targets, 1 / self.temperature)

    def log_probs(self, hidden: Float[Tensor, "n d_in"]) -> Float[Tensor, "n v"]:
        match_shape("hidden", tuple(hidden.shape), "n d_in", d_in=self.d_in)
        rows = self._few_rows(hidden)
        if rows is None:
            return self._log_softmax(hidden, self.scores.weight, self.final_bias)
        scores, bias = rows(hidden), self.final_bias
        return self._normalized(scores if bias is None else scores.add_(bias), None)

    def top_log_probs(self, hidden: Float[Tensor, "n d_in"], k: int) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
        rows = self._few_rows(hidden)
        if rows is not None and self.temperature == 1 and rows.can_find_top(len(hidden), k):
            return rows.top_log_probs(hidden, self.final_bias, k)
        return super().top_log_probs(hidden, k)

    def _few_rows(self, hidden: Float[Tensor, "n d_in"]) -> PackedLinear | Int8Matrix | None:
        """The weights in the layout for products with few vectors, if these are faster; rebuilt as needed."""
        weight = self.scores.weight
        if not PackedLinear.suits(hidden, weight) and not isinstance(weight, Int8Weight):
            return None
        if self._rows is None or not self._rows.is_current(weight):
            self._rows = weight.matrix if isinstance(weight, Int8Weight) else PackedLinear(weight)
        return self._rows

    def log_probs_among(self, hidden: Float[Tensor, "n d_in"], ids: Int[Tensor, " c"]) -> Float[Tensor, "n c"]:
        bias = self.final_bias
        return self._log_softmax(hidden, self.scores.rows(ids), None if bias is None else bias[ids])

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        if self.scores.bias is not None:
            self.scores.bias.copy_(log_normalize_counts(frequencies) * self.temperature)

    def _log_softmax(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        scores = torch.nn.functional.linear(hidden, weight.to(hidden.dtype)).to(wide(hidden.dtype))
        return self._normalized(scores, bias)

    def _normalized(self, scores: Tensor, bias: Tensor | None) -> Tensor:
        scores = scores if bias is None else scores + bias
        return torch.log_softmax(scores if self.temperature == 1 else scores / self.temperature, dim=-1)

    @torch.no_grad()
    def restricted(self, ids: Int[Tensor, " c"]) -> OutputLayer:
        """A softmax over copies of these rows, so that the steps of a search do not gather them again."""
        ids = checked_ids(ids, self.v)
        bias = self.final_bias
        check_possible(ids, None if bias is None else bias[ids])
        layer = Softmax(
            self.d_in,
            len(ids),
            bias=bias is not None,
            temperature=self.temperature,
            tied=nn.Parameter(self.scores.weight[ids], requires_grad=False),
        )
        if bias is not None:
            layer.scores.bias = nn.Parameter(bias[ids].to(self.scores.weight.dtype), requires_grad=False)
        return layer.train(self.training)


class Softmax(ScoredOutput):
    """A softmax over all words.

    Args:
        d_in: the size of an input vector.
        v: the number of words.
        bias: whether each word has a bias.
        temperature: the divisor of the scores; above 1 the distribution is flatter. May be set later as well.
        tied: rows of an embedding to use as weights.
        forbidden: ids of probability 0.
        smoothing: the fraction of each target that training spreads evenly over all allowed ids (Szegedy et al.
            2016, section 7).
    """

    normalized = True

    def __init__(
        self,
        d_in: int,
        v: int,
        bias: bool = True,
        temperature: float = 1.0,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
        smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ConfigError(f"temperature must be above 0, got {temperature}. Use the argmax for the limit at 0.")
        if not 0 <= smoothing < 1:
            raise ConfigError(f"smoothing must be at least 0 and below 1, got {smoothing}. Use a value such as 0.1.")
        self.d_in, self.v, self.temperature, self.smoothing = d_in, v, temperature, smoothing
        self.likelihood = smoothing == 0
        self.scores = WordScores(d_in, v, bias, tied, forbidden)

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        targets = checked_targets(self, hidden, targets)
        loss = softmax_loss(hidden, self.scores.weight, self.final_bias, targets, 1 / self.temperature)
        return loss + self._smoothed(hidden, targets) if self.smoothing else loss

    def _smoothed(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        r"""The term that label smoothing adds to the loss.

        With :math:`\bar s` the mean score of the allowed ids,

        .. math::  (1 - ε)(-\log p(y)) + ε (\log Z - \bar s) = -\log p(y) + ε (s(y) - \bar s)

        which is linear in the vectors: a mean of the weights and the weights of the targets suffice, without logits.
        """
        # Half precision would round the even fraction of a word, so that fractions do not sum to one: then all scores
        # together could fall forever, and with them the vectors that are tied to the weights.
        with torch.autocast(hidden.device.type, enabled=False):
            weight, forbidden = self.scores.weight.to(wide(self.scores.weight.dtype)), self.scores.forbidden
            allowed = weight.new_ones(self.v) if forbidden is None else (~forbidden).to(weight.dtype)
            share = allowed / allowed.sum()
            rows = self.scores.rows(targets) - share @ weight
            more = (hidden.to(rows.dtype) * rows).sum()
            if self.scores.bias is not None:
                bias = self.scores.bias.to(share.dtype)
                more = more + (bias[targets] - share @ bias).sum()
            return self.smoothing / self.temperature / max(len(hidden), 1) * more

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, temperature={self.temperature}, smoothing={self.smoothing}"
