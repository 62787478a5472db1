r"""Hard attention: all weight on one key.

* ``StraightThroughAttention`` takes the best key, and passes gradients as if the attention were soft (Bengio et al.
  2013, section 4): :math:`w = \mathrm{onehot}(\arg\max_j a_j) + p - \lfloor p \rfloor`, with
  :math:`p = \mathrm{softmax}(a)` and :math:`\lfloor \cdot \rfloor` held constant. Its gradient is biased.
* ``SampledHardAttention`` samples a key from p in training and returns its log-probability, from which REINFORCE
  computes an unbiased gradient (Xu et al. 2015, section 4.1); in evaluation it takes the best key.

A third method, which sums over all keys without sampling, needs the output layer:
:mod:`catena.seq2seq.recurrent_latent`.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.attention.weighting import AttentionWeighting, AttentionWeights
from catena.numerics import masked_softmax


class StraightThroughAttention(AttentionWeighting):
    """The best key, with the gradient of the softmax."""

    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        soft = masked_softmax(scores, mask[:, None, None, :])
        return AttentionWeights(one_hot(soft.argmax(dim=-1), soft) + (soft - soft.detach()))


class SampledHardAttention(AttentionWeighting):
    """A sampled key in training, the best one otherwise. No gradient flows through the weights."""

    def forward(
        self,
        scores: Float[Tensor, "b h t s"],
        mask: Bool[Tensor, "b s"],
        query: Float[Tensor, "b t d_query"],
        places: Int[Tensor, "b t"],
    ) -> AttentionWeights:
        soft = masked_softmax(scores, mask[:, None, None, :])
        if not self.training:
            return AttentionWeights(one_hot(soft.argmax(dim=-1), soft))
        drawn = self.draw(soft.detach())
        p = soft.gather(-1, drawn[..., None])[..., 0]  # b h t
        log_prob = torch.where(p == 0, 1.0, p).log()  # nothing is sampled in a row without allowed keys
        return AttentionWeights(one_hot(drawn, soft), log_prob.sum(dim=1))

    def draw(self, p: Float[Tensor, "b h t s"]) -> Int[Tensor, "b h t"]:
        """An index for each row of probabilities, by torch's default generator; never one of probability 0."""
        times = torch.empty_like(p).exponential_()
        return (p / times.clamp_min(torch.finfo(p.dtype).tiny)).argmax(dim=-1)


def one_hot(places: Int[Tensor, "b h t"], like: Float[Tensor, "b h t s"]) -> Float[Tensor, "b h t s"]:
    """1 at these indices and 0 elsewhere; all 0 in rows of ``like`` that are all 0."""
    return torch.zeros_like(like).scatter(-1, places[..., None], like.detach().sum(dim=-1, keepdim=True).sign())
