"""The interface of encoders: a sequence of vectors in, a sequence of vectors out.

Every encoder keeps two promises, which ``tests/laws/encoder_laws.py`` checks: the outputs at padded positions are
exactly 0, and the values at padded positions of the input, even nan, do not change the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.shapes import check_tensor, checked_lengths, mask_from_lengths, match_shape


class Encoder(nn.Module, ABC):
    """Abstract map of ``b t d_in`` to ``b t d_out``; subclasses set the sizes and define :meth:`encode`."""

    d_in: int
    d_out: int

    def forward(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"] | None = None
    ) -> Float[Tensor, "b t d_out"]:
        """Encode each sequence of ``x``.

        Args:
            x: ``b t d_in``.
            lengths: the first ``lengths[i]`` positions of row ``i`` are real; all by default.

        Returns:
            ``b t d_out``, 0 at padding.
        """
        b, t, _ = match_shape("the input of the encoder", tuple(x.shape), "b t d_in", d_in=self.d_in).values()
        if t == 0:
            return x.new_zeros(b, 0, self.d_out)
        lengths = read_lengths(lengths, b, t).to(x.device)
        mask = mask_from_lengths(lengths, t)
        padded = ~mask[..., None]
        return self.encode(x.masked_fill(padded, 0.0), lengths, mask).masked_fill(padded, 0.0)

    def self_attention(self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"]) -> list[Float[Tensor, "b h t t"]]:
        """The self-attention weights of each layer; an empty list for encoders without self-attention.

        ``[i, head, t, s]`` is the weight of position ``s`` for query ``t``, 0 at padding.
        """
        return []

    @abstractmethod
    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        """The implementation: ``x`` is 0 at padded positions, and the output there is discarded."""


def read_lengths(lengths: Tensor | None, b: int, t: int) -> Int[Tensor, "b"]:
    """The lengths of ``b`` sequences of ``t`` positions as int64; ``t`` for all if omitted.

    Raises :class:`ShapeError` if the number of lengths is not ``b``, or if a length is above ``t`` or below 0.
    """
    if lengths is None:
        return torch.full((b,), t)
    check_tensor("lengths", lengths)
    match_shape("lengths", tuple(lengths.shape), "b", b=b)
    found = checked_lengths("lengths", lengths, t)
    assert found is not None
    return found
