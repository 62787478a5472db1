r"""Attention scores: how well a query matches a key.

==================  =====================================  ==================================================
``dot``             q · k                                  Luong et al. 2015, section 3.1
``scaled``          q · k / sqrt(d)                        Vaswani et al. 2017, equation 1
``cosine``          q · k / (|q| |k|)                      Graves et al. 2014, equation 6
``bilinear``        q · W k                                Luong et al. 2015, section 3.1 ("general")
``additive``        v · tanh(W q + U k + b)                Bahdanau et al. 2015, appendix A.1.2
``hadamard``        v · (tanh(W q) ∘ tanh(U k))            Kim et al. 2017 (low-rank bilinear pooling)
``concat``          tanh(w · [q; k] + b)                   one unit over both; like Luong et al. 2015 ("concat")
``concat_product``  tanh(w · [q; k; q ∘ k] + b)            the same with the product of both
``trilinear``       w · [q; k; q ∘ k]                      Seo et al. 2017, equation 1
==================  =====================================  ==================================================

Every score takes queries ``... t d_query`` and keys ``... s d_keys`` and returns ``... t s``. Time O(t s d) and memory
O(t s), except ``additive``, which stores O(t s d) up to :data:`MOST_PAIRS` values and recomputes them in the backward
pass above that. The part that depends only on the keys is computed once (:meth:`AttentionScore.prepare`) for all later
queries (:meth:`AttentionScore.compare`). Knows nothing of masks: see :mod:`catena.attention.base`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from catena.errors import ShapeError
from catena.registry import Registry

SCORES: Registry[type[AttentionScore]] = Registry("attention score")

MOST_PAIRS = 2**27
"""The maximum number of values that ``additive`` stores for pairs of queries and keys."""


class AttentionScore(nn.Module, ABC):
    """Abstract score of every pair of a query and a key.

    Args:
        d_query: size of a query.
        d_keys: size of a key.
        d: size of the space that both are projected to, in scores that have one.
    """

    @abstractmethod
    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        """``d`` is the size of the space that both are projected to, in scores that have one."""
        super().__init__()

    @abstractmethod
    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        """The part of the score that depends only on the keys."""

    @abstractmethod
    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        """``scores[..., i, j]`` is the score of query ``i`` and the key prepared at ``j``."""

    def forward(
        self, query: Float[Tensor, "*batch t d_query"], keys: Float[Tensor, "*batch s d_keys"]
    ) -> Float[Tensor, "*batch t s"]:
        """``scores[..., i, j]`` is the score of query ``i`` and key ``j``."""
        return self.compare(query, self.prepare(keys))


def build_score(name: str, d_query: int, d_keys: int, d: int | None = None) -> AttentionScore:
    """The score of this name for queries and keys of these sizes; ``d`` is ``d_query`` if omitted.

    Args:
        name: one of :data:`SCORES`, such as ``dot`` or ``additive``.
        d_query: size of a query.
        d_keys: size of a key.
        d: size of the space that both are projected to; ``d_query`` if None.
    """
    return SCORES[name](d_query, d_keys, d or d_query)


def _must_agree(name: str, d_query: int, d_keys: int) -> None:
    if d_query != d_keys:
        raise ShapeError(
            f"d_keys must be d_query = {d_query} for the {name} score, got {d_keys}. Make them equal, or use "
            "bilinear, additive, hadamard or concat."
        )


@SCORES.register("dot")
class DotScore(AttentionScore):
    """The dot product q · k."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        _must_agree("dot", d_query, d_keys)

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return keys

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return query @ prepared.transpose(-2, -1)


@SCORES.register("scaled")
class ScaledDotScore(AttentionScore):
    """The scaled dot product q · k / sqrt(d), which keeps variance 1 for independent unit features of any size."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        _must_agree("scaled", d_query, d_keys)
        self.scale = 1 / math.sqrt(d_query)

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return keys

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return (query * self.scale) @ prepared.transpose(-2, -1)


@SCORES.register("cosine")
class CosineScore(AttentionScore):
    """The cosine of the angle between query and key; 0 if either is the zero vector."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        _must_agree("cosine", d_query, d_keys)

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return F.normalize(keys, dim=-1)

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return F.normalize(query, dim=-1) @ prepared.transpose(-2, -1)


