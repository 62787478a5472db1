"""Batches of encoded texts on the model's device: padded ids for neural models, bags of features for linear ones."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

_ClassLabels = Int[Tensor, "b"] | Float[Tensor, "b k"] | None
"""The gold class of each text, or 1 and 0 for each class with multiple labels; None in prediction."""


@dataclass(frozen=True)
class TokenBatch:
    """Texts as token ids, padded to the same length; ``examples`` are their indices in the corpus."""

    ids: Int[Tensor, "b t"]
    lengths: Int[Tensor, "b"]
    labels: _ClassLabels
    examples: Int[Tensor, "b"]
    longest: int
    tokens: int
    """Number of tokens without padding, kept here since a sum of lengths would wait for the device."""

    @property
    def size(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class BagBatch:
    """Texts as bags of features, concatenated: those of text ``i`` start at ``offsets[i]``."""

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
