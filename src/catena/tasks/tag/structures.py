r"""Scores of tags from the states of an encoder, and the loss of each structure.

With emissions :math:`e_i(q) = w_q \cdot h_i + b_q`, transitions :math:`a(p, q)`, a beginning and an end, the score of
tags y is :math:`s(y) = \sum_i e_i(y_i) + \sum_i a(y_{i-1}, y_i) + \dots`. The loss for the gold tags :math:`y^*` is:

==========  =================================================================================================
crf         :math:`\log \sum_y \exp s(y) - s(y^*)`
softmax     :math:`\sum_i \log \sum_q \exp e_i(q) - e_i(y^*_i)`, without transitions
memm        :math:`\sum_i \log \sum_q \exp (e_i(q) + a(y^*_{i-1}, q)) - e_i(y^*_i) - a(y^*_{i-1}, y^*_i)`
perceptron  :math:`\max_y s(y) - s(y^*)`
margin      :math:`\max_y (s(y) + c\,[\text{tags of } y \text{ that differ}]) - s(y^*)`
==========  =================================================================================================

If tags are not known, :math:`y^*` is a set: the loss sums over it (crf, softmax, memm) or uses its best sequence
(perceptron, margin). Sequences that a scheme does not allow have the score -inf.

The dynamic programs run on the CPU, whose kernels are faster than a loop of small steps on a GPU: the scores of a batch
are a few thousand numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain

_Rules = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Masks of the tags that may follow each tag, begin a sentence, and end one."""
TagStates = Float[Tensor, "b t d"]
TagIds = Int[Tensor, "b t"]
"""Ids of tags; -1 if a tag is not known, and after the end."""
SentenceLengths = Int[Tensor, " b"]


class TagStructure(nn.Module, ABC):
    """Maps states to losses and to a distribution.

    ``tags``, ``lengths`` and the result of :meth:`distribution` are on the CPU.
    """

    @abstractmethod
    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        """The loss of each sentence."""

    @abstractmethod
    def distribution(self, states: TagStates, lengths: SentenceLengths) -> StructuredDistribution:
        """The distribution over tags with these scores."""


class ChainStructure(TagStructure):
    """Emissions from a linear layer, and a table of transitions."""

    after: Tensor
    begin: Tensor
    end: Tensor

    def __init__(self, d_in: int, k: int, rules: _Rules | None) -> None:
        super().__init__()
        self.output = nn.Linear(d_in, k)
        self.transitions = nn.Parameter(torch.zeros(k, k))
        self.starts = nn.Parameter(torch.zeros(k))
        self.ends = nn.Parameter(torch.zeros(k))
        everything = np.ones((k, k), bool), np.ones(k, bool), np.ones(k, bool)
        for name, mask in zip(("after", "begin", "end"), rules or everything, strict=True):
            self.register_buffer(name, torch.from_numpy(mask), persistent=False)  # determined by the names of the tags

    def chain(self, states: TagStates, lengths: SentenceLengths) -> LinearChain:
        """The scores of all sequences, with -inf for sequences that are not allowed."""
        return LinearChain(
            self.emissions(states),
            torch.where(self.after, self.transitions, NEG_INF).cpu(),
            torch.where(self.begin, self.starts, NEG_INF).cpu(),
            torch.where(self.end, self.ends, NEG_INF).cpu(),
            lengths=lengths,
        )

    def emissions(self, states: TagStates) -> Float[Tensor, "b t k"]:
        scores = self.output(states)
        return scores.cpu() if scores.dtype == torch.float64 else scores.float().cpu()

    def distribution(self, states: TagStates, lengths: SentenceLengths) -> StructuredDistribution:
        return self.chain(states, lengths)


class CrfTagStructure(ChainStructure):
    """A conditional random field (Lafferty et al. 2001)."""

    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        chain = self.chain(states, lengths)
        if not has_holes(tags, lengths):
            return -chain.log_prob(tags)
        return chain.log_partition() - constrain_to_known_tags(chain, tags).log_partition()


class SoftmaxTagStructure(TagStructure):
    """Independent tags. The scheme's constraints apply only in prediction."""

    def __init__(self, d_in: int, k: int, rules: _Rules | None) -> None:
        super().__init__()
        self.output = nn.Linear(d_in, k)
        self.rules = None if rules is None else tuple(torch.from_numpy(mask) for mask in rules)

    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        log_probs = self.output(states).log_softmax(-1)
        there = tags.to(states.device)
        picked = log_probs.gather(-1, there.clamp_min(0)[..., None])[..., 0]
        return -picked.masked_fill(there < 0, 0.0).sum(-1)

    def distribution(self, states: TagStates, lengths: SentenceLengths) -> StructuredDistribution:
        log_probs = self.output(states).float().log_softmax(-1).cpu()
        if self.rules is None:
            return LinearChain(log_probs, lengths=lengths)
        after, begin, end = (torch.where(mask, 0.0, NEG_INF) for mask in self.rules)
        return LinearChain(log_probs, after, begin, end, lengths=lengths)