@SCORES.register("bilinear")
class BilinearScore(AttentionScore):
    """The bilinear form q · W k."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        self.keys = nn.Linear(d_keys, d_query, bias=False)

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return self.keys(keys)

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return query @ prepared.transpose(-2, -1)


@SCORES.register("additive")
class AdditiveScore(AttentionScore):
    """The additive score v · tanh(W q + U k + b)."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        self.query = nn.Linear(d_query, d)
        self.keys = nn.Linear(d_keys, d, bias=False)
        self.weight = nn.Parameter(_one_output(d))

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return self.keys(keys)

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        mapped = self.query(query)
        of_one_query = prepared.numel()
        if mapped.shape[-2] * of_one_query <= MOST_PAIRS:
            return self._of_pairs(mapped, prepared)
        blocks = mapped.split(max(1, MOST_PAIRS // of_one_query), dim=-2)
        return torch.cat([self._again(block, prepared) for block in blocks], dim=-2)

    def _again(self, mapped: Float[Tensor, "*batch t d"], prepared: Float[Tensor, "*batch s d"]) -> Tensor:
        return checkpoint(self._of_pairs, mapped, prepared, use_reentrant=False, preserve_rng_state=False)

    def _of_pairs(self, mapped: Float[Tensor, "*batch t d"], prepared: Float[Tensor, "*batch s d"]) -> Tensor:
        return torch.tanh(mapped[..., :, None, :] + prepared[..., None, :, :]) @ self.weight


@SCORES.register("hadamard")
class HadamardScore(AttentionScore):
    """v · (tanh(W q) ∘ tanh(U k)), a bilinear score of rank d with squashed factors."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        self.query = nn.Linear(d_query, d, bias=False)
        self.keys = nn.Linear(d_keys, d, bias=False)
        self.weight = nn.Parameter(_one_output(d))

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return torch.tanh(self.keys(keys))

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        left = torch.tanh(self.query(query)) * self.weight
        return left @ prepared.transpose(-2, -1)


@SCORES.register("concat")
class ConcatScore(AttentionScore):
    """tanh(w · [q; k] + b), between -1 and 1, so no key gets more than e² ≈ 7.4 times the weight of another."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        self.weight = nn.Parameter(_one_output(d_query + d_keys))
        self.bias = nn.Parameter(torch.zeros(()))
        self.d_query = d_query

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return (keys @ self.weight[self.d_query :] + self.bias)[..., None]

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return torch.tanh((query @ self.weight[: self.d_query])[..., None] + prepared.transpose(-2, -1))


@SCORES.register("concat_product")
class ConcatProductScore(AttentionScore):
    """tanh(w · [q; k; q ∘ k] + b), as ``concat`` with the products of matching features."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        _must_agree("concat_product", d_query, d_keys)
        self.weight = nn.Parameter(_one_output(3 * d_query))
        self.bias = nn.Parameter(torch.zeros(()))

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return _prepare_products(keys, self.weight, self.bias)

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return torch.tanh(_compare_products(query, prepared, self.weight))


@SCORES.register("trilinear")
class TrilinearScore(AttentionScore):
    """w · [q; k; q ∘ k], the score of the attention flow, without bounds."""

    def __init__(self, d_query: int, d_keys: int, d: int) -> None:
        super().__init__(d_query, d_keys, d)
        _must_agree("trilinear", d_query, d_keys)
        self.weight = nn.Parameter(_one_output(3 * d_query))

    def prepare(self, keys: Float[Tensor, "*batch s d_keys"]) -> Float[Tensor, "*batch s d_prepared"]:
        return _prepare_products(keys, self.weight, 0.0)

    def compare(
        self, query: Float[Tensor, "*batch t d_query"], prepared: Float[Tensor, "*batch s d_prepared"]
    ) -> Float[Tensor, "*batch t s"]:
        return _compare_products(query, prepared, self.weight)


def _prepare_products(
    keys: Float[Tensor, "*batch s d"], weight: Float[Tensor, " d3"], bias: Float[Tensor, ""] | float
) -> Float[Tensor, "*batch s d_prepared"]:
    """The keys times their weights in the products, and the terms of the keys as the last feature."""
    _, of_key, of_product = weight.chunk(3)
    return torch.cat((keys * of_product, (keys @ of_key + bias)[..., None]), dim=-1)


def _compare_products(
    query: Float[Tensor, "*batch t d"], prepared: Float[Tensor, "*batch s d_prepared"], weight: Float[Tensor, " d3"]
) -> Float[Tensor, "*batch t s"]:
    """w · [q; k; q ∘ k] of each pair, as a matrix product and two vectors."""
    of_query, _, _ = weight.chunk(3)
    products = query @ prepared[..., :-1].transpose(-2, -1)
    return products + prepared[..., None, :, -1] + (query @ of_query)[..., None]


def _one_output(d: int) -> Float[Tensor, "d"]:
    """Initial weights of a projection from ``d`` features to one value, as in ``nn.Linear``."""
    return torch.empty(d).uniform_(-1 / math.sqrt(d), 1 / math.sqrt(d))
