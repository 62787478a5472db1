r"""A biaffine parser: a score for every arc between two words, and for every relation on it (Dozat & Manning 2017).

.. math::
    a_{hm} = y_m^\top U x_h + u^\top x_h, \qquad
    l_{hm}(q) = [y'_m; 1]^\top U_q\, [x'_h; 1]

where :math:`x` are vectors of words as heads and :math:`y` as dependents, each from its own layer over the encoder's
states; :math:`x'` and :math:`y'` are those for relations. The root has a learned state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.dropout import Dropout
from catena.encoders.init import orthogonal_
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.model import SentenceEncoder, build_sentence_encoder
from catena.tasks.word_vectors import WordVectorRows


class Biaffine(nn.Module):
    """Scores of pairs: ``forward(x, y)[b, h, m, q]``. Weights start at 0, so that all pairs are equal at first.

    Args:
        d: size of the vectors.
        k: number of scores for each pair.
        head_bias: add a term that depends only on the dependent. For arcs it would cancel out, since every word has
            one head.
    """

    def __init__(self, d: int, k: int, head_bias: bool) -> None:
        super().__init__()
        self.head_bias = head_bias
        self.weight = nn.Parameter(torch.zeros(k, d + head_bias, d + 1))

    def forward(self, heads: Float[Tensor, "b h d"], dependents: Float[Tensor, "b m d"]) -> Float[Tensor, "b h m k"]:
        x, y = self._with_ones(heads, dependents)
        # Axes in the order of the weights, so that nothing is copied: b m k i -> b (m k) i.
        turned = self._turn(y).flatten(1, 2)
        return (x @ turned.mT).unflatten(-1, (y.shape[1], -1))

    def pairs(self, heads: Float[Tensor, "b t d"], dependents: Float[Tensor, "b t d"]) -> Float[Tensor, "b t k"]:
        """The scores of each dependent with one given head."""
        x, y = self._with_ones(heads, dependents)
        return (self._turn(y) @ x[..., None])[..., 0]

    def _turn(self, y: Tensor) -> Tensor:
        """The product of dependents with all weights, ``[b, m, k, i]``."""
        return F.linear(y, self.weight.flatten(0, 1)).unflatten(-1, self.weight.shape[:2])

    def _with_ones(self, heads: Tensor, dependents: Tensor) -> tuple[Tensor, Tensor]:
        return F.pad(heads, (0, 1), value=1.0) if self.head_bias else heads, F.pad(dependents, (0, 1), value=1.0)


@dataclass(frozen=True)
class ArcScores:
    """The scores of a batch of sentences, with relations scored on demand.

    Args:
        arcs: ``arcs[b, h, m]`` is the score of the arc from ``h`` to ``m``; node 0 is the root.
        lengths: number of words of each sentence.
        heads: vectors of the nodes as heads, for relations.
        dependents: vectors of the nodes as dependents, for relations.
        biaffine: the scorer of relations.
    """

    arcs: Float[Tensor, "b n n"]
    lengths: Int[Tensor, "b"]
    heads: Float[Tensor, "b n d"]
    dependents: Float[Tensor, "b n d"]
    biaffine: Biaffine

    def relations(self) -> Float[Tensor, "b n n k"]:
        """The scores of every relation on every arc."""
        return self.biaffine(self.heads, self.dependents)

    def relations_from(self, first: int, last: int) -> Float[Tensor, "b h n k"]:
        """The scores for the heads ``first`` to ``last - 1``."""
        return self.biaffine(self.heads[:, first:last], self.dependents)

    def relations_at(self, heads: Int[Tensor, "b t"]) -> Float[Tensor, "b t k"]:
        """The scores of the relations of each word to one given head; arbitrary if the head is below 0."""
        index = heads.clamp_min(0)[..., None].expand(-1, -1, self.heads.shape[-1])
        return self.biaffine.pairs(self.heads.gather(1, index), self.dependents[:, 1:])


class BiaffineParser(nn.Module):
    """Maps words to scores of arcs and relations."""

    def __init__(self, settings: BiaffineParserConfig, encoder: SentenceEncoder, n_relations: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.root = nn.Parameter(torch.randn(encoder.d_out) / encoder.d_out**0.5)
        self.arc_layers = nn.ModuleList(_layer(settings, encoder.d_out, settings.d_arc) for _ in range(2))
        self.relation_layers = nn.ModuleList(_layer(settings, encoder.d_out, settings.d_relation) for _ in range(2))
        self.arc_scores = Biaffine(settings.d_arc, 1, head_bias=False)
        self.relation_scores = Biaffine(settings.d_relation, n_relations, head_bias=True)

    def forward(self, batch: WordBatch) -> ArcScores:
        states = self.encoder(batch)
        root = self.root.to(states.dtype).expand(len(states), 1, -1)
        nodes = torch.cat((root, states), dim=1)
        head, dependent = (layer(nodes) for layer in self.arc_layers)
        arcs = self.arc_scores(head, dependent)[..., 0]
        head, dependent = (layer(nodes) for layer in self.relation_layers)
        return ArcScores(arcs, batch.lengths, head, dependent, self.relation_scores)


def _layer(settings: BiaffineParserConfig, d_in: int, d_out: int) -> nn.Module:
    linear = nn.Linear(d_in, d_out)
    orthogonal_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, nn.LeakyReLU(0.1), Dropout(settings.dropout, time=1 if settings.locked else None))


def build_parser(
    settings: BiaffineParserConfig, encoding: WordEncoding, n_relations: int, vectors: WordVectorRows | None = None
) -> BiaffineParser:
    """A parser with random weights."""
    encoder = build_sentence_encoder(settings, encoding, vectors)
    return BiaffineParser(settings, encoder, n_relations)
