r"""Scores of tags or segments from the states of an encoder, and the loss of each structure, also with unknown tags.

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

Whole segments instead of tags: the semi-Markov structure of a tagger.

.. math::  s(i, j, y) = \sum_{l=i}^{j-1} e_l(y) + b_i(y) + f_{j-1}(y) + d_{j-i}(y)

The score of a segment of kind y over words i to j-1 is the sum of a score for each word, for the first and the last
word, and for the length. Words outside of spans are segments of length 1. Adjacent segments have transition scores as
in a chain (Sarawagi & Cohen 2004, section 2.2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.data.schemes import OUTSIDE, Dialect, split_tag
from catena.numerics import NEG_INF
from catena.shapes import mask_from_lengths
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain
from catena.structure.semimarkov import SemiMarkov

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


# --- whole segments instead of tags -----------------------------------------------------------------------------------


class SegmentKinds:
    """The kinds of segments for a list of tags, and the tags of the words of a segment."""

    def __init__(self, names: Sequence[str], own: Dialect) -> None:
        parts = [split_tag(name) for name in names]
        self.kinds = sorted({kind for letter, kind in parts if letter != OUTSIDE})
        self.has_outside = OUTSIDE in names
        self.labels: list[str | None] = [*self.kinds, *([None] if self.has_outside else [])]
        number = {kind: y for y, kind in enumerate(self.labels)}
        self.label_of = torch.tensor([number[None if letter == OUTSIDE else kind] for letter, kind in parts])
        self.begins = torch.tensor([letter in ("B", "U", "S", OUTSIDE) for letter, _ in parts])
        roles = self._roles(own)
        # places[role][y, q]: whether a word in this role of a segment of kind y has the tag q
        self.places = {
            role: torch.tensor([[self._is(q, letters, kind) for q in names] for kind in self.labels])
            for role, letters in roles.items()
        }

    def _roles(self, own: Dialect) -> dict[str, str]:
        if own.scheme == "bilou":
            return {"only": own.only, "first": "B", "inside": own.inside, "last": own.last}
        return {"only": "B", "first": "B", "inside": "I", "last": "I"}

    def _is(self, tag: str, letter: str, kind: str | None) -> bool:
        if kind is None:
            return tag == OUTSIDE and letter in ("B", "U", "S")
        return tag == (f"{letter}-{kind}" if kind else letter)

    def triples(self, tags: TagIds, lengths: SentenceLengths) -> Int[Tensor, "b t 3"]:
        """The segments of known tags, in the representation of :class:`SemiMarkov`."""
        b, t = tags.shape
        found = torch.full((b, t, 3), -1)
        for row, n, out in zip(tags, lengths.tolist(), found, strict=True):
            own = row[:n]
            starts = self.begins[own].nonzero()[:, 0]
            ends = torch.cat((starts[1:], torch.tensor([n])))
            out[: len(starts)] = torch.stack((starts, ends, self.label_of[own[starts]]), dim=-1)
        return found

    def allowed(self, tags: Bool[Tensor, "b t q"], m: int) -> Bool[Tensor, "b t m y"]:
        """Mask of segments whose tags are all allowed: ``[..., i, l, y]`` has l + 1 words, starting at i."""
        b, t, _ = tags.shape
        fits = {
            role: (tags[:, :, None, :] & table).any(-1)  # b t y
            for role, table in self.places.items()
        }
        found = torch.zeros(b, t, m, len(self.labels), dtype=torch.bool)
        found[:, :, 0] = fits["only"]
        running = fits["first"]
        for length in range(1, min(m, t)):
            reach = t - length
            here = running[:, :reach] & fits["last"][:, length:]
            found[:, :reach, length] = here
            running = running[:, :reach] & fits["inside"][:, length:]
        return found


class SemiMarkovStructure(TagStructure):
    """Scores of segments, trained by maximum likelihood."""

    def __init__(self, d_in: int, kinds: SegmentKinds, m: int) -> None:
        super().__init__()
        k = len(kinds.labels)
        self.kinds, self.m = kinds, m
        self.words, self.first, self.last = (nn.Linear(d_in, k) for _ in range(3))
        self.durations = nn.Parameter(torch.zeros(m, k))
        self.transitions = nn.Parameter(torch.zeros(k, k))
        self.starts, self.ends = nn.Parameter(torch.zeros(k)), nn.Parameter(torch.zeros(k))
        short = torch.ones(m, k, dtype=torch.bool)
        if kinds.has_outside:
            short[1:, -1] = False
        self.register_buffer("short", short, persistent=False)

    def losses(self, states: TagStates, tags: TagIds, lengths: SentenceLengths) -> Float[Tensor, " b"]:
        whole = self.semi_markov(states, lengths)
        if not has_holes(tags, lengths):
            return -whole.log_prob(self.kinds.triples(tags, lengths))
        known = tags[..., None] == torch.arange(len(self.kinds.label_of))
        return whole.log_partition() - self.given(whole, known | (tags[..., None] < 0)).log_partition()

    def distribution(self, states: TagStates, lengths: SentenceLengths) -> SemiMarkov:
        return self.semi_markov(states, lengths)

    def given(self, whole: SemiMarkov, tags: Bool[Tensor, "b t q"]) -> SemiMarkov:
        """The distribution over the segmentations whose tags are all allowed."""
        return restrict_tags(whole, self.kinds, tags)

    def semi_markov(self, states: TagStates, lengths: SentenceLengths) -> SemiMarkov:
        states = states if states.dtype == torch.float64 else states.float()
        words, first, last = (layer(states).cpu() for layer in (self.words, self.first, self.last))
        m = min(self.m, words.shape[1])
        sums, running = [], first
        for length in range(m):
            running = running + _shifted(words, length)
            sums.append(running + _shifted(last, length))
        short = self.get_buffer("short")[:m]
        durations = torch.where(short, self.durations[:m], NEG_INF).cpu()
        segments = torch.stack(sums, dim=2) + durations
        return SemiMarkov(segments, self.transitions.cpu(), self.starts.cpu(), self.ends.cpu(), lengths)


def restrict_tags(whole: SemiMarkov, kinds: SegmentKinds, tags: Bool[Tensor, "b t q"]) -> SemiMarkov:
    """The distribution over the segmentations whose tags are all allowed."""
    allowed = kinds.allowed(tags, whole.segments.shape[-2])
    segments = torch.where(allowed, whole.segments, NEG_INF)
    return whole.with_score_tensors((segments, *whole.score_tensors()[1:]))


def _shifted(x: Float[Tensor, "b t k"], by: int) -> Float[Tensor, "b t k"]:
    """``[..., i]`` is the input at ``i + by``; 0 after the end."""
    return x if by == 0 else torch.cat((x[:, by:], torch.zeros_like(x[:, :by])), dim=1)
