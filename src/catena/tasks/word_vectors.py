"""Word vectors of a file as the start of an embedding table, for the networks of all tasks."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from catena.data.readers.vectors import read_word_vectors
from catena.data.vocabulary import Vocabulary
from catena.embeddings.config import EmbeddingConfig

WordVectorRows = tuple[Tensor, Tensor]
"""A row for each id, and a mask of the ids that are in the file."""


def initial_vectors(
    embedding: EmbeddingConfig, vocabulary: Vocabulary, report: list[str] | None
) -> WordVectorRows | None:
    """The vectors of the file that a config names, or None if all vectors are random.

    Args:
        embedding: the config.
        vocabulary: the words.
        report: gets a line with the number of words found. If None, the file is not read and all vectors are 0, for a
            network whose weights are loaded afterwards.
    """
    if embedding.mode == "random":
        return None
    if report is None:
        return torch.zeros(len(vocabulary), embedding.d), torch.zeros(len(vocabulary), dtype=torch.bool)
    rows, found = read_word_vectors(Path(str(embedding.vectors)), vocabulary.symbols, embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    percent = 100 * float(known.float().mean())
    report.append(f"{embedding.vectors}: vectors for {int(known.sum()):,} words, {percent:.1f} % of the vocabulary")
    return matrix, known
