r"""Single-head attention: scores, softmax over the keys that the mask allows, and the weighted sum of the values.

.. math::  a_{ij} = \mathrm{score}(q_i, k_j), \quad w_i = \mathrm{softmax}(a_i), \quad y_i = \sum_j w_{ij} v_j

Bahdanau et al. 2015, section 3.1. Time O(t s d). A query that attends to nothing gets the zero vector, and
no nan reaches any gradient, also not from keys and values that no query may attend to. Knows nothing of heads: see
:mod:`catena.attention.multihead`.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from catena.attention.masks import without_unseen
from catena.attention.scores import AttentionScore, build_score
from catena.numerics import masked_softmax


class AttentionResult(NamedTuple):
    """Output of attention: the weighted sums of the values, and the weights.

    Args:
        context: the weighted sums, ``... t d_values``.
        weights: ``weights[..., i, j]`` is the weight of value ``j`` for query ``i``; rows sum to 1 or to 0.
    """

    context: Tensor
    """``... t d_values``"""
    weights: Tensor
    """``... t s``: ``weights[..., i, j]`` is the weight of value ``j`` for query ``i``; rows sum to 1 or to 0."""


def attend(
    query: Float[Tensor, "*batch t d_query"],
    keys: Float[Tensor, "*batch s d_keys"],
    values: Float[Tensor, "*batch s d_values"],
    mask: Bool[Tensor, "*#batch #t #s"] | None = None,
    score: AttentionScore | None = None,
) -> AttentionResult:
    """The attention of each query to the values, by the scaled dot product or by ``score``.

    Args:
        query: ``... t d_query``.
        keys: ``... s d_keys``.
        values: ``... s d_values``.
        mask: True where a query may attend to a key; everywhere by default.
        score: the score of a query and a key; :class:`ScaledDotScore` by default.
    """
    score = score or build_score("scaled", query.shape[-1], keys.shape[-1])
    shared = keys is values
    values = without_unseen(values, mask)
    keys = values if shared else without_unseen(keys, mask)
    weights = masked_softmax(score(query, keys), mask)
    return AttentionResult(weights @ values, weights)
