r"""Scores of labeled spans and of tags from the states of an encoder.

.. math::  g_i = W_f\, \overrightarrow{h}_{i-1} - W_b\, \overleftarrow{h}_i, \qquad
           s(i, j) = V\, \mathrm{relu}(\mathrm{norm}(g_j - g_i + b))

``g_i`` belongs to the fencepost before word ``i``; the first half of an encoder's units counts as read from the left,
the second as read from the right (Stern et al. 2017, section 3.1; Kitaev and Klein 2018, section 2). The features of a
span are thus a difference of two vectors that are computed once per fencepost.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.model import SentenceEncoder, build_sentence_encoder
from catena.tasks.word_vectors import WordVectorRows


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
