r"""Hard attention: one key and no other.

* ``StraightThroughAttention`` looks at the best key, and lets gradients through as if it had looked softly (Bengio et
al. 2013,
  section 4): :math:`w = \mathrm{onehot}(\arg\max_j a_j) + p - \lfloor p \rfloor`, with :math:`p = \mathrm{softmax}(a)`
  and :math:`\lfloor \cdot \rfloor` held fixed. Its gradient is biased.
* ``SampledHardAttention`` draws a key from p in training, and says with what log-probability, of which REINFORCE makes
an unbiased
  gradient (Xu et al. 2015, section 4.1); else it looks at the best.

The third way, which draws nothing and sums over all keys, needs the output layer:
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
    """A key that is drawn, in training; the best one otherwise. No gradient goes through the weights."""

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
        log_prob = torch.where(p == 0, 1.0, p).log()  # where nothing may be looked at, nothing is drawn
        return AttentionWeights(one_hot(drawn, soft), log_prob.sum(dim=1))

    def draw(self, p: Float[Tensor, "b h t s"]) -> Int[Tensor, "b h t"]:
        """A place for each row of probabilities, by torch's own generator; one of probability 0 is never drawn."""
        times = torch.empty_like(p).exponential_()
        return (p / times.clamp_min(torch.finfo(p.dtype).tiny)).argmax(dim=-1)


def one_hot(places: Int[Tensor, "b h t"], like: Float[Tensor, "b h t s"]) -> Float[Tensor, "b h t s"]:
    """1 at these places and 0 elsewhere, and everywhere in a row of ``like`` that is 0."""
    return torch.zeros_like(like).scatter(-1, places[..., None], like.detach().sum(dim=-1, keepdim=True).sign())
