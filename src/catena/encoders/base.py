"""The interface of encoders: a sequence of vectors in, a sequence of vectors out.

Two promises hold for every encoder, and ``tests/laws/encoder_laws.py`` checks them for each: the outputs at
padded positions are exactly 0, and what stands at padded positions of the input, be it nan, changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.shapes import check_tensor, checked_lengths, mask_from_lengths, match_shape


class Encoder(nn.Module, ABC):
    """Turns ``b t d_in`` into ``b t d_out``. A leaf sets the two sizes and writes :meth:`encode`."""

    d_in: int
    d_out: int

    def forward(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"] | None = None
    ) -> Float[Tensor, "b t d_out"]:
        """Encode each sequence of ``x``: its first ``lengths[i]`` positions are real, or all if lengths are omitted."""
        b, t, _ = match_shape("the input of the encoder", tuple(x.shape), "b t d_in", d_in=self.d_in).values()
        if t == 0:
            return x.new_zeros(b, 0, self.d_out)
        lengths = read_lengths(lengths, b, t).to(x.device)
        mask = mask_from_lengths(lengths, t)
        padded = ~mask[..., None]
        return self.encode(x.masked_fill(padded, 0.0), lengths, mask).masked_fill(padded, 0.0)

    def self_attention(self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"]) -> list[Float[Tensor, "b h t t"]]:
        """How positions look at each other: of each layer ``[i, head, t, s]``, ``t`` being what looks, 0 at padding;
        an empty list where none do."""
        return []

    @abstractmethod
    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        """The work itself: ``x`` is 0 at padded positions, and whatever is returned there is dropped."""


def read_lengths(lengths: Tensor | None, b: int, t: int) -> Int[Tensor, "b"]:
    """The lengths of ``b`` sequences of ``t`` positions as int64: all of them if omitted.

    Raises :class:`ShapeError` for a number of lengths other than ``b``, or a length above ``t`` or below 0.
    """
    if lengths is None:
        return torch.full((b,), t)
    check_tensor("lengths", lengths)
    match_shape("lengths", tuple(lengths.shape), "b", b=b)
    found = checked_lengths("lengths", lengths, t)
    assert found is not None
    return found
