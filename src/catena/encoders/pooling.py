r"""Poolings: the vectors of all positions reduced to one.

==============  ============================================================================================
``last``        h_n
``first_last``  [h_1; h_n]
``ends``        the last state of each direction of a bidirectional encoder: h_n of the first half of the
                features, h_1 of the second half
``max``         the maximum of each feature (Collobert et al. 2011, section 3.2.2)
``min``         the minimum of each feature
``mean``        (h_1 + … + h_n) / n
``attention``   Σ a_i h_i, a = softmax(v · tanh(W h_i + b)): additive attention with a learned query
                (Yang et al. 2016, equations 5 to 7)
``k_max``       the k largest values of each feature in the order of the text, zeros if there are fewer
                (Kalchbrenner et al. 2014, section 3.2)
==============  ============================================================================================

They apply to the states of an encoder and to the outputs of each step, such as scores of labels. Padding does
not change the result, and a sequence of length 0 gives zeros. Time O(t d); attention O(t d d_attention), k-max O(t
d log t).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.encoders.base import read_lengths
from catena.errors import ShapeError
from catena.numerics import NEG_INF, masked_softmax
from catena.shapes import mask_from_lengths, match_shape


class Pooling(nn.Module, ABC):
    """Abstract map of ``b t d`` to ``b d_out``; subclasses set the sizes and define :meth:`pool`.

    Args:
        d_in: size of the vectors.
        d_out: size of the pooled vector.
    """

    d_in: int
    d_out: int

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.d_in, self.d_out = d_in, d_out

    def forward(self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"]) -> Float[Tensor, "b d_out"]:
        """Pool each sequence; its first ``lengths[i]`` positions are real."""
        b, t, _ = match_shape("the input of the pooling", tuple(states.shape), "b t d", d=self.d_in).values()
        lengths = read_lengths(lengths, b, t).to(states.device)
        if t == 0:
            return states.new_zeros(b, self.d_out)
        mask = mask_from_lengths(lengths, t)
        states = states.masked_fill(~mask[..., None], 0.0)
        return self.pool(states, lengths, mask).masked_fill((lengths == 0)[:, None], 0.0)

    @abstractmethod
    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        """The implementation: ``states`` are 0 at padding, and rows of length 0 are dropped afterwards."""


class LastPooling(Pooling):
    """Last-state pooling: h_n.

    Args:
        d_in: size of the vectors.
    """

    def __init__(self, d_in: int) -> None:
        super().__init__(d_in, d_in)

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        return _last(states, lengths)


class FirstLastPooling(Pooling):
    """Pooling by the first and the last state, [h_1; h_n].

    Args:
        d_in: size of the vectors.
    """

    def __init__(self, d_in: int) -> None:
        super().__init__(d_in, 2 * d_in)

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        return torch.cat((states[:, 0], _last(states, lengths)), dim=-1)


class EndsPooling(Pooling):
    """Pooling by the last state of each direction of a bidirectional encoder.

    The last state of the backward direction is at the first position.

    Args:
        d_in: size of the vectors, the two directions one after the other.
    """

    def __init__(self, d_in: int) -> None:
        super().__init__(d_in, d_in)
        if d_in % 2:
            raise ShapeError(
                f"d_in must be even for ends pooling, which needs two directions, got {d_in}. "
                "Use a bidirectional encoder, or choose last or first_last."
            )

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        half = self.d_in // 2
        return torch.cat((_last(states[..., :half], lengths), states[:, 0, half:]), dim=-1)


class MaxPooling(Pooling):
    """Max pooling: the maximum of each feature over time.

    Args:
        d_in: size of the vectors.
    """

    def __init__(self, d_in: int) -> None:
        super().__init__(d_in, d_in)

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        return states.masked_fill(~mask[..., None], NEG_INF).amax(dim=1)


class MinPooling(Pooling):
    """Min pooling: the minimum of each feature over time.

    Args:
        d_in: size of the vectors.
    """

    def __init__(self, d_in: int) -> None:
        super().__init__(d_in, d_in)

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        return states.masked_fill(~mask[..., None], -NEG_INF).amin(dim=1)


class MeanPooling(Pooling):
    """Mean pooling: (h_1 + … + h_n) / n.

    Args:
        d_in: size of the vectors.
    """

    def __init__(self, d_in: int) -> None:
        super().__init__(d_in, d_in)

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        return states.sum(dim=1) / lengths.clamp(min=1)[:, None].to(states.dtype)


class AttentionPooling(Pooling):
    """Attention pooling: Σ a_i h_i, with a = softmax(v · tanh(W h_i + b)), where b projects the learned query.

    Args:
        d_in: size of the vectors.
        d_attention: size of the hidden layer that scores a position.
    """

    def __init__(self, d_in: int, d_attention: int) -> None:
        super().__init__(d_in, d_in)
        self.keys = nn.Linear(d_in, d_attention)
        self.score = nn.Linear(d_attention, 1, bias=False)

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        return (self.weights(states, mask)[:, None, :] @ states)[:, 0]

    def weights(self, states: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """The weight of each position: 0 at padding, sums to 1."""
        return masked_softmax(self.score(torch.tanh(self.keys(states)))[..., 0], mask)


class KMaxPooling(Pooling):
    """k-max pooling: the ``k`` largest values of each feature in the order of positions, ``k`` blocks of size ``d_in``.

    Args:
        d_in: size of the vectors.
        k: number of values for each feature.
    """

    def __init__(self, d_in: int, k: int) -> None:
        super().__init__(d_in, k * d_in)
        self.k = k

    def pool(
        self, states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b d_out"]:
        k = min(self.k, states.shape[1])
        # If fewer than k are real, padding is taken, too; it is last, and its value is 0.
        # Of ties the earliest are kept, on every device and with any padding: topk does not guarantee an order.
        ranked = states.masked_fill(~mask[..., None], NEG_INF).sort(dim=1, descending=True, stable=True).indices
        best = ranked[:, :k].sort(dim=1).values
        kept = states.gather(1, best)
        return nn.functional.pad(kept, (0, 0, 0, self.k - k)).flatten(1)


def _last(states: Float[Tensor, "b t d"], lengths: Int[Tensor, "b"]) -> Float[Tensor, "b d"]:
    ends = (lengths - 1).clamp(min=0)
    return states[torch.arange(len(states), device=states.device), ends]
