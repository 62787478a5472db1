r"""The biaffine dependency parser: its network and losses, and heads of a sentence as integers.

Heads of a sentence as integers: tests for trees, lifting of crossing arcs, and which trees can be trained on.

``heads[i]`` is the head of word ``i + 1``; 0 is the root, and -1 means that the head is not known.

A biaffine parser: a score for every arc between two words, and for every relation on it (Dozat & Manning 2017).

.. math::
    a_{hm} = y_m^\top U x_h + u^\top x_h, \qquad
    l_{hm}(q) = [y'_m; 1]^\top U_q\, [x'_h; 1]

where :math:`x` are vectors of words as heads and :math:`y` as dependents, each from its own layer over the encoder's
states; :math:`x'` and :math:`y'` are those for relations. The root has a learned state.

Losses of a dependency parser, one value for each sentence.

With the score :math:`s(y)` of a tree, the sum of the scores of its arcs:

===========  =========================================================================================================
matrix_tree  :math:`\log \sum_{y'} e^{s(y')} - s(y)` over all trees (Koo et al. 2007)
eisner       the same over projective trees
head         :math:`-\sum_m \log \mathrm{softmax}_h(a_{hm})` at the head of each word, tree or not (Dozat & Manning)
margin       :math:`\max_{y'} (s(y') + c(y', y)) - s(y)`, with a cost c for each word whose arc or relation differs
             (Taskar et al. 2004; McDonald et al. 2005)
===========  =========================================================================================================

The first three add the negative log-probability of each word's relation given its arc; in the last, relations are part
of the tree and of its score. If heads are not known, matrix_tree and eisner sum over all possible ones, and head skips
the word.

Sums and searches over trees run in CPU kernels. The scores of arcs (not those of relations) are copied from a GPU: they
are few, and no loop over words runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.data.examples import ConlluSentence
from catena.encoders.init import orthogonal_
from catena.encoders.layers import Dropout
from catena.errors import FormatError
from catena.kernels.dependency.ops_relations import PackedRelations
from catena.kernels.linear.ops import CachedLinear
from catena.metrics.attachment import DependencyArc, nonprojective_words
from catena.shapes import mask_from_lengths
from catena.structure.dependency import ArcConstraint, DependencyDistribution
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.pretrained import WordVectorRows
from catena.tasks.word_inputs.encoding import WordBatch, WordEncoding
from catena.tasks.word_inputs.model import SentenceEncoder, build_sentence_encoder

UNKNOWN = -1


def get_heads(sentence: ConlluSentence) -> list[int]:
    """The heads of the words; -1 for ``_`` in the file."""
    return [UNKNOWN if word.head == "_" else int(word.head) for word in sentence.words]


def projectivize(heads: Sequence[int]) -> list[int]:
    """A projective tree close to this one.

    The shortest crossing arc is moved to the head of its head until no arcs cross (Nivre & Nilsson 2005, section 2).
    """
    found = list(heads)
    while crossing := nonprojective_words(found):
        word = min(crossing, key=lambda word: (abs(word - found[word - 1]), word))
        found[word - 1] = found[found[word - 1] - 1]
    return found


def crossing_fraction(trees: Iterable[list[int]]) -> float:
    """The fraction of the arcs of trees that cross others. Trees with unknown heads do not count."""
    known = [heads for heads in trees if UNKNOWN not in heads]
    return sum(len(nonprojective_words(heads)) for heads in known) / max(1, sum(map(len, known)))


def word_location(sentence: ConlluSentence, word: int) -> str:
    """The location of a word, such as ``train.conllu:17``."""
    row = next(i for i, row in enumerate(sentence.rows) if row.id == str(word))
    return f"{sentence.location.file}:{sentence.location.line + row}"


def require_heads(sentence: ConlluSentence) -> list[int]:
    """The heads of a gold tree. Raise FormatError if a word has none."""
    heads = get_heads(sentence)
    if UNKNOWN in heads:
        word = heads.index(UNKNOWN) + 1
        raise FormatError(
            f"{word_location(sentence, word)}: word {word} ({sentence.words[word - 1].form!r}) has no head, but gold "
            f"trees need one for every word. Fill the column HEAD."
        )
    return heads


def to_arcs(sentence: ConlluSentence, heads: Sequence[int], relations: Sequence[str]) -> list[DependencyArc]:
    """A tree in the representation of the metrics, with the tags and features of the sentence."""
    rows = zip(sentence.words, heads, relations, strict=True)
    return [DependencyArc(head, relation, word.upos, word.feats) for word, head, relation in rows]


def known_relations(sentence: ConlluSentence) -> list[str]:
    """The relations of the words with a known head."""
    return [word.deprel for word in sentence.words if word.deprel != "_" and word.head != "_"]


def reason_to_drop(heads: list[int], max_length: int, model: BiaffineParserConfig) -> str | None:
    """Why a sentence with these heads cannot be trained on; None if it can."""
    if len(heads) > max_length:
        return f"longer than max_length={max_length}"
    if all(head == UNKNOWN for head in heads):
        return "without any head"
    if UNKNOWN not in heads:
        return None
    if model.loss == "margin":
        return "without all heads, which loss = margin needs"
    if model.loss == "eisner" and not _may_be_projective(heads, model.single_root):
        return "partly annotated with crossing arcs, which loss = eisner cannot use"
    return None


def _may_be_projective(heads: list[int], single_root: bool) -> bool:
    n = len(heads) + 1
    given = ArcConstraint.partial(torch.tensor([heads]))
    tree = ProjectiveTree(torch.zeros(1, n, n), single_root=single_root, constraint=given, on_infeasible="-inf")
    return bool(tree.log_partition().isfinite())


# --- the network ------------------------------------------------------------------------------------------------------


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
        self._linear = CachedLinear()
        self._packed: PackedRelations | None = None

    def forward(self, heads: Float[Tensor, "b h d"], dependents: Float[Tensor, "b m d"]) -> Float[Tensor, "b h m k"]:
        # Axes in the order of the weights, so that little is copied: b m k i -> b (m k) i.
        turned = self.turn(dependents).flatten(1, 2)
        return (self._with_one(heads) @ turned.mT).unflatten(-1, (dependents.shape[1], -1))

    def turn(self, dependents: Float[Tensor, "*n d"]) -> Float[Tensor, "*n k i"]:
        """The product of dependents with all weights, to be multiplied with heads."""
        y = F.pad(dependents, (0, 1), value=1.0)
        return self._linear(y, self.weight.flatten(0, 1)).unflatten(-1, self.weight.shape[:2])

    def summarize(
        self, heads: Float[Tensor, "b n d"], dependents: Float[Tensor, "b n d"], lengths: Int[Tensor, "b"]
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """For the arcs to words: the best score, which it is, and log Σ exp of all; None if no kernel computes them."""
        if not CachedLinear.suits(dependents, self.weight):
            return None
        if self._packed is None or not self._packed.is_current(self.weight):
            self._packed = PackedRelations(self.weight)
        return self._packed(heads, dependents, lengths)

    def pairs(self, heads: Float[Tensor, "b t d"], dependents: Float[Tensor, "b t d"]) -> Float[Tensor, "b t k"]:
        """The scores of each dependent with one given head."""
        return (self.turn(dependents) @ self._with_one(heads)[..., None])[..., 0]

    def _with_one(self, heads: Tensor) -> Tensor:
        return F.pad(heads, (0, 1), value=1.0) if self.head_bias else heads


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
        if self.training or not nodes.is_cpu:
            head, turned, relation_head, relation_dependent = self._roles(nodes)
        else:  # without padding, which is 20 % of the positions of EWT
            real = mask_from_lengths(batch.lengths + 1, nodes.shape[1]).flatten()
            rows = self._roles(nodes.flatten(0, 1).index_select(0, real.nonzero()[:, 0]))
            index = real.cumsum(0) - 1  # of the row before at padding, where nothing is read
            head, turned, relation_head, relation_dependent = (
                x.index_select(0, index).unflatten(0, nodes.shape[:2]) for x in rows
            )
        arcs = head @ turned.mT
        return ArcScores(arcs, batch.lengths, relation_head, relation_dependent, self.relation_scores)

    def _roles(self, nodes: Float[Tensor, "*n d_in"]) -> list[Tensor]:
        """The vectors of nodes as heads and as dependents, multiplied with the weights, and both for relations."""
        head, dependent = (layer(nodes) for layer in self.arc_layers)
        of_relations = [layer(nodes) for layer in self.relation_layers]
        return [head, self.arc_scores.turn(dependent)[..., 0, :], *of_relations]


class _PackedLinear(nn.Linear):
    """A linear layer that predicts with a packed copy of its weights."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)
        self._linear = CachedLinear()

    def forward(self, x: Tensor) -> Tensor:
        return self._linear(x, self.weight, self.bias)


