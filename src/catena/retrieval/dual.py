r"""Dual encoders: a context and a response become one vector each, and their product is the score.

.. math::  s(c, r) = c^\top M r \qquad s(c, r) = c^\top r \qquad s(c, r) = \frac{c^\top r}{\tau \|c\| \|r\|}

Lowe et al. 2015 (bilinear); Henderson et al. 2017 (dot, the other responses of a batch as negatives). The parameters
of the match are applied to the context, the query, so that the score of any pair is the dot product of query and key
and an index of keys can be searched by dot products.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.embeddings.table import Embedding
from catena.encoders.build import build_encoder, build_pooling
from catena.encoders.config import PoolingConfig
from catena.encoders.init import orthogonal_
from catena.numerics import NEG_INF
from catena.retrieval.config import DualEncoderConfig, NoEncoderConfig
from catena.shapes import mask_from_lengths


class IdfWeightedMean(nn.Module):
    """Weighted mean of vectors. Each token has a trainable weight, initialized with its idf."""

    def __init__(self, weights: Float[Tensor, " v"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weights.clone())

    def forward(
        self, states: Float[Tensor, "b t d"], ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b d"]:
        real = mask_from_lengths(lengths, ids.shape[1])
        weights = self.weight[ids].masked_fill(~real, 0.0)
        total = weights.abs().sum(1, keepdim=True).clamp(min=1e-6)
        return (weights[:, None] @ states)[:, 0] / total


class TextTower(nn.Module):
    """Map token vectors to the vector of a text, by an optional encoder and a pooling."""

    def __init__(self, settings: DualEncoderConfig, d_in: int, rarity: Float[Tensor, " v"]) -> None:
        super().__init__()
        self.encoder: nn.Module | None = None
        if not isinstance(settings.encoder, NoEncoderConfig):
            encoder = build_encoder(settings.encoder, d_in)
            self.encoder, d_in = encoder, encoder.d_out
        self.by_weight = settings.pooling.kind == "idf"
        if settings.pooling.kind == "idf":
            self.pooling: nn.Module = IdfWeightedMean(rarity)
            self.d_out = d_in
        else:
            how = settings.pooling
            pooling = build_pooling(PoolingConfig(kind=how.kind, k=how.k, d_attention=how.d_attention), d_in)
            self.pooling, self.d_out = pooling, pooling.d_out

    def forward(
        self, vectors: Float[Tensor, "b t d"], ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]
    ) -> Float[Tensor, "b d_out"]:
        states = vectors if self.encoder is None else self.encoder(vectors, lengths)
        return self.pooling(states, ids, lengths) if self.by_weight else self.pooling(states, lengths)


class DualEncoder(nn.Module):
    """A model that computes queries of contexts and keys of responses.

    Args:
        settings: the config.
        embedding: ids to vectors, for both sides.
        rarity: the idf of each id, the initial weights of idf pooling.
    """

    def __init__(self, settings: DualEncoderConfig, embedding: Embedding, rarity: Float[Tensor, " v"]) -> None:
        super().__init__()
        self.embedding, self.match, self.dropout = embedding, settings.match, settings.dropout_hidden
        self.context = TextTower(settings, embedding.d_out, rarity)
        self.response = self.context if settings.shared else TextTower(settings, embedding.d_out, rarity)
        d = self.context.d_out
        self.matrix = nn.Parameter(torch.eye(d)) if settings.match == "bilinear" else None
        self.maps = None
        if settings.projection is not None:
            maps = [nn.Linear(d, settings.projection, bias=False) for _ in range(2)]
            for one in maps:
                orthogonal_(one.weight)
            maps[1].weight.data.copy_(maps[0].weight.data)  # initially the match of the unprojected vectors
            self.maps, d = nn.ModuleList(maps), settings.projection
        self.log_scale = None
        if settings.match == "cosine":
            self.log_scale = nn.Parameter(torch.tensor(-math.log(settings.temperature)))
        self.d = d

    def queries(self, ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the vectors of contexts, with the parameters of the match applied."""
        found = self._vector(self.context, 0, ids, lengths)
        if self.matrix is not None:
            return found @ self.matrix
        if self.log_scale is not None:
            return F.normalize(found, dim=-1) * self.log_scale.exp()
        return found

    def keys(self, ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the vectors of responses."""
        found = self._vector(self.response, 1, ids, lengths)
        return F.normalize(found, dim=-1) if self.match == "cosine" else found

    def _vector(self, side: TextTower, which: int, ids: Tensor, lengths: Tensor) -> Tensor:
        found = F.dropout(side(self.embedding(ids), ids, lengths), self.dropout, self.training)
        return found if self.maps is None else self.maps[which](found)


def softmax_loss(
    scores: Float[Tensor, "n m"], allowed: Bool[Tensor, "n m"], symmetric: bool = True
) -> Float[Tensor, ""]:
    """Return the mean softmax loss of in-batch negatives. The correct response of row i is in column i.

    Args:
        scores: ``scores[i, j]`` is the score of context i and response j.
        allowed: False if column j is also correct for row i, or equal to the correct one, and so is not a negative;
            the diagonal counts as allowed.
        symmetric: also classify the context of each response among all contexts.
    """
    n = len(scores)
    right = torch.arange(n, device=scores.device)
    own = torch.zeros_like(allowed)
    own[right, right] = True
    scores = scores.masked_fill(~(allowed | own), NEG_INF)
    loss = F.cross_entropy(scores, right)
    return (loss + F.cross_entropy(scores[:, :n].T, right)) / 2 if symmetric else loss


def binary_loss(scores: Float[Tensor, " n"], labels: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """Return the mean over pairs of -y ln p - (1 - y) ln(1 - p) with p = sigmoid(score)."""
    return F.binary_cross_entropy_with_logits(scores, labels)
