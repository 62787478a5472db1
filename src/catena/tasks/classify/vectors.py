"""Word vectors from a file, as the tables of models take them."""

from __future__ import annotations

from pathlib import Path

import torch

from catena.data.readers.vectors import vectors_for
from catena.embeddings.settings import EmbeddingSettings
from catena.tasks.classify.encoding import TokenEncoding

Vectors = tuple[torch.Tensor, torch.Tensor]
"""A row for each id, and which of them were found."""


def blank_vectors(embedding: EmbeddingSettings, n: int) -> Vectors | None:
    """The place of word vectors in a model whose weights are read afterwards; None where all are drawn at random."""
    if embedding.mode == "random":
        return None
    return torch.zeros(n, embedding.d), torch.zeros(n, dtype=torch.bool)


def word_vectors(embedding: EmbeddingSettings, encoding: TokenEncoding) -> tuple[Vectors, str]:
    """The vectors of the file that the settings name, and how many of the words were found, in words."""
    rows, found = vectors_for(Path(str(embedding.vectors)), encoding.vocabulary.symbols, embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    share = 100 * float(known.float().mean())
    words = f"{embedding.vectors}: vectors for {int(known.sum()):,} words, {share:.1f} % of the vocabulary"
    return (matrix, known), words