def _layer(settings: BiaffineParserConfig, d_in: int, d_out: int) -> nn.Module:
    linear = _PackedLinear(d_in, d_out)
    orthogonal_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, nn.LeakyReLU(0.1), Dropout(settings.dropout, time=1 if settings.locked else None))


def build_parser(
    settings: BiaffineParserConfig, encoding: WordEncoding, n_relations: int, vectors: WordVectorRows | None = None
) -> BiaffineParser:
    """A parser with random weights."""
    encoder = build_sentence_encoder(settings, encoding, vectors)
    return BiaffineParser(settings, encoder, n_relations)


# --- losses -----------------------------------------------------------------------------------------------------------


KINDS: dict[str, Callable[..., DependencyDistribution]] = {
    "projective": ProjectiveTree,
    "nonprojective": NonProjectiveTree,
}


@dataclass(frozen=True)
class GoldDependencyTrees:
    """The gold heads and relations; -1 if they are not known, and at padding.

    ``whole`` is True if every word of the batch has a head.
    """

    heads: Int[Tensor, "b t"]
    relations: Int[Tensor, "b t"]
    whole: bool


def sentence_losses(settings: BiaffineParserConfig, scores: ArcScores, gold: GoldDependencyTrees) -> Float[Tensor, "b"]:
    """The loss of each sentence."""
    if settings.loss == "margin":
        return margin_losses(settings, scores, gold)
    if settings.loss == "head":
        arcs = head_losses(scores, gold)
    else:
        kind = "projective" if settings.loss == "eisner" else "nonprojective"
        arcs = tree_losses(kind, settings.single_root, scores, gold)
    return arcs + relation_losses(scores, gold)


