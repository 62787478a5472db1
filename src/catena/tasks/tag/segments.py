r"""Whole segments instead of tags: the semi-Markov structure of a tagger.

.. math::  s(i, j, y) = \sum_{l=i}^{j-1} e_l(y) + b_i(y) + f_{j-1}(y) + d_{j-i}(y)

The score of a segment of kind y over words i to j-1 is the sum of a score for each word, for the first and the last
word, and for the length. Words outside of spans are segments of length 1. Adjacent segments have transition scores as
in a chain (Sarawagi & Cohen 2004, section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.data.schemes import OUTSIDE, Dialect, split_tag
from catena.numerics import NEG_INF
from catena.structure.semimarkov import SemiMarkov
from catena.tasks.tag.structures import SentenceLengths, TagIds, TagStates, TagStructure, has_holes


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
