"""Projection of words to two dimensions by t-SNE (van der Maaten & Hinton 2008), with scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.extras import require
from catena.vectors.table import VectorTable


def project_to_plane(
    vectors: VectorTable, words: Sequence[str], perplexity: float = 30.0, seed: int = 0
) -> Float[np.ndarray, "n 2"]:
    """Coordinates of each word in two dimensions, from vectors scaled to unit length.

    Args:
        vectors: the word vectors.
        words: three words or more.
        perplexity: of t-SNE, roughly the number of neighbors that count. Lowered if there are few words.
        seed: seed of the initial positions.
    """
    manifold = require("sklearn.manifold", "sklearn", "the map of words")
    if len(words) < 3:
        raise DataError(f"A map must have 3 words or more, got {len(words)}. Add words.")
    rows = vectors.rows(words).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    few = max(1.0, (len(words) - 1) / 3.0)
    tsne = manifold.TSNE(
        2, perplexity=min(perplexity, few), init="pca" if len(words) > 3 else "random", random_state=seed
    )
    return np.asarray(tsne.fit_transform(rows), np.float64)


def words_of_map(vectors: VectorTable, most: int, asked: Sequence[str] = ()) -> list[str]:
    """The words to show: the given words and their nearest neighbors, or the first words.

    In vectors trained by Catena, the first words are the most frequent. Words without a letter are dropped unless they
    are given.
    """
    if asked:
        near = [
            word for row in vectors.most_similar_of_all(list(asked), max(1, most // len(asked) - 1)) for word, _ in row
        ]
        return list(dict.fromkeys([*asked, *near]))[: max(most, len(asked))]
    chosen: list[str] = []
    for word in vectors.words:
        if any(letter.isalpha() for letter in word):
            chosen.append(word)
        if len(chosen) == most:
            break
    return chosen