def head_losses(scores: ArcScores, gold: GoldDependencyTrees) -> Float[Tensor, "b"]:
    """Negative log-probability of the head of each word, independently of the other words."""
    nodes = torch.arange(scores.arcs.shape[-1], device=scores.arcs.device)
    there = (nodes <= scores.lengths[:, None])[:, :, None] & (nodes[:, None] != nodes)
    log_probs = scores.arcs.float().masked_fill(~there, -torch.inf).log_softmax(1)[:, :, 1:]
    picked = log_probs.gather(1, gold.heads.clamp_min(0)[:, None])[:, 0]
    return -torch.where(gold.heads >= 0, picked, 0.0).sum(-1)


def tree_losses(kind: str, single_root: bool, scores: ArcScores, gold: GoldDependencyTrees) -> Float[Tensor, "b"]:
    """Negative log-probability of the known heads among all trees of a kind."""
    heads = gold.heads.cpu()
    tree = KINDS[kind](scores.arcs.float().cpu(), lengths=scores.lengths.cpu(), single_root=single_root)
    right = tree.score(heads) if gold.whole else _given(tree, heads).log_partition()
    return (tree.log_partition() - right).to(scores.arcs.device)


def _given(tree: DependencyDistribution, heads: Tensor) -> DependencyDistribution:
    assert isinstance(tree, ProjectiveTree | NonProjectiveTree)
    return tree.given(ArcConstraint.partial(heads), "-inf")


def relation_losses(scores: ArcScores, gold: GoldDependencyTrees) -> Float[Tensor, "b"]:
    """Negative log-probability of the relation of each word with a known arc."""
    logits = scores.relations_at(gold.heads).float()
    targets = torch.where(gold.heads >= 0, gold.relations, -1)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="none")
    return losses.reshape(targets.shape).sum(-1)


def margin_losses(settings: BiaffineParserConfig, scores: ArcScores, gold: GoldDependencyTrees) -> Float[Tensor, "b"]:
    """Hinge loss: the best tree with its cost, minus the gold tree. All heads must be known."""
    arcs, known = scores.arcs.float(), gold.heads >= 0
    index = gold.heads.clamp_min(0)[:, None]
    at_right = scores.relations_at(gold.heads).float()  # b t k
    right = arcs[:, :, 1:].gather(1, index)[:, 0] + at_right.gather(-1, gold.relations.clamp_min(0)[..., None])[..., 0]
    # The best relation of each arc, with its cost; on the gold arc the gold relation has no cost.
    free = F.one_hot(gold.relations.clamp_min(0), at_right.shape[-1])
    best = scores.relations().float().amax(-1)[:, :, 1:] + settings.margin
    best = best.scatter(1, index, (at_right + settings.margin * (1 - free)).amax(-1)[:, None])
    rivals = F.pad(arcs[:, :, 1:] + best, (1, 0))
    tree = KINDS[settings.trees](rivals.cpu(), lengths=scores.lengths.cpu(), single_root=settings.single_root)
    return F.relu(tree.max().to(arcs.device) - torch.where(known, right, 0.0).sum(-1))
