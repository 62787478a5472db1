"""Sums and logarithms that are exact at minus infinity and never give nan gradients.

``torch.logsumexp`` and ``torch.logaddexp`` have nan gradients where every term is -inf, and such cells are
everywhere in a chart or a masked softmax. The functions here return -inf there, with gradient 0.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from catena.shapes import check_mask

NEG_INF = -math.inf
"""The log of zero. Exact: an impossible thing scores NEVER, not a large negative number."""


def log_sum_exp(x: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """log Σ exp(x) over one axis. All -inf, or no terms, gives -inf with gradient 0; +inf gives +inf."""
    if x.shape[dim] == 0:
        return x.sum(dim) + NEG_INF
    top = x.amax(dim, keepdim=True).detach()
    top = torch.where(top.isinf(), 0.0, top)
    mass = (x - top).exp().sum(dim)
    # Two `where`s keep both passes exact: the inner one keeps log away from 0, the outer one puts -inf back.
    empty = mass == 0
    return torch.where(empty, NEG_INF, torch.where(empty, 1.0, mass).log() + top.squeeze(dim))


def without_nan(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Scores with -inf for nan and +inf, gradient 0 there."""
    return torch.where(x < math.inf, x, NEG_INF)


def log_add_exp(a: Float[Tensor, "..."], b: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(exp(a) + exp(b)), elementwise; two -inf give -inf with gradient 0."""
    a, b = torch.broadcast_tensors(a, b)
    return log_sum_exp(torch.stack((a, b)), dim=0)


def safe_log(p: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log p with log 0 = -inf and gradient 0 there."""
    zero = p == 0
    return torch.where(zero, NEG_INF, torch.where(zero, 1.0, p).log())


def lerp(
    start: Float[Tensor, "..."], end: Float[Tensor, "..."], share: Float[Tensor, "..."] | float
) -> Float[Tensor, "..."]:
    """start + share (end - start), in the finest precision of the three: ``torch.lerp`` refuses to mix them, and under
    autocast a memory is finer than what a product has just made."""
    dtype = torch.promote_types(start.dtype, end.dtype)
    if isinstance(share, Tensor):
        dtype = torch.promote_types(dtype, share.dtype)
        share = share.to(dtype)
    return torch.lerp(start.to(dtype), end.to(dtype), share)


def masked_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None, dim: int = -1
) -> Float[Tensor, "..."]:
    """Softmax over the places where ``mask`` is True; if none is, or all score -inf, every weight is 0."""
    if mask is not None:
        check_mask(mask, "a place counts")
        scores = scores.masked_fill(~mask, NEG_INF)
    if scores.shape[dim] == 0:
        return scores
    top = scores.amax(dim, keepdim=True).detach()
    weights = (scores - torch.where(top.isinf(), 0.0, top)).exp()
    mass = weights.sum(dim, keepdim=True)
    return weights / torch.where(mass == 0, 1.0, mass)


def log1mexp(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(1 - exp(x)) for x <= 0, accurate at both ends (Mächler 2012, eq. 7); at 0 -inf with gradient 0."""
    small = x > -math.log(2.0)
    far = torch.where(small, -1.0, x)  # log1p has a nan gradient at 0, also behind a where
    return torch.where(small, safe_log(-torch.expm1(x)), torch.log1p(-far.exp()))
