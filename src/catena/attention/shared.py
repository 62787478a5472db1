"""Attention of many rows to a few common sources, such as the hypotheses of a beam.

The keys of a source are stored once, for any number of rows and selections: rows are grouped by their sources, and the
keys are not copied. Time O(n s d) for a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.attention.cross import CrossAttention, CrossAttentionResult, PreparedKeys


@dataclass(frozen=True, eq=False, slots=True)
class SharedKeys:
    """Keys of sources, and the source that each row attends to.

    Args:
        keys: of the sources.
        sources: the source of each row.
        places: the index of each row when rows are grouped by source, with ``m`` slots for each source; None if rows
            are grouped already.
        m: the maximum number of rows of one source.
    """

    keys: PreparedKeys
    sources: Int[Tensor, " n"]
    places: Int[Tensor, " n"] | None
    m: int

    @classmethod
    def of(cls, keys: PreparedKeys, sources: Int[Tensor, " n"]) -> SharedKeys:
        """The keys for rows of these sources. If most sources have no rows any more, only the others are kept."""
        n, b = len(sources), len(keys)
        counts = torch.bincount(sources, minlength=b)
        live = counts.nonzero()[:, 0]
        if 0 < 2 * len(live) <= b:
            keys, sources = keys.select(live), (counts > 0).cumsum(0)[sources] - 1
            counts = counts[live]
        m = int(counts.max()) if n else 0
        steps = torch.arange(n, device=sources.device)
        if n == m * len(counts) and torch.equal(sources, steps // max(m, 1)):
            return cls(keys, sources, None, m)
        order = sources.argsort(stable=True)
        nth = torch.empty_like(sources).index_copy(0, order, steps - (counts.cumsum(0) - counts)[sources[order]])
        return cls(keys, sources, sources * m + nth, m)

    def look(
        self, attention: CrossAttention, query: Float[Tensor, "n 1 d_query"], steps: Int[Tensor, "n 1"]
    ) -> CrossAttentionResult:
        """The output of ``attention``, each row for its own source."""
        if not len(query):
            keys = self.keys.select(self.sources)
            return attention(query, keys, steps)
        found = attention(self._grouped(query[:, 0]), self.keys, self._grouped(steps[:, 0]))
        return CrossAttentionResult(
            self._rows(found.context)[:, None],
            self._rows(found.weights.transpose(1, 2))[:, :, None],
            None if found.log_prob is None else self._rows(found.log_prob)[:, None],
        )

    def _grouped(self, x: Tensor) -> Tensor:
        if self.places is not None:
            x = x.new_zeros(len(self.keys) * self.m, *x.shape[1:]).index_copy(0, self.places, x)
        return x.unflatten(0, (len(self.keys), self.m))

    def _rows(self, x: Tensor) -> Tensor:
        x = x.flatten(0, 1)
        return x if self.places is None else x[self.places]
