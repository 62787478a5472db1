r"""Multi-head attention.

.. math::  \mathrm{head}_i = \mathrm{softmax}\left(\frac{Q W^Q_i (K W^K_i)^\top}{\sqrt{d / h}}\right) V W^V_i
           \qquad y = [\mathrm{head}_1; \dots; \mathrm{head}_h] W^O

Vaswani et al. 2017, section 3.2. Time O((t + s) d² + t s d). Runs on torch's fused attention
(:mod:`catena.attention.fused`); the weights are computed only if you call a method that returns them. With fewer
key-value heads than query heads, neighboring heads use the same keys (Ainslie et al. 2023): less memory and time.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.attention.base import AttentionResult
from catena.attention.cache import KeyValueCache
from catena.attention.fused import fused_attention
from catena.attention.masks import check_attention_mask, without_unseen
from catena.errors import ShapeError
from catena.numerics import masked_softmax
from catena.shapes import match_shape


class MultiHeadAttention(nn.Module):
    """Multi-head attention of queries of size ``d`` to keys of size ``d_keys``.

    Args:
        d: the size of queries and outputs, divisible by ``n_heads``.
        n_heads: the number of query heads.
        d_keys: the size of keys and values; ``d`` by default.
        n_kv_heads: the number of heads of the keys and values, a divisor of ``n_heads``; ``n_heads`` by default.
        dropout: the probability of dropping a weight in training.
        rotate: applied to queries and keys of each head, for rotary positions.
    """

    def __init__(
        self,
        d: int,
        n_heads: int,
        *,
        d_keys: int | None = None,
        n_kv_heads: int | None = None,
        dropout: float = 0.0,
        rotate: nn.Module | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_kv_heads or n_heads
        if d % n_heads:
            raise ShapeError(f"d must be divisible by n_heads = {n_heads}, got {d}. Choose another d or n_heads.")
        if n_heads % n_kv_heads:
            raise ShapeError(
                f"n_heads must be divisible by n_kv_heads = {n_kv_heads}, got {n_heads}. Choose a divisor of n_heads."
            )
        self.d, self.n_heads, self.n_kv_heads, self.dropout = d, n_heads, n_kv_heads, dropout
        self.d_head, self.d_keys = d // n_heads, d_keys or d
        self.query = nn.Linear(d, d)
        self.keys = nn.Linear(self.d_keys, n_kv_heads * self.d_head)
        self.values = nn.Linear(self.d_keys, n_kv_heads * self.d_head)
        self.output = nn.Linear(d, d)
        self.rotate = rotate
        self._joined: tuple[tuple[int, ...], Tensor, Tensor] | None = None
        for layer in (self.query, self.keys, self.values, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        # A softmax ignores a constant added to all scores of a query, so a bias of keys without rotation does not
        # train: its gradient is rounding noise, which Adam would turn into full steps, in bfloat16 without end.
        self.keys.bias.requires_grad_(rotate is not None)

    def train(self, mode: bool = True) -> Any:
        """Drop the concatenated projections when the mode changes: fused optimizers change weights unnoticed."""
        if mode != self.training:
            self._joined = None
        return super().train(mode)

    def forward(
        self,
        query: Float[Tensor, "b t d"],
        keys: Float[Tensor, "b s d_keys"],
        mask: Bool[Tensor, "#b #t #s"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """The attention of each query.

        Args:
            query: ``b t d``.
            keys: ``b s d_keys``, used as keys and values.
            mask: ``mask[i, t, s]`` is True where query ``t`` may attend to key ``s``; axes of size 1 are broadcast.

        Returns:
            ``b t d``. A query that attends to nothing gets the bias of the output projection.
        """
        self._check(query, keys, mask)
        q, k, v = self._heads(query, without_unseen(keys, mask))
        if mask is None:
            return self._join(self._attend(q, k, v))
        # Backends differ on a row without keys: unmask it, and drop its output.
        blind = ~mask.any(-1, keepdim=True)
        found = self._attend(q, k, v, (mask | blind)[:, None])
        return self._join(found.masked_fill(blind[:, None], 0.0))

    def packed(
        self, x: Float[Tensor, "1 n d"], places: Int[Tensor, " n"], mask: Bool[Tensor, "b 1 t"]
    ) -> Float[Tensor, "1 n d"]:
        """Self-attention, without gradients, of packed sequences: projections are of real positions only.

        Args:
            x: the real positions of all sequences, one after another.
            places: their indices among all ``b t`` positions.
            mask: True at the real positions.
        """
        b, _, t = mask.shape
        heads = F.linear(x[0], *self._joined_maps())
        spread = heads.new_zeros(b * t, heads.shape[1]).index_copy_(0, places, heads).view(b, t, heads.shape[1])
        q, k, v = spread.unflatten(-1, (-1, self.d_head)).transpose(1, 2).split(
            (self.n_heads, self.n_kv_heads, self.n_kv_heads), dim=1
        )  # fmt: skip
        if self.rotate is not None:
            q, k = self.rotate(q, 0), self.rotate(k, 0)
        found = self._attend(q, k, v, mask[:, None]).transpose(1, 2).flatten(-2)
        return self.output(found.flatten(0, 1)[places])[None]

    def causal(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """Causal self-attention, in one fused call that builds no mask."""
        q, k, v = self._heads(x, x)
        return self._join(self._attend(q, k, v, causal=True))

    def continued(
        self, x: Float[Tensor, "b t d"], cache: KeyValueCache, layer: int, mask: Bool[Tensor, "#b t s"] | None
    ) -> Float[Tensor, "b t d"]:
        """As :meth:`causal`, for positions that follow those of a cache.

        Args:
            x: the new positions.
            cache: grown by the ``t`` positions; their keys and values are written into it. No gradient flows into
                the past.
            layer: the layer's index in the cache.
            mask: the cache's own mask, computed once for all layers.
        """
        t = x.shape[1]
        start = cache.used - t if cache.begins is None else cache.used - t - cache.begins
        with_gradient = torch.is_grad_enabled()
        q, k, v = self._heads(x, x, start) if with_gradient else self._heads_at_once(x, start)
        cache.write(layer, k.detach(), v.detach())
        whole = t == cache.used
        if not (with_gradient and whole):
            past_k, past_v = cache.read(layer)
            if with_gradient:
                k = torch.cat((past_k[:, :, :-t], k), dim=2)
                v = torch.cat((past_v[:, :, :-t], v), dim=2)
            else:
                k, v = past_k, past_v
        if whole and t > 1 and cache.begins is None:
            return self._join(self._attend(q, k, v, causal=True))
        if t == 1 and mask is None and self.n_kv_heads < self.n_heads:
            # Heads that use the same keys are treated as more queries of one head.
            shared = q.view(len(q), self.n_kv_heads, self.n_heads // self.n_kv_heads, self.d_head)
            return self._join(F.scaled_dot_product_attention(shared, k, v).view_as(q))
        return self._join(self._attend(q, k, v, None if mask is None else mask[:, None]))

    def project(self, keys: Float[Tensor, "b s d_keys"]) -> tuple[Float[Tensor, "b g s d_head"], ...]:
        """The keys and values of each head, to be computed once for a source that many queries attend to."""
        projected = self.keys(keys), self.values(keys)
        return tuple(x.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for x in projected)

    def look(
        self,
        query: Float[Tensor, "b t d"],
        keys: Float[Tensor, "b g s d_head"],
        values: Float[Tensor, "b g s d_head"],
        mask: Bool[Tensor, "#b #t #s"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """The attention of queries to keys and values from :meth:`project`; every query must attend to one of them.

        All of them must be finite, also those that the mask excludes.
        """
        q = self.query(query).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
        return self._join(self._attend(q, keys, values, None if mask is None else mask[:, None]))

    def weights(
        self,
        query: Float[Tensor, "b t d"],
        keys: Float[Tensor, "b g s d_head"],
        mask: Bool[Tensor, "#b #t #s"] | None = None,
    ) -> Float[Tensor, "b h t s"]:
        """The weights of each head for keys from :meth:`project`."""
        q = self.query(query).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
        scores = q @ self._for_every_head(keys).transpose(-2, -1) / math.sqrt(self.d_head)
        return masked_softmax(scores, None if mask is None else mask[:, None])

    def with_weights(
        self,
        query: Float[Tensor, "b t d"],
        keys: Float[Tensor, "b s d_keys"],
        mask: Bool[Tensor, "#b #t #s"] | None = None,
    ) -> AttentionResult:
        """As the forward pass without dropout; also returns the weights of each head, ``b h t s``."""
        self._check(query, keys, mask)
        q, k, v = self._heads(query, without_unseen(keys, mask))
        k, v = self._for_every_head(k), self._for_every_head(v)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        weights = masked_softmax(scores, None if mask is None else mask[:, None])
        return AttentionResult(self._join(weights @ v), weights)

    def _check(self, query: Tensor, keys: Tensor, mask: Tensor | None) -> None:
        b, t, _ = match_shape("query", tuple(query.shape), "b t d", d=self.d).values()
        s = match_shape("keys", tuple(keys.shape), "b s d_keys", b=b, d_keys=self.d_keys)["s"]
        if mask is not None:
            check_attention_mask(mask, b, t, s)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        k, v = self._for_every_head(k), self._for_every_head(v)
        dropout = self.dropout if self.training else 0.0
        return fused_attention(q, k, v, mask, dropout, causal)

    def _for_every_head(self, x: Float[Tensor, "b g s d_head"]) -> Float[Tensor, "b h s d_head"]:
        return x if self.n_kv_heads == self.n_heads else x.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)

    def _heads(
        self, query: Tensor, keys: Tensor, start: int | Tensor = 0
    ) -> tuple[Float[Tensor, "b h t d_head"], Float[Tensor, "b g s d_head"], Float[Tensor, "b g s d_head"]]:
        projected = self.query(query), self.keys(keys), self.values(keys)
        q, k, v = (x.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for x in projected)  # b h t d
        return (q, k, v) if self.rotate is None else (self.rotate(q, start), self.rotate(k, start), v)

    def _heads_at_once(self, x: Float[Tensor, "b t d"], start: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`_heads`, in one product: in short steps the number of calls dominates the time."""
        heads = F.linear(x, *self._joined_maps()).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
        turned, v = heads.split((self.n_heads + self.n_kv_heads, self.n_kv_heads), dim=1)
        if self.rotate is not None:
            turned = self.rotate(turned, start)
        return *turned.split((self.n_heads, self.n_kv_heads), dim=1), v

    def _joined_maps(self) -> tuple[Tensor, Tensor]:
        """The projections to queries, keys and values as one matrix, rebuilt when one of them has changed."""
        maps = (self.query, self.keys, self.values)
        parts = [p for layer in maps for p in (layer.weight, layer.bias)]
        now = tuple(n for p in parts for n in (p.data_ptr(), 0 if p.is_inference() else p._version))
        if self._joined is None or self._joined[0] != now:
            with torch.inference_mode(False), torch.no_grad():
                weight = torch.cat([layer.weight.detach() for layer in maps])
                bias = torch.cat([layer.bias.detach() for layer in maps])
            self._joined = now, weight, bias
        return self._joined[1], self._joined[2]

    def _join(self, heads: Float[Tensor, "b h t d_head"]) -> Float[Tensor, "b t d"]:
        return self.output(heads.transpose(1, 2).flatten(-2))
