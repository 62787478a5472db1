r"""Losses of a dependency parser, one value for each sentence.

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

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from catena.structure.dependency import ArcConstraint, DependencyDistribution
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.projective import ProjectiveTree
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.model import ArcScores

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
