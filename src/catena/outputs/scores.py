r"""Word scores: the dot product with a row of weights, and a bias.

.. math::  s(w, h) = h \cdot W_w + b_w

The rows may be an embedding's (tied weights, Press & Wolf 2017). Forbidden words score exactly -inf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from catena.errors import ConfigError, DataError, ShapeError
from catena.kernels.softmax.reference import wide
from catena.numerics import NEG_INF


class WordScores(nn.Module):
    """Scores of ``v`` words for vectors of ``d_in`` features.

    Args:
        d_in: the size of an input vector.
        v: the number of words.
        bias: whether each word has a bias.
        tied: the rows to use, of shape ``(v, d_in)``; new rows if omitted.
        forbidden: words whose score is -inf.
    """

    forbidden: Tensor | None
    _kept: tuple[Tensor | None, object, Tensor] | None = None
    """A cache of the effective bias without gradients, and its sources, for the steps of a search."""

    def __init__(
        self,
        d_in: int,
        v: int,
        bias: bool = True,
        tied: nn.Parameter | None = None,
        forbidden: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.weight = tied_rows(tied, v, d_in) if tied is not None else nn.Parameter(new_weight_rows(v, d_in))
        self.bias = nn.Parameter(torch.zeros(v)) if bias else None
        check_forbidden(forbidden, v)
        self.register_buffer("forbidden", forbidden_mask(forbidden, v) if forbidden else None, persistent=False)

    def train(self, mode: bool = True) -> Any:
        """Drop the cached bias when the mode changes: fused optimizers change weights unnoticed."""
        if mode != self.training:
            self._kept = None
        return super().train(mode)

    @property
    def effective_bias(self) -> Float[Tensor, " v"] | None:
        """The bias, with -inf for forbidden words; None if there is neither."""
        if self.forbidden is None:
            return self.bias
        bias, weight = self.bias, self.weight
        if torch.is_grad_enabled() or (bias is not None and bias.is_inference()):
            return self._with_forbidden()
        made_of = weight.dtype, weight.device, None if bias is None else (bias.data_ptr(), bias._version)
        kept = self._kept
        if kept is None or kept[0] is not bias or kept[1] != made_of:
            self._kept = kept = bias, made_of, self._with_forbidden()
        return kept[2]

    def _with_forbidden(self) -> Float[Tensor, " v"]:
        assert self.forbidden is not None
        bias = torch.zeros(len(self.forbidden), dtype=self.weight.dtype, device=self.weight.device)
        return (bias if self.bias is None else self.bias).masked_fill(self.forbidden, NEG_INF)

    def shared(
        self, hidden: Float[Tensor, "n d_in"], targets: Int[Tensor, " n"], ids: Int[Tensor, " c"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n c"]]:
        """The score of each row's target, and the scores of words common to all rows. Time O(n c d)."""
        n, together = len(targets), torch.cat((targets, ids))
        rows, bias = self.rows(together), self.effective_bias
        of_targets = (hidden * rows[:n]).sum(1, dtype=rows.dtype)
        others = functional.linear(hidden, rows[n:].to(hidden.dtype)).to(rows.dtype)
        if bias is None:
            return of_targets, others
        biases = bias.to(rows.dtype)[together]
        return of_targets + biases[:n], others + biases[n:]

    def each(self, hidden: Float[Tensor, "n d_in"], ids: Int[Tensor, "n c"]) -> Float[Tensor, "n c"]:
        """The scores of different words for each row."""
        rows, bias = self.rows(ids), self.effective_bias
        scores = (rows * hidden[:, None]).sum(-1)
        return scores if bias is None else scores + bias.to(rows.dtype)[ids]

    def rows(self, ids: Int[Tensor, "*ids"]) -> Float[Tensor, "*ids d_in"]:
        """The weights of these words, in float32 at least, so that the gradients of frequent words are summed exactly.

        (The gradient of an embedding is several times faster than the gradient of indexing.)
        """
        return functional.embedding(ids, self.weight.to(wide(self.weight.dtype)))


def new_weight_rows(v: int, d: int) -> Float[Tensor, "v d"]:
    """Initial weights, uniform in ±1/sqrt(d), as in torch's linear layers."""
    return torch.empty(v, d).uniform_(-(d**-0.5), d**-0.5)


def tied_rows(tied: nn.Parameter, v: int, d_in: int) -> nn.Parameter:
    """The given weights; raises ShapeError if their shape does not fit."""
    if tuple(tied.shape) != (v, d_in):
        raise ShapeError(
            f"tied must have the shape (v, d_in) = ({v}, {d_in}), got {tuple(tied.shape)}. Give the embedding and the "
            "vectors that reach the output layer the same size, or do not tie them."
        )
    return tied


def check_forbidden(forbidden: Sequence[int], v: int) -> None:
    """Raise DataError for ids out of range, and ConfigError if all ids are forbidden."""
    outside = [i for i in forbidden if not 0 <= i < v]
    if outside:
        raise DataError(f"forbidden must be ids from 0 to {v - 1}, got {outside[0]}. Remove it.")
    if v < 1 or len(set(forbidden)) == v:
        raise ConfigError(
            f"forbidden must leave at least one of v = {v} ids, got {len(forbidden)} ids. Allow one of them."
        )


def forbidden_mask(forbidden: Sequence[int], v: int) -> Tensor:
    """True at the forbidden ids."""
    mask = torch.zeros(v, dtype=torch.bool)
    mask[list(forbidden)] = True
    return mask
