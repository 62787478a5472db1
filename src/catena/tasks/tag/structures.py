r"""Scores of tags over the states of an encoder, and what each structure learns from them.

With emissions :math:`e_i(q) = w_q \cdot h_i + b_q`, transitions :math:`a(p, q)`, a beginning and an end, the score of
tags y is :math:`s(y) = \sum_i e_i(y_i) + \sum_i a(y_{i-1}, y_i) + \dots`, and for the right tags :math:`y^*`:

==========  =================================================================================================
crf         :math:`\log \sum_y \exp s(y) - s(y^*)`
softmax     :math:`\sum_i \log \sum_q \exp e_i(q) - e_i(y^*_i)`, without transitions
memm        :math:`\sum_i \log \sum_q \exp (e_i(q) + a(y^*_{i-1}, q)) - e_i(y^*_i) - a(y^*_{i-1}, y^*_i)`
perceptron  :math:`\max_y s(y) - s(y^*)`
margin      :math:`\max_y (s(y) + c\,[\text{tags of } y \text{ that differ}]) - s(y^*)`
==========  =================================================================================================

Where tags are not known, :math:`y^*` is a set: its members are summed over (crf, softmax, memm), or the best of them
stands for it (perceptron, margin). Sequences that a scheme does not allow have a score of -inf everywhere.

The dynamic programs run on the CPU, whose kernels answer sooner than a loop of small steps on a GPU does: the scores of
a batch are a few thousand numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.numerics import NEVER
from catena.shapes import mask_from_lengths
from catena.structure.base import Structured
from catena.structure.chain import LinearChain

Rules = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Which tags may follow which, begin a sentence, and end one."""
States = Float[Tensor, "b t d"]
Tags = Int[Tensor, "b t"]
"""Ids of tags; -1 where a tag is not known, and beyond the length."""
Lengths = Int[Tensor, " b"]


class TagStructure(nn.Module, ABC):
    """From states to a loss and to a distribution. ``tags`` and ``lengths`` are on the CPU, and so is what comes out
    of :meth:`distribution`."""

    @abstractmethod
    def losses(self, states: States, tags: Tags, lengths: Lengths) -> Float[Tensor, " b"]:
        """The loss of each sentence."""

    @abstractmethod
    def distribution(self, states: States, lengths: Lengths) -> Structured:
        """The distribution over tags that the scores stand for."""


class ChainStructure(TagStructure):
    """Emissions by a linear layer, and a table of transitions."""

    after: Tensor
    begin: Tensor
    end: Tensor

    def __init__(self, d_in: int, k: int, rules: Rules | None) -> None:
        super().__init__()
        self.output = nn.Linear(d_in, k)
        self.transitions = nn.Parameter(torch.zeros(k, k))
        self.starts = nn.Parameter(torch.zeros(k))
        self.ends = nn.Parameter(torch.zeros(k))
        everything = np.ones((k, k), bool), np.ones(k, bool), np.ones(k, bool)
        for name, mask in zip(("after", "begin", "end"), rules or everything, strict=True):
            self.register_buffer(name, torch.from_numpy(mask), persistent=False)  # follows from the names of the tags

    def chain(self, states: States, lengths: Lengths) -> LinearChain:
        """The scores of all sequences, with -inf for those that are not allowed."""
        return LinearChain(
            self.emissions(states),
            torch.where(self.after, self.transitions, NEVER).cpu(),
            torch.where(self.begin, self.starts, NEVER).cpu(),
            torch.where(self.end, self.ends, NEVER).cpu(),
            lengths=lengths,
        )

    def emissions(self, states: States) -> Float[Tensor, "b t k"]:
        scores = self.output(states)
        return scores.cpu() if scores.dtype == torch.float64 else scores.float().cpu()

    def distribution(self, states: States, lengths: Lengths) -> Structured:
        return self.chain(states, lengths)


class Crf(ChainStructure):
    """A conditional random field (Lafferty et al. 2001)."""

    def losses(self, states: States, tags: Tags, lengths: Lengths) -> Float[Tensor, " b"]:
        chain = self.chain(states, lengths)
        if not has_holes(tags, lengths):
            return -chain.log_prob(tags)
        return chain.log_partition() - filled_in(chain, tags).log_partition()


class Softmax(TagStructure):
    """Each tag by itself. What a scheme does not allow is left out in prediction alone."""

    def __init__(self, d_in: int, k: int, rules: Rules | None) -> None:
        super().__init__()
        self.output = nn.Linear(d_in, k)
        self.rules = None if rules is None else tuple(torch.from_numpy(mask) for mask in rules)

    def losses(self, states: States, tags: Tags, lengths: Lengths) -> Float[Tensor, " b"]:
        log_probs = self.output(states).log_softmax(-1)
        there = tags.to(states.device)
        picked = log_probs.gather(-1, there.clamp_min(0)[..., None])[..., 0]
        return -picked.masked_fill(there < 0, 0.0).sum(-1)

    def distribution(self, states: States, lengths: Lengths) -> Structured:
        log_probs = self.output(states).float().log_softmax(-1).cpu()
        if self.rules is None:
            return LinearChain(log_probs, lengths=lengths)
        after, begin, end = (torch.where(mask, 0.0, NEVER) for mask in self.rules)
        return LinearChain(log_probs, after, begin, end, lengths=lengths)


