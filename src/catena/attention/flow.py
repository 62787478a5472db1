r"""Attention flow: each position of a text attends to a question, and the question to the text.

.. math::
    S_{tj} = w \cdot [h_t; u_j; h_t \circ u_j], \quad
    a_t = \mathrm{softmax}_j(S_{tj}), \quad \tilde u_t = \sum_j a_{tj} u_j, \quad
    b = \mathrm{softmax}_t(\max_j S_{tj}), \quad \tilde h = \sum_t b_t h_t

.. math::  g_t = [h_t; \tilde u_t; h_t \circ \tilde u_t; h_t \circ \tilde h]

Seo et al. 2017, section 2, layer 4. S is a matrix product and two vectors, so the tensor of all triples
:math:`[h; u; h \circ u]` is never stored: time O(t s d), memory O(t s + t d).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from catena.attention.scores import AttentionScore, build_score
from catena.numerics import NEG_INF, masked_softmax
from catena.shapes import check_mask


class AttentionFlowResult(NamedTuple):
    """Output of an attention flow: the features of each position of the context, and both attentions."""

    features: Tensor
    """``b t d_out``: :math:`g_t`, 0 at padding."""
    query_weights: Tensor
    """``b t s``: ``[i, t, j]`` is the weight of word j of the question for position t; rows sum to 1, or to 0."""
    context_weights: Tensor
    """``b t``: the weight of each position of the context in :math:`\\tilde h`; rows sum to 1."""


class AttentionFlow(nn.Module):
    """Attention of a context to a query and back.

    Args:
        d: the size of the vectors of both.
        score: the score of a context vector and a query vector; trilinear by default.
        context_to_query: whether positions attend to the query; otherwise :math:`\\tilde u_t` is the mean of the
            query's vectors (the ablation of Seo et al. 2017, table 1b).
        query_to_context: whether the query attends to the context; otherwise the last part of :math:`g_t` is left
            out.
    """

    def __init__(
        self,
        d: int,
        score: AttentionScore | None = None,
        *,
        context_to_query: bool = True,
        query_to_context: bool = True,
    ) -> None:
        super().__init__()
        self.d = d
        self.score = score or build_score("trilinear", d, d)
        self.context_to_query = context_to_query
        self.query_to_context = query_to_context
        self.d_out = (4 if query_to_context else 3) * d

    def forward(
        self,
        context: Float[Tensor, "b t d"],
        query: Float[Tensor, "b s d"],
        context_mask: Bool[Tensor, "b t"],
        query_mask: Bool[Tensor, "b s"],
    ) -> AttentionFlowResult:
        """The features of each position of the context.

        Args:
            context: the vectors of the text.
            query: the vectors of the question.
            context_mask: True at real positions of the text.
            query_mask: True at real positions of the question.
        """
        check_mask(context_mask)
        check_mask(query_mask)
        context = context.masked_fill(~context_mask[..., None], 0.0)
        query = query.masked_fill(~query_mask[..., None], 0.0)
        scores = self.score(context, query)
        to_query = self._query_weights(scores, query_mask, context_mask)
        best = scores.masked_fill(~query_mask[:, None], NEG_INF).amax(-1)
        to_context = masked_softmax(best, context_mask)
        attended = to_query.to(query.dtype) @ query
        parts = [context, attended, context * attended]
        if self.query_to_context:
            summary = to_context.to(context.dtype)[:, None] @ context  # b 1 d
            parts.append(context * summary)
        return AttentionFlowResult(torch.cat(parts, dim=-1), to_query, to_context)

    def _query_weights(
        self, scores: Float[Tensor, "b t s"], query_mask: Bool[Tensor, "b s"], context_mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t s"]:
        if not self.context_to_query:
            scores = torch.zeros_like(scores)
        return masked_softmax(scores, query_mask[:, None]).masked_fill(~context_mask[..., None], 0.0)

    def extra_repr(self) -> str:
        return f"{self.d}, context_to_query={self.context_to_query}, query_to_context={self.query_to_context}"
