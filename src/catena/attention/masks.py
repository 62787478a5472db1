"""Masks of attention: ``mask[..., i, j]`` is True where query ``i`` may attend to key ``j``."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.shapes import check_mask, checked_lengths, mask_from_lengths


def padding_mask(lengths: Int[Tensor, "*batch"], s: int) -> Bool[Tensor, "*batch 1 s"]:
    """The mask of padding: True at real keys. The query axis has size 1, to be broadcast.

    Args:
        lengths: number of real keys of each sequence.
        s: number of keys.
    """
    checked = checked_lengths("lengths", lengths, s)
    assert checked is not None
    return mask_from_lengths(checked, s)[..., None, :]


def causal_mask(t: int, s: int, device: torch.device | None = None) -> Bool[Tensor, "t s"]:
    """The mask of a causal model: a query attends to its own position and all before it.

    With more keys than queries, the queries are the last ``t`` of the ``s`` positions, as in a decoder with a cache of
    earlier keys.

    Args:
        t: number of queries.
        s: number of keys, at least ``t``.
        device: device of the mask.
    """
    positions = torch.arange(s - t, s, device=device)
    return torch.arange(s, device=device) <= positions[:, None]


def without_unseen(
    x: Float[Tensor, "*batch s d"], mask: Bool[Tensor, "*#batch #t #s"] | None
) -> Float[Tensor, "*batch s d"]:
    """Keys or values with 0 where no query may attend to them.

    Their weight is 0, but 0 times nan is nan: padding could make the context nan, or the gradient of the query.
    """
    return x if mask is None else x.masked_fill(~mask.any(-2)[..., None], 0.0)


def check_attention_mask(mask: Shaped[Tensor, "..."], b: int, t: int, s: int) -> None:
    """Raise ShapeError unless a mask has the axes ``b t s``, each full or of size 1.

    A padding mask ``b s`` would be broadcast over heads.
    """
    check_mask(mask, "a query may attend")
    shape = tuple(mask.shape)
    if len(shape) != 3 or any(size not in (1, whole) for size, whole in zip(shape, (b, t, s), strict=True)):
        raise ShapeError(
            f"mask must have the axes 'b t s' = {(b, t, s)}, each of this size or 1, got the shape {shape}. Use "
            "padding_mask(lengths, s) or causal_mask(t, s)[None]."
        )


def attention_mask(lengths: Int[Tensor, "*batch"], t: int, causal: bool = False) -> Bool[Tensor, "*batch q t"]:
    """The mask of self-attention over ``t`` positions, where ``q`` is 1, or ``t`` if ``causal``.

    Args:
        lengths: number of real positions of each sequence.
        t: number of positions.
        causal: whether a query may attend only to its own position and those before it.
    """
    mask = padding_mask(lengths, t)
    return mask & causal_mask(t, t, lengths.device) if causal else mask
