"""Batches of encoded texts, on the device of the model: padded ids for models on vectors, bags for linear ones."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

_ClassLabels = Int[Tensor, "b"] | Float[Tensor, "b k"] | None
"""The right class of each text, or 1 and 0 for each class where a text may have several; None in prediction."""


@dataclass(frozen=True)
class TokenBatch:
    """Texts as token ids, padded to one length; ``examples`` are their numbers in the corpus."""

    ids: Int[Tensor, "b t"]
    lengths: Int[Tensor, "b"]
    labels: _ClassLabels
    examples: Int[Tensor, "b"]
    longest: int
    tokens: int
    """Real tokens: a sum of lengths that lie on a device would wait for it."""

    @property
    def size(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class BagBatch:
    """Texts as bags of features, row after row: those of text ``i`` start at ``offsets[i]``."""

    ids: Int[Tensor, "z"]
    values: Float[Tensor, "z"]
    offsets: Int[Tensor, "b"]
    labels: _ClassLabels
    examples: Int[Tensor, "b"]
    longest: int

    @property
    def size(self) -> int:
        return len(self.offsets)

    @property
    def tokens(self) -> int:
        return self.ids.numel()


ClassifyBatch = TokenBatch | BagBatch
