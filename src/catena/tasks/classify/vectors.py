"""Word vectors from a file, as the tables of models take them."""

from __future__ import annotations

from pathlib import Path

import torch

from catena.data.readers.vectors import read_vectors_of
from catena.embeddings.config import EmbeddingConfig
from catena.tasks.classify.encoding import TokenEncoding

InitialVectors = tuple[torch.Tensor, torch.Tensor]
"""A row for each id, and which of them were found."""


def blank_vectors(embedding: EmbeddingConfig, n: int) -> InitialVectors | None:
    """The place of word vectors in a model whose weights are read afterwards; None where all are drawn at random."""
    if embedding.mode == "random":
        return None
    return torch.zeros(n, embedding.d), torch.zeros(n, dtype=torch.bool)


def word_vectors(embedding: EmbeddingConfig, encoding: TokenEncoding) -> tuple[InitialVectors, str]:
    """The vectors of the file that the settings name, and how many of the words were found, in words."""
    rows, found = read_vectors_of(Path(str(embedding.vectors)), encoding.vocabulary.symbols, embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    share = 100 * float(known.float().mean())
    words = f"{embedding.vectors}: vectors for {int(known.sum()):,} words, {share:.1f} % of the vocabulary"
    return (matrix, known), words
