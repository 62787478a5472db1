r"""Vectors of words from their characters, so that unseen words have one, too.

* Convolution and the largest value over the word (Ma & Hovy 2016, section 2.1), for filter f of window w:

  .. math::  y_f = \max_i \Big( b_f + \sum_{j=0}^{w-1} K_{fj}\, x_{i - \ell + j} \Big)

  with one window centered on each character and zeros outside of the word.
* An LSTM in each direction and the concatenation of its last states (Ling et al. 2015, section 2.2; Lample et al. 2016,
  section 4.1).

Words are rows of character ids, padded on the right with 0. Padding does not change the result, and a word without
characters has the vector 0. Time O(n c).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.embeddings.config import CharacterConfig, CharacterConvolutionConfig, CharacterLSTMConfig, NoCharacterConfig
from catena.embeddings.table import EmbeddingTable
from catena.kernels.characters.ops import largest_windows, suits
from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths


class CharacterEmbedding(nn.Module, ABC):
    """Abstract map of ``n c`` character ids (0 is padding) to ``n d_out``; subclasses define :meth:`summary`.

    Args:
        n_characters: number of characters, with padding.
        d: size of the vector of a character.
        dropout: fraction of the features of characters that are set to 0 in training.
    """

    d_out: int

    def __init__(self, n_characters: int, d: int, dropout: float) -> None:
        super().__init__()
        self.table = EmbeddingTable(n_characters, d, scale=(3 / d) ** 0.5, dropout=dropout)

    def forward(self, characters: Int[Tensor, "n c"]) -> Float[Tensor, "n d_out"]:
        lengths = (characters != 0).sum(1)
        if characters.shape[1] == 0:
            return self.table.weight.new_zeros(len(characters), self.d_out)
        found = self.summary(self.table(characters), lengths)
        return found.masked_fill((lengths == 0)[:, None], 0.0)

    @abstractmethod
    def summary(self, x: Float[Tensor, "n c d"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n d_out"]:
        """One vector for each word of at least one character; ``x`` is 0 at padding."""


class ConvolutionOverCharacters(CharacterEmbedding):
    """The maximum of each filter over the windows that are centered on a character."""

    def __init__(self, n_characters: int, d: int, windows: Sequence[int], filters: int, dropout: float = 0.0) -> None:
        super().__init__(n_characters, d, dropout)
        self.convolutions = nn.ModuleList(nn.Conv1d(d, filters, window) for window in windows)
        self.d_out = filters * len(windows)

    def forward(self, characters: Int[Tensor, "n c"]) -> Float[Tensor, "n d_out"]:
        table = self.table.weight
        if self.training or not suits(characters, table):
            return super().forward(characters)
        weights = (list(convolution.parameters()) for convolution in self.convolutions)
        return torch.cat([largest_windows(characters, table, filters, bias) for filters, bias in weights], dim=-1)

    def summary(self, x: Float[Tensor, "n c d"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n d_out"]:
        padded = ~mask_from_lengths(lengths, x.shape[1])[:, None]
        largest = []
        for convolution in self.convolutions:
            (window,) = convolution.kernel_size  # type: ignore[misc]
            before = (window - 1) // 2
            found = convolution(F.pad(x.transpose(1, 2), (before, window - 1 - before)))  # n filters c
            largest.append(found.masked_fill(padded, NEG_INF).amax(-1))
        return torch.cat(largest, dim=-1)


class LstmOverCharacters(CharacterEmbedding):
    """The last states of a forward LSTM and a backward LSTM."""

    def __init__(self, n_characters: int, d: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(n_characters, d, dropout)
        self.forwards = nn.LSTM(d, d_hidden, batch_first=True)
        self.backwards = nn.LSTM(d, d_hidden, batch_first=True)
        self.d_out = 2 * d_hidden

    def summary(self, x: Float[Tensor, "n c d"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n d_out"]:
        here = torch.arange(x.shape[1], device=x.device)
        backwards = torch.where(here < lengths[:, None], lengths[:, None] - 1 - here, here)  # padding stays at the end
        turned = x.gather(1, backwards[..., None].expand_as(x))
        return torch.cat((_last(self.forwards(x)[0], lengths), _last(self.backwards(turned)[0], lengths)), dim=-1)


def _last(states: Float[Tensor, "n c d"], lengths: Int[Tensor, " n"]) -> Float[Tensor, "n d"]:
    """The state at the last character of each word."""
    places = (lengths - 1).clamp_min(0)
    return states[torch.arange(len(states), device=states.device), places]


def build_characters(settings: CharacterConfig, n_characters: int) -> CharacterEmbedding | None:
    """The character embedding of a config; None for kind 'none'."""
    match settings:
        case NoCharacterConfig():
            return None
        case CharacterConvolutionConfig():
            return ConvolutionOverCharacters(
                n_characters, settings.d, settings.windows, settings.filters, settings.dropout
            )
        case CharacterLSTMConfig():
            return LstmOverCharacters(n_characters, settings.d, settings.d_hidden, settings.dropout)
