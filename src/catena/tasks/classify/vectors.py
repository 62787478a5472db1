"""Word vectors from a file, for the embedding tables of models."""

from __future__ import annotations

from pathlib import Path

import torch

from catena.data.readers.vectors import read_word_vectors
from catena.embeddings.config import EmbeddingConfig
from catena.tasks.classify.encoding import TokenEncoding

InitialVectors = tuple[torch.Tensor, torch.Tensor]
"""A row for each id, and a mask of the ids that were found."""


def blank_vectors(embedding: EmbeddingConfig, n: int) -> InitialVectors | None:
    """Zero vectors for a model whose weights are loaded afterwards; None if all vectors are random."""
    if embedding.mode == "random":
        return None
    return torch.zeros(n, embedding.d), torch.zeros(n, dtype=torch.bool)


def word_vectors(embedding: EmbeddingConfig, encoding: TokenEncoding, report: list[str]) -> InitialVectors | None:
    """The vectors of the file in the config, or None. A line with the number of words found is added to ``report``."""
    if embedding.mode == "random":
        return None
    rows, found = read_word_vectors(Path(str(embedding.vectors)), encoding.vocabulary.symbols, embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    percent = 100 * float(known.float().mean())
    report.append(f"{embedding.vectors}: vectors for {int(known.sum()):,} words, {percent:.1f} % of the vocabulary")
    return matrix, known
