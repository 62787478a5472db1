r"""The neural span parser: its network, sums over the binary forms of a tree, and losses.

Phrase-structure trees as binary span trees with one label per span.

A chain of brackets over the same words is one label; a span that only results from binarizing a phrase has label 0, "no
phrase". A tree thus represents all its binary forms, and its probability is the sum of theirs:

.. math::  p(\text{tree}) = \frac{1}{Z} \sum_{\text{binary forms}} \exp \sum_{(i, j, q)} s_{ij}(q)

which is again a sum over span trees, with every label fixed where the tree has a phrase, and 0 elsewhere. Labels are
summed out before the trees are, so that the dynamic program gets one score per span.

Scores of labeled spans and of tags from the states of an encoder.

.. math::  g_i = W_f\, \overrightarrow{h}_{i-1} - W_b\, \overleftarrow{h}_i, \qquad
           s(i, j) = V\, \mathrm{relu}(\mathrm{norm}(g_j - g_i + b))

``g_i`` belongs to the fencepost before word ``i``; the first half of an encoder's units counts as read from the left,
the second as read from the right (Stern et al. 2017, section 3.1; Kitaev and Klein 2018, section 2). The features of a
span are thus a difference of two vectors that are computed once per fencepost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.data.examples import Tree
from catena.data.vocabulary import Labels
from catena.numerics import NEG_INF
from catena.structure.tree import SpanTree
from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.trees import BracketConstraint, LabeledSpan, crossing_spans, tree_to_phrases
from catena.tasks.pretrained import WordVectorRows
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.model import SentenceEncoder, build_sentence_encoder

NO_PHRASE = 0
BETWEEN = " "
"""The separator of the labels of a chain in its name; no label has a blank."""


@dataclass(frozen=True, eq=False)
class GoldSpanTrees:
    """The gold trees of a batch.

    Args:
        labels: ``labels[b, i, j]`` is the label over the words ``i`` to ``j``; 0 if there is no phrase.
        possible: mask of spans that cross no phrase.
        lengths: number of words of each sentence.
    """

    labels: Int[Tensor, "b t t"]
    possible: Bool[Tensor, "b t t"]
    lengths: Int[Tensor, "b"]

    def to(self, device: torch.device) -> GoldSpanTrees:
        """The same trees on another device."""
        return GoldSpanTrees(self.labels.to(device), self.possible.to(device), self.lengths.to(device))


def chain_names(trees: Sequence[Tree]) -> Labels:
    """The chains of labels in trees; as span labels they are numbered from 1."""
    return Labels.count([BETWEEN.join(phrase.labels) for phrase in tree_to_phrases(tree)] for tree in trees)


def label_ids(phrases: Sequence[LabeledSpan], names: Labels) -> list[tuple[int, int, int]] | None:
    """``(first, last, label)`` of each phrase; None if a chain is not known."""
    chains = [BETWEEN.join(phrase.labels) for phrase in phrases]
    if any(chain not in names for chain in chains):
        return None
    ids = names.ids(chains)
    return [(first, end - 1, q + 1) for (first, end, _), q in zip(phrases, ids, strict=True)]


def gold_trees(spans: Sequence[Sequence[tuple[int, int, int]]], lengths: Sequence[int]) -> GoldSpanTrees:
    """A batch of trees, given by the spans of their phrases."""
    t = max(lengths)
    labels = np.zeros((len(spans), t, t), np.int64)
    possible = np.ones((len(spans), t, t), bool)
    i, j = np.arange(t)[:, None], np.arange(t)[None, :]
    for row, some in enumerate(spans):
        for first, last, label in some:
            labels[row, first, last] = label
            if last > first and not (first == 0 and last == lengths[row] - 1):
                crosses = ((i < first) & (first <= j) & (j < last)) | ((first < i) & (i <= last) & (last < j))
                possible[row] &= ~crosses
    return GoldSpanTrees(
        torch.from_numpy(labels), torch.from_numpy(possible), torch.from_numpy(np.array(lengths, np.int64))
    )


# --- sums and maxima over trees ---------------------------------------------------------------------------------------


def over_labels(scores: Float[Tensor, "b t t k"], lengths: Int[Tensor, "b"]) -> SpanTree:
    """The distribution over all trees with labels summed out, on the CPU, where the dynamic program runs."""
    return _trees(scores.logsumexp(-1), lengths)


def best_labels(scores: Float[Tensor, "b t t k"], lengths: Int[Tensor, "b"]) -> SpanTree:
    """The distribution over all trees with the best label of each span."""
    return _trees(scores.amax(-1), lengths)


def of_gold(scores: Float[Tensor, "b t t k"], gold: GoldSpanTrees) -> SpanTree:
    """The distribution over the binary forms of the gold trees."""
    chosen = scores.gather(-1, gold.labels[..., None])[..., 0]
    return _trees(torch.where(gold.possible, chosen, NEG_INF), gold.lengths)


def _trees(scores: Float[Tensor, "b t t"], lengths: Int[Tensor, "b"]) -> SpanTree:
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return SpanTree(wide.cpu()[..., None], lengths.cpu())


def log_probabilities(scores: Float[Tensor, "b t t k"], gold: GoldSpanTrees) -> Float[Tensor, "b"]:
    """The log-probability of each tree, summed over its binary forms."""
    return of_gold(scores, gold).log_partition() - over_labels(scores, gold.lengths).log_partition()


def margin_losses(scores: Float[Tensor, "b t t k"], gold: GoldSpanTrees, margin: float) -> Float[Tensor, "b"]:
    """Hinge loss: the best tree, with ``margin`` added for each wrong span, minus the gold tree; at least 0.

    Taskar et al. (2004); Stern et al. (2017), section 4.
    """
    right = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, gold.labels[..., None], True)
    wrong = ~(right & gold.possible[..., None])
    worst, best = best_labels(scores + margin * wrong, gold.lengths), of_gold(scores, gold)
    with torch.no_grad():
        trees = worst.argmax(), best.argmax()
    return (worst.score(trees[0]) - best.score(trees[1])).clamp_min(0.0)


def allowed_labels(given: Sequence[BracketConstraint], n: int, t: int, names: Labels) -> Bool[Tensor, "t t k"]:
    """Mask of the labels that each span may have under given brackets."""
    chains = [()] + [tuple(name.split(BETWEEN)) for name in names.names]
    allowed = np.ones((t, t, len(chains)), bool)
    for i, j in crossing_spans(tuple(given), n):
        allowed[i, j - 1] = False
    for first, end, label, wanted in given:
        if not wanted:
            allowed[first, end - 1, 1:] = False
        elif label is None:
            allowed[first, end - 1, NO_PHRASE] = False
        elif end > first + 1:
            allowed[first, end - 1] &= np.array([chain[-1:] == (label,) for chain in chains])
    return torch.from_numpy(allowed)


# --- the network ------------------------------------------------------------------------------------------------------


class SpanScores(NamedTuple):
    """Scores of labeled spans and of tags.

    ``spans[b, i, j, q]`` is the score of label ``q`` over the words from ``i`` to ``j``, both included, where label 0
    means no phrase (0 if ``i > j``); ``tags[b, i, p]`` is the score of tag ``p``.
    """

    spans: Float[Tensor, "b t t k"]
    tags: Float[Tensor, "b t p"]


class SpanParser(nn.Module):
    """An encoder of words, and scorers of spans and tags.

    Args:
        encoder: words to states.
        features: ``fenceposts`` or ``ends``.
        d_span: number of hidden units.
        n_labels: number of span labels, including "no phrase".
        n_tags: number of tags.
        dropout: dropout probability of the hidden units.
    """

    def __init__(
        self, encoder: SentenceEncoder, features: str, d_span: int, n_labels: int, n_tags: int, dropout: float
    ) -> None:
        super().__init__()
        self.encoder, self.features = encoder, features
        d = encoder.d_out
        self.forward_half = d // 2
        self.first = nn.Linear(d, d_span, bias=False)
        self.last = nn.Linear(d, d_span, bias=False) if features == "ends" else None
        self.bias = nn.Parameter(torch.zeros(d_span))
        self.norm = nn.LayerNorm(d_span)
        self.drop = nn.Dropout(dropout)
        self.labels = nn.Linear(d_span, n_labels)
        self.hidden_tags = nn.Linear(d, d_span)
        self.tags = nn.Linear(d_span, n_tags)

    def forward(self, batch: WordBatch) -> SpanScores:
        states = self.encoder(batch)
        b, t, _ = states.shape
        first, last = torch.triu_indices(t, t, device=states.device)
        hidden = self.drop(F.relu(self.norm(self._between(states, first, last) + self.bias)))
        scores = self.labels(hidden)
        spans = scores.new_zeros(b, t, t, scores.shape[-1])
        spans[:, first, last] = scores
        tags = self.tags(self.drop(F.relu(self.hidden_tags(states))))
        return SpanScores(spans, tags)

    def _between(
        self, states: Float[Tensor, "b t d"], first: Int[Tensor, "n"], last: Int[Tensor, "n"]
    ) -> Float[Tensor, "b n d_span"]:
        """A vector for each span from word ``first`` to word ``last``, both included."""
        if self.last is not None:
            return self.first(states)[:, first] + self.last(states)[:, last]
        half = self.forward_half
        posts = torch.cat(
            (F.pad(states[..., :half], (0, 0, 1, 0)), -F.pad(states[..., half:], (0, 0, 0, 1))), dim=-1
        )  # post i is before word i: the left-to-right state minus the right-to-left state
        projected = self.first(posts)
        return projected[:, last + 1] - projected[:, first]


def build_span_parser(
    settings: SpanParserConfig,
    encoding: WordEncoding,
    n_labels: int,
    n_tags: int,
    vectors: WordVectorRows | None = None,
) -> SpanParser:
    """The parser that a config describes, with random weights."""
    encoder = build_sentence_encoder(settings, encoding, vectors)
    return SpanParser(encoder, settings.features, settings.d_span, n_labels, n_tags, settings.dropout)