class MemmTagStructure(ChainStructure):
    """A maximum-entropy Markov model: each tag given the previous one (McCallum et al. 2000)."""

    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        if has_holes(tags, lengths):
            return -constrain_to_known_tags(self.locally_normalized(states, lengths), tags).log_partition()
        chain = self.chain(states, lengths)
        assert chain.transitions is not None
        assert chain.start is not None
        before = chain.transitions[tags[:, :-1].clamp_min(0)]
        scores = torch.cat((chain.start.expand_as(chain.emissions[:, :1]), before), dim=1) + chain.emissions
        picked = scores.log_softmax(-1).gather(-1, tags.clamp_min(0)[..., None])[..., 0]
        return -picked.masked_fill(tags < 0, 0.0).sum(-1)

    def distribution(self, states: TagStates, lengths: SentenceLengths) -> StructuredDistribution:
        return self.locally_normalized(states, lengths)

    def locally_normalized(self, states: TagStates, lengths: SentenceLengths) -> LinearChain:
        """The same distribution as a chain, with log Z = 0 unless the end of a sentence forbids a tag."""
        plain = self.chain(states, lengths)
        assert plain.transitions is not None
        assert plain.start is not None
        scores = plain.emissions[..., None, :] + plain.transitions  # b t k k
        first = (plain.emissions[:, :1] + plain.start).log_softmax(-1)
        emissions = torch.cat((first, torch.zeros_like(plain.emissions[:, 1:])), dim=1)
        ends = torch.where(self.end.cpu(), 0.0, NEG_INF).to(emissions.dtype)
        return LinearChain(emissions, end=ends, steps=_log_softmax(scores), lengths=lengths)


class PerceptronTagStructure(ChainStructure):
    """A structured perceptron (Collins 2002): updates toward the gold sequence if the best one differs."""

    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        chain = self.chain(states, lengths)
        return chain.score(chain.argmax()) - chain.score(fill_missing_tags(chain, tags, lengths))


class MarginTagStructure(ChainStructure):
    """A max-margin Markov network (Taskar et al. 2003): the margin is the number of wrong tags."""

    def __init__(self, d_in: int, k: int, rules: _Rules | None, cost: float) -> None:
        super().__init__(d_in, k, rules)
        self.cost = cost

    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        chain = self.chain(states, lengths)
        right = fill_missing_tags(chain, tags, lengths)
        wrong = (tags[..., None] >= 0) & (torch.arange(chain.emissions.shape[-1]) != tags[..., None])
        harder = chain.with_score_tensors((chain.emissions + self.cost * wrong, *chain.score_tensors()[1:]))
        return harder.score(harder.argmax()) - chain.score(right)


# --- unknown tags -----------------------------------------------------------------------------------------------------


def has_holes(tags: TagIds, lengths: SentenceLengths) -> bool:
    """Whether a tag inside a sentence is not known."""
    return bool((mask_from_lengths(lengths, tags.shape[1]) & (tags < 0)).any())


def constrain_to_known_tags(chain: LinearChain, tags: TagIds) -> LinearChain:
    """The chain restricted to the sequences with the known tags."""
    return chain.with_score_tensors((mask_other_tags(chain.emissions, tags), *chain.score_tensors()[1:]))


def mask_other_tags(emissions: Float[Tensor, "b t k"], tags: TagIds) -> Float[Tensor, "b t k"]:
    """Emissions with -inf for all tags except the known one."""
    allowed = (tags[..., None] < 0) | (torch.arange(emissions.shape[-1]) == tags[..., None])
    return torch.where(allowed, emissions, NEG_INF)


def fill_missing_tags(chain: LinearChain, tags: TagIds, lengths: SentenceLengths) -> TagIds:
    """The tags, with the best ones filled in if they are not known."""
    return constrain_to_known_tags(chain, tags).argmax() if has_holes(tags, lengths) else tags


def _log_softmax(scores: Float[Tensor, "b t k k"]) -> Float[Tensor, "b t k k"]:
    """A softmax over the last axis; rows without a possible tag stay impossible."""
    empty = (scores == NEG_INF).all(-1, keepdim=True)
    return torch.where(empty, NEG_INF, torch.where(empty, 0.0, scores).log_softmax(-1))
