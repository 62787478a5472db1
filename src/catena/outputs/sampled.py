r"""Sampled softmax: a softmax over the target and a sample S of other words, corrected for the sampling of S.

.. math::
    \ell = -\log \frac{\exp(s(y, h) - \log Q(y))}{\sum_{w \in \{y\} \cup S} \exp(s(w, h) - \log Q(w))}

where Q(w) is the expected count of w (Bengio & Senécal 2008; Jean et al. 2015, section 3.1). With every word in
S, and none twice, it is the full softmax. Time O(k d) for each row instead of O(v d).

A sampled word that is the target of a row, a hit, is removed there if words are sampled at most once: the target and S
are then a set, in which each word might have been the target. If words may be sampled twice, hits must stay in: the
true distribution is then the optimum for any sample size (Ma & Collins 2018, the ranking objective). Removing them
anyway gives frequent targets too little weight, and the loss a bias that does not vanish as k grows; so sample
without replacement, or by :class:`~catena.outputs.noise.DistinctSampler`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.numerics import NEG_INF
from catena.outputs.base import checked_targets
from catena.outputs.noise import Sampler
from catena.outputs.scores import WordScores
from catena.outputs.softmax import ScoredOutput


class SampledSoftmax(ScoredOutput):
    """A softmax that is trained on samples of its words.

    Args:
        d_in: the size of an input vector.
        v: the number of words.
        sampler: samples the words of each batch.
        remove_hits: remove a sampled word from the rows whose target it is; for samplers without replacement.
        bias: whether each word has a bias.
        tied: rows of an embedding to use as weights.
        forbidden: ids of probability 0; the sampler must not contain them either.
    """

    normalized = True
    likelihood = False

    def __init__(
        self,
        d_in: int,
        v: int,
        sampler: Sampler,
        remove_hits: bool = True,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.d_in, self.v, self.remove_hits = d_in, v, remove_hits
        self.scores = WordScores(d_in, v, bias, tied, forbidden)
        self.sampler = sampler

    def loss(self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        targets = checked_targets(self, hidden, targets)
        ids = self.sampler.draw()
        of_targets, of_sample = self.scores.shared(hidden, targets, ids)
        correction = self.sampler.log_expected.to(of_targets.dtype)
        of_targets, of_sample = of_targets - correction[targets], of_sample - correction[ids]
        if self.remove_hits:
            of_sample = of_sample.masked_fill(ids == targets[:, None], NEG_INF)
        logits = torch.cat((of_targets[:, None], of_sample), dim=1)
        return -torch.log_softmax(logits, dim=1)[:, 0].sum() / max(len(targets), 1)
