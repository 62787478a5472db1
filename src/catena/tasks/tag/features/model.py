"""The trained tagger on features, and the layout of its weights in one vector.

The layout of the weights of a tagger on features in one vector.

The weights of features with tags come first, then ``k × k`` transitions, ``k`` starts and ``k`` ends. An unused weight
stays 0.

A trained tagger on features: maps sentences to a chain of scores, with readable weights.

The chain (:class:`~catena.structure.chain.LinearChain`) gives the best tags, marginals and samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from catena.accelerators import can_skip_kernels
from catena.kernels.features import reference
from catena.tasks.tag.chains import ChainModel
from catena.tasks.tag.distribution import ChainScores
from catena.tasks.tag.features.dictionary import FeatureDictionary, FeatureIds
from catena.tasks.word_inputs.sentences import Sentence

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


# --- the model --------------------------------------------------------------------------------------------------------


_SCORE_MICROSECONDS = 10
"""A rough estimate of the time of the scores of one feature without kernels."""


@dataclass(frozen=True, eq=False)
class FeatureModel(ChainModel):
    """Weights of features with tags, and of adjacent tags.

    Args:
        dictionary: the features.
        layout: the layout of the weights.
        vector: the weights.
        structure: crf, softmax, memm, perceptron or margin.
    """

    dictionary: FeatureDictionary
    layout: WeightLayout
    vector: Float64[np.ndarray, " n"]
    structure: str

    def emissions(self, sentences: Sequence[Sentence]) -> tuple[Float64[np.ndarray, "b t w"], Int64[np.ndarray, " b"]]:
        """The score of every tag at every word (0 after the end), and the number of words of each sentence.

        With features on tag pairs, the scores of all pairs follow those of the tags.
        """
        data = self.dictionary.encode(sentences)
        scores = np.zeros((data.tokens, self.layout.width))
        if can_skip_kernels(_SCORE_MICROSECONDS * len(data.ids)):
            score_tokens = reference.score_tokens
        else:
            from catena.kernels.features.cpu_sums import score_tokens
        score_tokens(
            data.token_first, data.ids, self.layout.pair_first, self.layout.pair_tag,
            self.layout.features(self.vector), scores,
        )  # fmt: skip
        lengths = data.lengths
        longest = max(1, int(lengths.max(initial=0)))
        padded = np.zeros((len(sentences), longest, self.layout.width))
        padded[np.arange(longest) < lengths[:, None]] = scores
        return padded, lengths

    def scores(self, sentences: Sequence[Sentence]) -> ChainScores:
        """The scores of the tags of each sentence; for perceptron and margin, some with the same best tags."""
        scores, lengths = self.emissions(sentences)
        layout, vector, k = self.layout, self.vector, self.layout.k
        moves, start, end = layout.transitions(vector), layout.start(vector), layout.end(vector)
        if self.structure == "softmax":
            return ChainScores(scores, lengths)
        if self.structure == "memm":
            return locally_normalized(scores, moves, start, lengths)
        steps = scores[..., k:].reshape(*scores.shape[:2], k, k) if layout.stepped else None
        return ChainScores(scores[..., :k], lengths, moves, start, end, steps)

    # --- inspection ---------------------------------------------------------------------------------------------------

    def top_features(self, tag: int, n: int) -> list[tuple[str, float]]:
        """The features with the largest and the smallest weights for a tag.

        "Tag" ``k + p * k + q`` is tag ``q`` after ``p``.
        """
        assert self.dictionary.names is not None
        places = np.flatnonzero(self.layout.pair_tag == tag)
        owners = np.searchsorted(self.layout.pair_first, places, side="right") - 1
        weights = self.vector[places]
        chosen = np.argsort(-np.abs(weights), kind="stable")[:n]
        return [(self.dictionary.names[owners[i]], float(weights[i])) for i in chosen if weights[i] != 0]

    def describe(self, labels: Sequence[str], top: int) -> list[str]:
        """Lines with the features of largest and smallest weight for each tag, and the transitions."""
        used = int(np.count_nonzero(self.layout.features(self.vector)))
        lines = [f"{self.structure} on {len(self.dictionary):,} features, {used:,} weights of features with tags"]
        for tag, label in enumerate(labels):
            found = self.top_features(tag, top)
            lines.append(f"{label}: " + ("  ".join(f"{name} {weight:+.2f}" for name, weight in found) or "no feature"))
        if self.structure != "softmax":
            lines += self._describe_moves(labels, top)
        return lines

    def _describe_moves(self, labels: Sequence[str], top: int) -> list[str]:
        moves = self.layout.transitions(self.vector)
        order = np.argsort(-moves, axis=None, kind="stable")
        pairs = [(int(i) // self.layout.k, int(i) % self.layout.k) for i in order]
        lines_by_weight = [f"{labels[p]} → {labels[q]} {moves[p, q]:+.2f}" for p, q in pairs if moves[p, q] != 0]
        lines = []
        if self.layout.stepped:
            codes = [(p, q, self.layout.k + p * self.layout.k + q) for p, q in pairs]
            found = [(p, q, one) for p, q, code in codes for one in self.top_features(code, top)]
            found.sort(key=lambda entry: -abs(entry[2][1]))
            shown = (f"{labels[p]} → {labels[q]} {name} {weight:+.2f}" for p, q, (name, weight) in found[:top])
            lines = ["features of pairs of tags: " + "  ".join(shown)]
        return [
            *lines,
            "transitions with the largest weights: " + "  ".join(lines_by_weight[:top]),
            "transitions with the smallest weights: " + "  ".join(lines_by_weight[::-1][:top]),
        ]

    # --- files --------------------------------------------------------------------------------------------------------

    def slim(self) -> FeatureModel:
        """The same model without zero weights, and without features that have no other weights."""
        layout, weights = self.layout, self.layout.features(self.vector)
        there = weights != 0
        ends = np.concatenate(([0], np.cumsum(there)))[layout.pair_first]
        kept = np.flatnonzero(np.diff(ends))
        first = np.concatenate(([0], ends[1:][kept])).astype(np.int64)
        vector = np.concatenate((weights[there], self.vector[layout.pairs :]))
        in_use = np.concatenate((layout.in_use[: layout.pairs][there], layout.in_use[layout.pairs :]))
        slim = WeightLayout(layout.k, first, layout.pair_tag[there], in_use, layout.stepped)
        return FeatureModel(self.dictionary.kept(kept), slim, vector, self.structure)

    def arrays(self) -> dict[str, np.ndarray]:
        slim = self.slim()
        return {
            "keys": slim.dictionary.keys.view(np.int64),
            "pair_first": slim.layout.pair_first,
            "pair_tag": slim.layout.pair_tag,
            "in_use": slim.layout.in_use,
            "vector": slim.vector,
        }

    def save(self, folder: Path) -> None:
        self.slim().dictionary.save(folder)

    @classmethod
    def load(
        cls, folder: Path, templates: Sequence[str], structure: str, parts: Mapping[str, np.ndarray]
    ) -> FeatureModel:
        """The model of a checkpoint folder, given its arrays."""
        pairs = len(parts["pair_tag"])
        k = round((len(parts["vector"]) - pairs + 1) ** 0.5) - 1  # all but k² + 2k numbers are weights of features
        dictionary = FeatureDictionary.load(folder, templates, parts["keys"].view(np.uint64))
        stepped = bool((parts["pair_tag"] >= k).any())
        layout = WeightLayout(k, parts["pair_first"], parts["pair_tag"], parts["in_use"], stepped)
        return cls(dictionary, layout, parts["vector"], structure)


def locally_normalized(
    scores: Float64[np.ndarray, "b t k"],
    moves: Float64[np.ndarray, "k k"],
    start: Float64[np.ndarray, " k"],
    lengths: Int64[np.ndarray, " b"],
) -> ChainScores:
    """Scores that are normalized at each word given the previous tag, so that log Z is 0."""
    emissions = np.zeros_like(scores)
    emissions[:, 0] = _log_softmax(scores[:, 0] + start)
    return ChainScores(emissions, lengths, steps=_log_softmax(scores[:, :, None, :] + moves))


def _log_softmax(x: Float64[np.ndarray, "*b k"]) -> Float64[np.ndarray, "*b k"]:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))
