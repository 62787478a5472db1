"""An embedding table whose pretrained rows are frozen and whose other rows are trained.

Ids below the number of trained rows are trained, the others are frozen. The gradient and the optimizer then cost the
trained rows only.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from catena.embeddings.table import Embedding, EmbeddingDropout, EmbeddingTable
from catena.errors import ShapeError


class PartlyFrozenTable(Embedding):
    """Trained rows for the ids 0 to n_trained - 1, then the frozen rows of a matrix.

    Args:
        n_trained: the number of trained rows, at least 1.
        frozen: the pretrained vectors of the ids from ``n_trained``; saved with the model.
        pad_id: the trained id whose row is zero; None for no such id.
        scale: trained rows are initialized from U(-scale, scale).
        dropout: the fraction of features set to zero in training.
        token_dropout: the fraction of tokens set to zero in training.
    """

    def __init__(
        self,
        n_trained: int,
        frozen: Float[Tensor, "v d"],
        pad_id: int | None = 0,
        scale: float = 0.25,
        dropout: float = 0.0,
        token_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if n_trained < 1:
            raise ShapeError(f"n_trained must be at least 1, got {n_trained}. Train the row of unknown words.")
        self.n_trained = n_trained
        self.d_out = frozen.shape[1]
        self.trained = EmbeddingTable(n_trained, self.d_out, pad_id, scale)
        self.drop = EmbeddingDropout(dropout, token_dropout)
        self.register_buffer("frozen", frozen.clone())
        self.frozen: Tensor

    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d_out"]:
        is_trained = ids < self.n_trained
        vectors = self.trained(ids.masked_fill(~is_trained, 0))
        if len(self.frozen):
            pretrained = F.embedding((ids - self.n_trained).clamp_min(0), self.frozen)
            vectors = torch.where(is_trained[..., None], vectors, pretrained)
        return self.drop(vectors)

    def extra_repr(self) -> str:
        return f"n_trained={self.n_trained}, frozen={tuple(self.frozen.shape)}"
