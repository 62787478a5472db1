"""Embedding tables: one vector for each id, random or pretrained, trained or frozen.

The row of padding is exactly zero and gets no gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from catena.embeddings.config import EmbeddingConfig
from catena.errors import ConfigError, DataError, ShapeError


class Embedding(nn.Module, ABC):
    """Abstract map of ids to vectors of ``d_out`` features."""

    d_out: int

    @abstractmethod
    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d_out"]: ...


class EmbeddingTable(Embedding):
    """One row of ``d`` features for each of ``n`` ids.

    Args:
        n: the number of ids.
        d: the size of a vector.
        pad_id: the id whose row is zero; None for no such id.
        scale: rows are initialized from U(-scale, scale) (Kim 2014, section 3.1: 0.25).
        frozen: whether rows are not trained.
        dropout: the fraction of features set to zero in training.
        token_dropout: the fraction of tokens set to zero in training.
        generator: the source of random rows; torch's default generator if omitted.
    """

    def __init__(
        self,
        n: int,
        d: int,
        pad_id: int | None = 0,
        scale: float = 0.25,
        frozen: bool = False,
        dropout: float = 0.0,
        token_dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.d_out = d
        self.pad_id = pad_id
        self.drop = EmbeddingDropout(dropout, token_dropout)
        rows = torch.empty(n, d).uniform_(-scale, scale, generator=generator)
        if pad_id is not None:
            rows[pad_id] = 0.0
        self.weight = nn.Parameter(rows, requires_grad=not frozen)

    @classmethod
    def from_matrix(
        cls,
        matrix: Float[Tensor, "v d"],
        known: Bool[Tensor, " v"],
        pad_id: int | None = 0,
        scale: float = 0.25,
        frozen: bool = False,
        dropout: float = 0.0,
        token_dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> EmbeddingTable:
        """A table with the rows of ``matrix`` where ``known``; other rows are random with the same variance.

        Args:
            matrix: the pretrained vectors.
            known: True at the rows of ``matrix`` to use. If none is known, ``scale`` sets the range of random rows.
            pad_id: as in the constructor.
            scale: as in the constructor.
            frozen: as in the constructor.
            dropout: as in the constructor.
            token_dropout: as in the constructor.
            generator: as in the constructor.
        """
        n, d = matrix.shape
        scale = _scale_of(matrix[known]) or scale
        table = cls(n, d, pad_id, scale, frozen, dropout, token_dropout, generator)
        with torch.no_grad():
            table.weight[known] = matrix[known].to(table.weight.dtype)
            if pad_id is not None:
                table.weight[pad_id] = 0.0
        return table

    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d_out"]:
        try:
            x = functional.embedding(ids, self.weight, padding_idx=self.pad_id)
        except IndexError:  # on a GPU torch raises an assertion
            raise DataError(
                f"ids must be from 0 to {len(self.weight) - 1}, the rows of this table, got {int(ids.min())} to "
                f"{int(ids.max())}. Make the table as large as the vocabulary, and pad with an id of it."
            ) from None
        return self.drop(x) if self.training else x

    def extra_repr(self) -> str:
        n, d = self.weight.shape
        return f"{n}, {d}, pad_id={self.pad_id}, frozen={not self.weight.requires_grad}"


class MultichannelTable(Embedding):
    """Two copies of the same vectors, one frozen and one trained (Kim 2014, section 3.1).

    ``forward`` concatenates both, the frozen channel first, so that any encoder can use it; a filter over
    it has separate weights for each channel. ``channels`` returns them separately.

    Args:
        matrix: the pretrained vectors.
        known: True at the rows of ``matrix`` to use; the others are random with the same variance.
        pad_id: the row that is zero and stays zero, or None.
        scale: range of the random rows if no row is known.
        dropout: fraction of features that are set to 0 in training.
        token_dropout: fraction of tokens whose whole vector is set to 0 in training.
        generator: source of the random rows.
    """

    def __init__(
        self,
        matrix: Float[Tensor, "v d"],
        known: Bool[Tensor, " v"],
        pad_id: int | None = 0,
        scale: float = 0.25,
        dropout: float = 0.0,
        token_dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.static = EmbeddingTable.from_matrix(matrix, known, pad_id, scale, frozen=True, generator=generator)
        everything = torch.ones(len(known), dtype=torch.bool)
        self.tuned = EmbeddingTable.from_matrix(self.static.weight.detach(), everything, pad_id, scale)
        self.drop = EmbeddingDropout(dropout, token_dropout)
        self.d_out = 2 * matrix.shape[1]

    def channels(self, ids: Int[Tensor, "b t"]) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t d"]]:
        """The frozen and the trained vectors, without dropout."""
        return self.static(ids), self.tuned(ids)

    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d_out"]:
        return self.drop(torch.cat(self.channels(ids), dim=-1))


class EmbeddingDropout(nn.Module):
    """Dropout of single features and of whole tokens; the rest is scaled up to keep the mean."""

    def __init__(self, features: float, tokens: float) -> None:
        super().__init__()
        self.features = features
        self.tokens = tokens

    def forward(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        if self.training and self.tokens:
            x = x * functional.dropout(x.new_ones(*x.shape[:2], 1), self.tokens)
        return functional.dropout(x, self.features, self.training)

    def extra_repr(self) -> str:
        return f"features={self.features}, tokens={self.tokens}"


def build_embedding(
    settings: EmbeddingConfig,
    n: int,
    pad_id: int | None = 0,
    matrix: Float[Tensor, "v d"] | None = None,
    known: Bool[Tensor, " v"] | None = None,
    generator: torch.Generator | None = None,
) -> Embedding:
    """The embedding table of a config. All modes except ``random`` need the pretrained vectors of the ``n`` ids.

    If the weights are loaded afterwards, ``matrix`` may be zeros and ``known`` False: only the shape matters.

    Args:
        settings: the config.
        n: the number of ids.
        pad_id: the id whose row is zero; None for no such id.
        matrix: the pretrained vectors, one row for each id.
        known: True at the rows of ``matrix`` to use.
        generator: the source of random rows; torch's default generator if omitted.
    """
    shared = (settings.dropout, settings.token_dropout, generator)
    if settings.mode == "random":
        return EmbeddingTable(n, settings.d, pad_id, settings.scale, False, *shared)
    if matrix is None or known is None:
        raise ConfigError(
            f"matrix and known must be given for mode = {settings.mode!r}, got None. Read the word vectors first."
        )
    if tuple(matrix.shape) != (n, settings.d):
        raise ShapeError(
            f"matrix must have the shape (n, d) = ({n}, {settings.d}), got {tuple(matrix.shape)}. Set d to the size of "
            "the vectors."
        )
    if settings.mode == "multichannel":
        return MultichannelTable(matrix, known, pad_id, settings.scale, *shared)
    frozen = settings.mode == "static"
    return EmbeddingTable.from_matrix(matrix, known, pad_id, settings.scale, frozen, *shared)


def _scale_of(rows: Float[Tensor, "v d"]) -> float:
    """The a of U(-a, a) with the variance of these values, which is a² / 3; 0 if there are too few."""
    return float((3 * rows.double().var()).sqrt()) if rows.numel() > 1 else 0.0


class PartlyFrozenTable(Embedding):
    """Trained rows for the ids 0 to n_trained - 1, then the frozen rows of a matrix.

    The gradient and the optimizer cost the trained rows only.

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
            pretrained = functional.embedding((ids - self.n_trained).clamp_min(0), self.frozen)
            vectors = torch.where(is_trained[..., None], vectors, pretrained)
        return self.drop(vectors)

    def extra_repr(self) -> str:
        return f"n_trained={self.n_trained}, frozen={tuple(self.frozen.shape)}"
