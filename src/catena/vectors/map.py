"""Words in a plane, so that near vectors lie near: t-SNE (van der Maaten and Hinton 2008), by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.extras import require
from catena.vectors.table import WordVectors


def project_to_plane(
    vectors: WordVectors, words: Sequence[str], perplexity: float = 30.0, seed: int = 0
) -> Float[np.ndarray, "n 2"]:
    """The place of each word in a plane. Directions count, not lengths: vectors are brought to length one first.

    Args:
        vectors: where the words have theirs.
        words: three or more.
        perplexity: how many neighbors each word minds, about; lowered where there are few words.
        seed: of the first places; the same one gives the same map.
    """
    manifold = require("sklearn.manifold", "sklearn", "the map of words")
    if len(words) < 3:
        raise DataError(f"a map needs three words or more, and has {len(words)}")
    rows = vectors.rows(words).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    few = max(1.0, (len(words) - 1) / 3.0)
    tsne = manifold.TSNE(
        2, perplexity=min(perplexity, few), init="pca" if len(words) > 3 else "random", random_state=seed
    )
    return np.asarray(tsne.fit_transform(rows), np.float64)


def words_of_map(vectors: WordVectors, most: int, asked: Sequence[str] = ()) -> list[str]:
    """The words to show: those asked for with their nearest neighbors, or the first ones, which are the most frequent
    in vectors that Catena made. Words without a letter are left out unless asked for."""
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
