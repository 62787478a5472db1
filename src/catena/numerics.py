"""Sums and logarithms that are exact at minus infinity and never have nan gradients.

``torch.logsumexp`` and ``torch.logaddexp`` have nan gradients if every term is -inf, which is common in charts and
masked softmaxes. The functions here return -inf in that case, with gradient 0.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from catena.shapes import check_mask

NEG_INF = -math.inf
"""The log of zero. An impossible event scores exactly NEG_INF, not a large negative number."""


def log_sum_exp(x: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """log Σ exp(x) over axis ``dim``. All -inf, or no terms, gives -inf with gradient 0; +inf gives +inf."""
    if x.shape[dim] == 0:
        return x.sum(dim) + NEG_INF
    top = x.amax(dim, keepdim=True).detach()
    top = torch.where(top.isinf(), 0.0, top)
    mass = (x - top).exp().sum(dim)
    # Two `where`s keep both passes exact: the inner one keeps log away from 0, the outer one puts -inf back.
    empty = mass == 0
    return torch.where(empty, NEG_INF, torch.where(empty, 1.0, mass).log() + top.squeeze(dim))


def without_nan(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Scores with nan and +inf replaced by -inf, with gradient 0 there."""
    return torch.where(x < math.inf, x, NEG_INF)


def log_add_exp(a: Float[Tensor, "..."], b: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(exp(a) + exp(b)), elementwise. Two -inf give -inf with gradient 0."""
    a, b = torch.broadcast_tensors(a, b)
    return log_sum_exp(torch.stack((a, b)), dim=0)


def safe_log(p: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log p with log 0 = -inf and gradient 0 there."""
    zero = p == 0
    return torch.where(zero, NEG_INF, torch.where(zero, 1.0, p).log())


def lerp(
    start: Float[Tensor, "..."], end: Float[Tensor, "..."], share: Float[Tensor, "..."] | float
) -> Float[Tensor, "..."]:
    """start + share (end - start), in the widest dtype of the three arguments.

    ``torch.lerp`` does not mix dtypes, but under autocast a recurrent state is wider than the output of a product.
    """
    dtype = torch.promote_types(start.dtype, end.dtype)
    if isinstance(share, Tensor):
        dtype = torch.promote_types(dtype, share.dtype)
        share = share.to(dtype)
    return torch.lerp(start.to(dtype), end.to(dtype), share)


def masked_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None, dim: int = -1
) -> Float[Tensor, "..."]:
    """Softmax over the entries where ``mask`` is True; all weights are 0 if no entry is, or if all score -inf.

    Args:
        scores: the logits.
        mask: True where an entry counts; all if omitted.
        dim: the axis to normalize over.
    """
    if mask is not None:
        check_mask(mask, "an entry counts")
        scores = scores.masked_fill(~mask, NEG_INF)
    if scores.shape[dim] == 0:
        return scores
    top = scores.amax(dim, keepdim=True).detach()
    weights = (scores - torch.where(top.isinf(), 0.0, top)).exp()
    mass = weights.sum(dim, keepdim=True)
    return weights / torch.where(mass == 0, 1.0, mass)


def log1mexp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(1 - exp(x)) for x <= 0, accurate at both ends (Mächler 2012, eq. 7); -inf with gradient 0 at x = 0."""
    small = x > -math.log(2.0)
    far = torch.where(small, -1.0, x)  # log1p has a nan gradient at 0, even inside torch.where
    return torch.where(small, safe_log(-torch.expm1(x)), torch.log1p(-far.exp()))
