r"""The mixture of probabilities of a checklist model's three switch states.

.. math::  p(w) = f^{lm} p^{lm}(w) + \sum_i (f^{new} α_i^{new} + f^{used} α_i^{used}) \sum_{j \in i,\, w_j = w} β_j
           \qquad β_j = \frac{\exp(e_j \cdot c)}{\sum_{k \in i} \exp(e_k \cdot c)}

An item's weight goes to its words, by how well each matches the vector c of the language model. Kiddon et al. (2016)
mix vectors instead, whose softmax predicts no item at all if several are equally probable; mixed probabilities are as
in pointer-generator networks (See et al. 2017).
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.numerics import NEG_INF, log_add_exp, safe_log


def word_shares(
    said: Float[Tensor, "b t e"],
    shares: Float[Tensor, "b t n"],
    words: Float[Tensor, "b s e"],
    members: Bool[Tensor, "b s n"],
) -> Float[Tensor, "b t s"]:
    """The weight of each word of the source in the prediction; 0 for words of no item."""
    scores = said @ words.transpose(1, 2)
    belongs = members.to(said.dtype).transpose(1, 2)
    apart = scores[:, :, None].masked_fill(~members.transpose(1, 2)[:, None], NEG_INF)
    top = apart.amax(dim=3).detach()
    inside = members.any(dim=2)[:, None]
    shifted = scores - torch.where(top == NEG_INF, 0.0, top) @ belongs
    weights = torch.where(inside, shifted, NEG_INF).exp()
    mass = (weights @ belongs.transpose(1, 2)) @ belongs
    return weights / torch.where(mass == 0, 1.0, mass) * (shares @ belongs)


def target_log_probs(
    own: Float[Tensor, "b t"],
    switch: Float[Tensor, "b t"],
    shares: Float[Tensor, "b t s"],
    ids: Int[Tensor, "b s"],
    targets: Int[Tensor, "b t"],
) -> Float[Tensor, "b t"]:
    """log p of each target; ``own`` is log p of the language model, ``switch`` its weight."""
    copied = (shares * (ids[:, None] == targets[:, :, None])).sum(dim=2)
    return log_add_exp(safe_log(switch) + own, safe_log(copied))


def all_log_probs(
    own: Float[Tensor, "n v"],
    switch: Float[Tensor, " n"],
    shares: Float[Tensor, "n s"],
    ids: Int[Tensor, "n s"],
) -> Float[Tensor, "n v"]:
    """log p of every id."""
    own = own + safe_log(switch)[:, None]
    copied = torch.zeros_like(own).scatter_add(1, ids, shares.to(own.dtype))
    return torch.where(copied > 0, (own.exp() + copied).log(), own)
