r"""Cross-attention: a decoder attends to a source, with any score, any weighting, one head or several.

With one head, queries and states are compared as they are, and the context is the weighted sum of the states
(Bahdanau et al. 2015; Luong et al. 2015). With several, each head has its own projections, and one more projection
combines the contexts (Vaswani et al. 2017, section 3.2.2), here with any score:

.. math::  w_i = \mathrm{focus}(\mathrm{score}_i(W^Q_i q, W^K_i k)) \qquad y = W^O [w_1 V W^V_1; \dots; w_h V W^V_h]

The parts that depend only on the source are computed once (:meth:`CrossAttention.prepare`). A step costs O(s d) for a
query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.attention.masks import without_unseen
from catena.attention.scores import AttentionScore, build_score
from catena.attention.weighting import AttentionWeighting, SoftAttention
from catena.errors import ConfigError, ShapeError
from catena.shapes import cat_padded, last_real


@dataclass(frozen=True, eq=False, slots=True)
class PreparedKeys:
    """A source prepared for cross-attention: the keys and values of each head, and the mask."""

    keys: tuple[Float[Tensor, "b s d_prepared"], ...]
    values: tuple[Float[Tensor, "b s d_values"], ...]
    mask: Bool[Tensor, "b s"]

    def __len__(self) -> int:
        return len(self.mask)

    def select(self, rows: Int[Tensor, " m"]) -> PreparedKeys:
        """The sources of the given rows."""
        keys, values = (tuple(x[rows] for x in heads) for heads in (self.keys, self.values))
        return PreparedKeys(keys, values, self.mask[rows])

    @staticmethod
    def join(several: Sequence[PreparedKeys]) -> PreparedKeys:
        """Several sources, concatenated and padded to the longest."""
        mask = cat_padded([one.mask for one in several], fill=False)
        s = last_real(mask)
        keys = tuple(cat_padded(heads)[:, :s] for heads in zip(*(one.keys for one in several), strict=True))
        values = tuple(cat_padded(heads)[:, :s] for heads in zip(*(one.values for one in several), strict=True))
        return PreparedKeys(keys, values, mask[:, :s])


class CrossAttentionResult(NamedTuple):
    """Output of cross-attention: context, weights and, if a key was sampled, its log-probability."""

    context: Tensor
    """``b t d_out``, or ``b t s d_out`` if ``apart``."""
    weights: Tensor
    """``b h t s``"""
    log_prob: Tensor | None
    """``b t``: the log-probability of the sampled keys; None if the weighting does not sample."""
    probabilities: Tensor | None = None
    """``b h t s``: what keys were sampled from; None if nothing was sampled."""


class CrossAttention(nn.Module):
    """Cross-attention of queries of size ``d_query`` to states of size ``d_memory``.

    Args:
        d_query: the size of a query.
        d_memory: the size of a source state.
        scores: one for each head; with several, each compares vectors of size ``d_query / n_heads``.
        focus: from scores to weights; :class:`catena.attention.weighting.SoftAttention` by default.
        apart: return all states instead of their weighted sum: ``b t s d_out``. For one head only.
    """

    def __init__(
        self,
        d_query: int,
        d_memory: int,
        scores: Sequence[AttentionScore],
        focus: AttentionWeighting | None = None,
        *,
        apart: bool = False,
    ) -> None:
        super().__init__()
        if apart and len(scores) > 1:
            raise ConfigError(f"scores must have one head if apart = True, got {len(scores)}. Set apart = False.")
        self.apart = apart
        self.n_heads = len(scores)
        self.d_head = _share(d_query, self.n_heads)
        self.scores = nn.ModuleList(scores)
        self.focus = focus or SoftAttention()
        several = self.n_heads > 1
        self.query = nn.Linear(d_query, d_query) if several else None
        self.keys = nn.Linear(d_memory, d_query) if several else None
        self.values = nn.Linear(d_memory, d_query) if several else None
        self.output = nn.Linear(d_query, d_query) if several else None
        self.d_out = d_query if several else d_memory
        for layer in (self.query, self.keys, self.values, self.output):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def prepare(self, memory: Float[Tensor, "b s d_memory"], mask: Bool[Tensor, "b s"] | None = None) -> PreparedKeys:
        """Prepare a source for all later queries; ``mask`` is True where a state is real, everywhere by default."""
        if mask is None:
            mask = torch.ones(memory.shape[:2], dtype=torch.bool, device=memory.device)
        else:
            memory = without_unseen(memory, mask[:, None])
        keys, values = self._heads(self.keys, memory), self._heads(self.values, memory)
        prepared = tuple(cast(AttentionScore, score).prepare(k) for score, k in zip(self.scores, keys, strict=True))
        return PreparedKeys(prepared, values, mask)

    def forward(
        self, query: Float[Tensor, "b t d_query"], keys: PreparedKeys, places: Int[Tensor, "b t"] | None = None
    ) -> CrossAttentionResult:
        """The attention of each query to the source of its row.

        ``places`` is the number of steps before each query: 0, 1, 2 … by default, as for a whole target.
        """
        if places is None:
            places = torch.arange(query.shape[1], device=query.device).expand(query.shape[:2])
        queries = self._heads(self.query, query)
        pairs = zip(self.scores, queries, keys.keys, strict=True)
        each = [cast(AttentionScore, score).compare(q, k) for score, q, k in pairs]
        scores = each[0].unsqueeze(1) if self.n_heads == 1 else torch.stack(each, dim=1)  # b h t s
        weights, log_prob = self.focus(scores, keys.mask, query, places)
        if self.apart:
            values = keys.values[0]
            return CrossAttentionResult(values[:, None].expand(-1, query.shape[1], -1, -1), weights, log_prob)
        if self.output is None:
            return CrossAttentionResult(weights.squeeze(1) @ keys.values[0], weights, log_prob)
        found = [weights[:, i] @ values for i, values in enumerate(keys.values)]
        return CrossAttentionResult(self.output(torch.cat(found, dim=-1)), weights, log_prob)

    def _heads(self, layer: nn.Linear | None, x: Float[Tensor, "b n d"]) -> tuple[Tensor, ...]:
        return (x,) if layer is None else layer(x).split(self.d_head, dim=-1)


def build_cross(
    score: str,
    d_query: int,
    d_memory: int,
    n_heads: int = 1,
    d: int | None = None,
    focus: AttentionWeighting | None = None,
    *,
    apart: bool = False,
) -> CrossAttention:
    """A cross-attention with this score in each head; ``d`` is the inner size of scores that have one."""
    if n_heads == 1:
        return CrossAttention(d_query, d_memory, [build_score(score, d_query, d_memory, d)], focus, apart=apart)
    d_head = _share(d_query, n_heads)
    inner = None if d is None else max(d // n_heads, 1)
    scores = [build_score(score, d_head, d_head, inner) for _ in range(n_heads)]
    return CrossAttention(d_query, d_memory, scores, focus, apart=apart)


def _share(d_query: int, n_heads: int) -> int:
    if d_query % n_heads:
        raise ShapeError(
            f"d_query must be divisible by n_heads = {n_heads}, got {d_query}. Choose another number of heads."
        )
    return d_query // n_heads
