r"""Losses that classify words of the data against words of a noise distribution q, at O(k) instead of O(v) per token.

.. math::
    \ell = -\log \sigma(\Delta(y)) - \sum_{j=1}^{k} \log \sigma(-\Delta(\bar w_j)), \qquad \bar w_j \sim q

Noise-contrastive estimation (Gutmann & Hyvärinen 2010; Mnih & Teh 2012) has
:math:`\Delta(w) = s(w, h) - \log Z - \log k q(w)`. Its optimum is :math:`s - \log Z = \log p`, for any q and k, and its
gradient tends to the gradient of the likelihood as k grows.

Negative sampling (Mikolov et al. 2013) has :math:`\Delta(w) = s(w, h)`. Its optimum is
:math:`s = \log p(w \mid h) - \log k q(w)` (Levy & Goldberg 2014), so that p is proportional to :math:`q \exp s`. The
two are the same for k = v and uniform noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from catena.outputs.base import checked_targets, log_normalize_counts
from catena.outputs.noise import ReplacementSampler
from catena.outputs.scores import WordScores
from catena.outputs.softmax import ScoredOutput


class NCE(ScoredOutput):
    """Noise-contrastive estimation.

    Args:
        d_in: the size of an input vector.
        noise: q for each word, which need not sum to one.
        k: the number of noise words for each row.
        shared: whether all rows have the same noise words.
        log_z: the log of the normalizer.
        learn_log_z: whether it is learned, starting from ``log_z``.
        bias: whether each word has a bias.
        tied: rows of an embedding to use as weights.
        forbidden: ids of probability 0; the noise must not contain them either.
    """

    normalized = False
    likelihood = False

    def __init__(
        self,
        d_in: int,
        noise: np.ndarray,
        k: int,
        shared: bool = True,
        log_z: float = 0.0,
        learn_log_z: bool = False,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.d_in, self.v, self.shared = d_in, len(noise), shared
        self.scores = WordScores(d_in, self.v, bias, tied, forbidden)
        self.sampler = ReplacementSampler(noise, k)
        if learn_log_z:
            self.log_z: Tensor = nn.Parameter(torch.tensor(log_z))
        else:
            self.register_buffer("log_z", torch.tensor(log_z))

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        targets = checked_targets(self, hidden, targets)
        ids, of_targets, of_noise = noisy_scores(self.scores, self.sampler, hidden, targets, self.shared)
        correction = self.sampler.log_expected.to(of_targets.dtype)
        log_z = self.log_z.to(of_targets.dtype)
        return contrast(of_targets - log_z - correction[targets], of_noise - log_z - correction[ids])

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        """As in any layer; s - log Z is then the log-probability, which training would take long to reach."""
        if self.scores.bias is not None:
            self.scores.bias.copy_(log_normalize_counts(frequencies) + self.log_z)

    def log_unnormalized(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """s - log Z, an approximation of ``log_prob`` after training, in time O(d) for each row."""
        return self.scores.each(hidden, checked_targets(self, hidden, targets)[:, None])[:, 0] - self.log_z


class NegativeSampling(ScoredOutput):
    """Negative sampling. Its log-probabilities add log q to the scores, according to the optimum of its loss.

    Args:
        d_in: the size of an input vector.
        noise: q for each word, which need not sum to one.
        k: the number of noise words for each row.
        shared: whether all rows have the same noise words.
        bias: whether each word has a bias.
        tied: rows of an embedding to use as weights.
        forbidden: ids of probability 0; the noise must not contain them either.
    """

    normalized = False
    likelihood = False
    log_noise: Tensor

    def __init__(
        self,
        d_in: int,
        noise: np.ndarray,
        k: int,
        shared: bool = True,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.d_in, self.v, self.shared = d_in, len(noise), shared
        self.scores = WordScores(d_in, self.v, bias, tied, forbidden)
        self.sampler = ReplacementSampler(noise, k)
        self.register_buffer("log_noise", self.sampler.log_expected.clone())  # part of the model, so saved with it

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        targets = checked_targets(self, hidden, targets)
        _, of_targets, of_noise = noisy_scores(self.scores, self.sampler, hidden, targets, self.shared)
        return contrast(of_targets, of_noise)

    @torch.no_grad()
    def start_at(self, frequencies: np.ndarray) -> None:
        if self.scores.bias is not None:
            self.scores.bias.copy_(log_normalize_counts(frequencies) - self.log_noise)

    @property
    def final_bias(self) -> Float[Tensor, " v"] | None:
        bias = self.scores.effective_bias
        return self.log_noise if bias is None else bias + self.log_noise


def noisy_scores(
    scores: WordScores,
    sampler: ReplacementSampler,
    hidden: Float[Tensor, "n d_in"],
    targets: Int[Tensor, " n"],
    shared: bool,
) -> tuple[Int[Tensor, "..."], Float[Tensor, " n"], Float[Tensor, "n k"]]:
    """Noise words, the scores of the targets, and the scores of the noise words (common to all rows if ``shared``)."""
    if shared:
        ids = sampler.draw()
        return (ids, *scores.shared(hidden, targets, ids))
    ids = sampler.draw_rows(len(targets))
    found = scores.each(hidden, torch.cat((targets[:, None], ids), dim=1))
    return ids, found[:, 0], found[:, 1:]


def contrast(of_targets: Float[Tensor, " n"], of_noise: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
    """The mean loss of classifying targets against noise, given the log-odds of each."""
    told = functional.logsigmoid(of_targets).sum() + functional.logsigmoid(-of_noise).sum()
    return -told / max(len(of_targets), 1)