class Memm(ChainStructure):
    """A maximum-entropy Markov model: each tag given the one before it (McCallum et al. 2000)."""

    def losses(self, states: States, tags: Tags, lengths: Lengths) -> Float[Tensor, " b"]:
        if has_holes(tags, lengths):
            return -filled_in(self.locally_normalised(states, lengths), tags).log_partition()
        chain = self.chain(states, lengths)
        assert chain.transitions is not None
        assert chain.start is not None
        before = chain.transitions[tags[:, :-1].clamp_min(0)]
        scores = torch.cat((chain.start.expand_as(chain.emissions[:, :1]), before), dim=1) + chain.emissions
        picked = scores.log_softmax(-1).gather(-1, tags.clamp_min(0)[..., None])[..., 0]
        return -picked.masked_fill(tags < 0, 0.0).sum(-1)

    def distribution(self, states: States, lengths: Lengths) -> Structured:
        return self.locally_normalised(states, lengths)

    def locally_normalised(self, states: States, lengths: Lengths) -> LinearChain:
        """The same distribution as a chain, whose log Z is 0 unless the end of a sentence forbids a tag."""
        plain = self.chain(states, lengths)
        assert plain.transitions is not None
        assert plain.start is not None
        scores = plain.emissions[..., None, :] + plain.transitions  # b t k k
        first = (plain.emissions[:, :1] + plain.start).log_softmax(-1)
        emissions = torch.cat((first, torch.zeros_like(plain.emissions[:, 1:])), dim=1)
        ends = torch.where(self.end.cpu(), 0.0, NEVER).to(emissions.dtype)
        return LinearChain(emissions, end=ends, steps=_log_softmax(scores), lengths=lengths)


class Perceptron(ChainStructure):
    """A structured perceptron (Collins 2002): the best sequence gives way to the right one."""

    def losses(self, states: States, tags: Tags, lengths: Lengths) -> Float[Tensor, " b"]:
        chain = self.chain(states, lengths)
        return chain.score(chain.argmax()) - chain.score(completed(chain, tags, lengths))


class Margin(ChainStructure):
    """A max-margin Markov network (Taskar et al. 2003): other sequences lose by the number of their wrong tags."""

    def __init__(self, d_in: int, k: int, rules: Rules | None, cost: float) -> None:
        super().__init__(d_in, k, rules)
        self.cost = cost

    def losses(self, states: States, tags: Tags, lengths: Lengths) -> Float[Tensor, " b"]:
        chain = self.chain(states, lengths)
        right = completed(chain, tags, lengths)
        wrong = (tags[..., None] >= 0) & (torch.arange(chain.emissions.shape[-1]) != tags[..., None])
        harder = chain.with_score_tensors((chain.emissions + self.cost * wrong, *chain.score_tensors()[1:]))
        return harder.score(harder.argmax()) - chain.score(right)


# --- holes ------------------------------------------------------------------------------------------------------------


def has_holes(tags: Tags, lengths: Lengths) -> bool:
    """Whether a tag inside a sentence is not known."""
    return bool((mask_from_lengths(lengths, tags.shape[1]) & (tags < 0)).any())


def filled_in(chain: LinearChain, tags: Tags) -> LinearChain:
    """The chain over those sequences alone that have the tags which are known."""
    return chain.with_score_tensors((only(chain.emissions, tags), *chain.score_tensors()[1:]))


def only(emissions: Float[Tensor, "b t k"], tags: Tags) -> Float[Tensor, "b t k"]:
    """Emissions with -inf for all tags but the known one."""
    allowed = (tags[..., None] < 0) | (torch.arange(emissions.shape[-1]) == tags[..., None])
    return torch.where(allowed, emissions, NEVER)


def completed(chain: LinearChain, tags: Tags, lengths: Lengths) -> Tags:
    """The tags, with the best ones where they are not known."""
    return filled_in(chain, tags).argmax() if has_holes(tags, lengths) else tags


def _log_softmax(scores: Float[Tensor, "b t k k"]) -> Float[Tensor, "b t k k"]:
    """A softmax over the last axis; rows without a possible tag stay impossible."""
    empty = (scores == NEVER).all(-1, keepdim=True)
    return torch.where(empty, NEVER, torch.where(empty, 0.0, scores).log_softmax(-1))
