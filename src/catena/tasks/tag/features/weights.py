"""The layout of the weights of a tagger on features in one vector.

The weights of features with tags come first, then ``k × k`` transitions, ``k`` starts and ``k`` ends. An unused weight
stays 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from catena.tasks.tag.features.dictionary import FeatureIds

_WORTH_A_ROW = 8
"""With at least this number of tags, a feature that occurs with more than a third of them has a row for all."""


@dataclass(frozen=True, eq=False)
class WeightLayout:
    """The weights of a model and their layout.

    Args:
        k: number of tags.
        pair_first: feature ``f`` has weights for the tags ``pair_tag[pair_first[f] : pair_first[f + 1]]``.
        pair_tag: see ``pair_first``.
        in_use: mask of the weights that are learned.
        stepped: whether some features are on pairs of tags: "tag" ``k + p * k + q`` is ``q`` after ``p``.
    """

    k: int
    pair_first: Int64[np.ndarray, " f"]
    pair_tag: Int32[np.ndarray, " p"]
    in_use: Bool[np.ndarray, " n"]
    stepped: bool = False

    @property
    def width(self) -> int:
        """Number of scores at a word: tags, and pairs of tags if there are features on them."""
        return self.k + self.k**2 * self.stepped

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.pairs + self.k * self.k + 2 * self.k

    @property
    def pairs(self) -> int:
        """Number of weights of features with tags."""
        return len(self.pair_tag)

    def features(self, vector: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " p"]:
        """The weights of features with tags."""
        return vector[: self.pairs]

    def transitions(self, vector: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, "k k"]:
        """``[p, q]`` is the weight of tag ``q`` after ``p``."""
        return vector[self.pairs : self.pairs + self.k**2].reshape(self.k, self.k)

    def start(self, vector: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " k"]:
        """The weights of first tags."""
        return vector[-2 * self.k : -self.k]

    def end(self, vector: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " k"]:
        """The weights of last tags."""
        return vector[-self.k :]


def build_layout(
    data: FeatureIds,
    tags: Int32[np.ndarray, " m"],
    features: int,
    k: int,
    *,
    all_tags: bool,
    transitions: str,
    edges: bool,
    of_pairs: Bool[np.ndarray, " f"] | None = None,
) -> WeightLayout:
    """Build the layout of the weights of a tagger.

    Args:
        data: the features of the training sentences.
        tags: the tag of each token; -1 if it is not known.
        features: number of features.
        k: number of tags.
        all_tags: give every feature a weight for every tag, not only for tags it occurs with.
        transitions: ``all``, ``seen`` or ``none``.
        edges: give first and last tags weights.
        of_pairs: mask of the features on pairs of adjacent tags; none if omitted.
    """
    stepped = of_pairs is not None and bool(of_pairs.any())
    of_pairs = np.zeros(features, bool) if of_pairs is None else of_pairs
    if all_tags:
        pair_first = np.concatenate(([0], np.cumsum(np.where(of_pairs, k * k, k)))).astype(np.int64)
        ranges = [np.arange(k, dtype=np.int32), np.arange(k, k + k * k, dtype=np.int32)]
        pair_tag = np.concatenate([ranges[0][:0], *(ranges[int(both)] for both in of_pairs)])
        learned = np.ones(len(pair_tag), bool)
    else:
        from catena.kernels.features.cpu_sums import seen_pairs

        pairs = np.empty(len(data.ids), np.int64)
        seen_pairs(data.token_first, data.ids, tags, data.first, k, of_pairs, pairs)
        known = np.unique(pairs)
        owners, found = np.divmod(known[known >= 0], k + k * k)
        pair_first, pair_tag, learned = _padded(owners, found, features, k, of_pairs)
    in_use = np.concatenate((
        learned,
        moves_in_use(data.first, tags, k, transitions).ravel(),
        np.full(2 * k, edges),
    ))  # fmt: skip
    return WeightLayout(k, pair_first, pair_tag, in_use, stepped)


def _padded(
    owners: Int64[np.ndarray, " p"],
    tags: Int64[np.ndarray, " p"],
    features: int,
    k: int,
    of_pairs: Bool[np.ndarray, " f"],
) -> tuple[Int64[np.ndarray, " f1"], Int32[np.ndarray, " q"], Bool[np.ndarray, " q"]]:
    """The start of each feature's weights, their tags, and a mask of those that are learned.

    A feature with many of the tags gets all of them, in order: adding rows is faster than adding single weights.
    """
    counts = np.bincount(owners, minlength=features)
    whole = (counts > k // 3) & (counts < k) & ~of_pairs & (k >= _WORTH_A_ROW)
    first = np.concatenate(([0], np.cumsum(np.where(whole, k, counts)))).astype(np.int64)
    owner = np.repeat(np.arange(features), np.diff(first))
    in_row = whole[owner]
    pair_tag, learned = (np.arange(len(owner)) - first[owner]).astype(np.int32), ~in_row
    pair_tag[~in_row] = tags[~whole[owners]]
    seen = whole[owners]
    learned[first[owners[seen]] + tags[seen]] = True
    return first, pair_tag, learned


def moves_in_use(
    first: Int64[np.ndarray, " s"], tags: Int32[np.ndarray, " m"], k: int, transitions: str
) -> Bool[np.ndarray, "k k"]:
    """``[p, q]`` is True if tag ``q`` after ``p`` has a weight."""
    if transitions != "seen":
        return np.full((k, k), transitions == "all")
    return pair_counts(first, tags, k) > 0


def pair_counts(first: Int64[np.ndarray, " s"], tags: Int32[np.ndarray, " m"], k: int) -> Float64[np.ndarray, "k k"]:
    """The number of times each tag follows each other tag, where both are known."""
    before, after = tags[:-1], tags[1:]
    inside = np.ones(len(after), bool)
    breaks = first[1:-1]
    inside[breaks[(breaks > 0) & (breaks < len(tags))] - 1] = False
    both = inside & (before >= 0) & (after >= 0)
    counts = np.zeros((k, k))
    np.add.at(counts, (before[both], after[both]), 1.0)
    return counts
