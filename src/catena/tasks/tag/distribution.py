"""Scores of a linear chain in arrays, and its best tags without torch and kernels.

Tested in tests/tasks/tag/test_chains.py.

Distribution over the tags of sentences: best, n best, samples, and probabilities of tags and spans.

All results are exact. A chain is Markov, so the probability of a span is the probability of its first tag, times the
probability of each next tag given the previous one, times the probability that the span ends there. These follow from
the marginals of tags and of adjacent tags. Imports torch where it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int64

from catena.accelerators import can_skip_kernels
from catena.data.schemes import OUTSIDE, Span, spans_to_tags, tags_to_spans
from catena.errors import DataError, ImpossibleError
from catena.tasks.tag.tag_set import TagSet

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from catena.structure.chain import LinearChain
    from catena.structure.semimarkov import SemiMarkov
    from catena.tasks.tag.structures import SegmentKinds


def viterbi_microseconds(tokens: int, k: int) -> int:
    """A rough estimate of the time of :meth:`ChainScores.best`."""
    return tokens * (50 + k * k // 50)


@dataclass(frozen=True, eq=False)
class ChainScores:
    """Scores of the tags of sentences, as :class:`~catena.structure.chain.LinearChain` takes them, in arrays."""

    emissions: Float[np.ndarray, "b t k"]
    lengths: Int64[np.ndarray, " b"]
    transitions: Float[np.ndarray, "k k"] | None = None
    start: Float[np.ndarray, " k"] | None = None
    end: Float[np.ndarray, " k"] | None = None
    steps: Float[np.ndarray, "b t k k"] | None = None

    def restricted(
        self, after: Bool[np.ndarray, "k k"], begin: Bool[np.ndarray, " k"], end: Bool[np.ndarray, " k"]
    ) -> ChainScores:
        """The scores of the tags that may follow each tag, begin and end a sentence; -inf for all others."""
        pairs = ((self.transitions, after), (self.start, begin), (self.end, end))
        moves, first, last = (np.where(mask, 0.0 if table is None else table, -np.inf) for table, mask in pairs)
        return replace(self, transitions=moves, start=first, end=last)

    @classmethod
    def of_chain(cls, chain: LinearChain) -> ChainScores:
        """The scores of a distribution over the tags of a batch of sentences, without a mask."""
        tables = (chain.transitions, chain.start, chain.end, chain.steps)
        moves, start, end, steps = (None if x is None else x.detach().cpu().numpy() for x in tables)
        emissions = chain.emissions.detach().cpu().numpy()
        lengths = np.full(len(emissions), emissions.shape[1]) if chain.lengths is None else chain.lengths.cpu().numpy()
        return cls(emissions, lengths, moves, start, end, steps)

    def to_chain(self) -> LinearChain:
        """The distribution over the tags of each sentence."""
        import torch

        from catena.structure.chain import LinearChain

        tables = (self.transitions, self.start, self.end, self.steps)
        moves, start, end, steps = (None if x is None else torch.from_numpy(np.array(x)) for x in tables)
        emissions, lengths = (torch.from_numpy(np.array(x)) for x in (self.emissions, self.lengths))
        return LinearChain(emissions, moves, start, end, steps, lengths=lengths)

    def best(self, row: int) -> list[int]:
        """The tags with the largest score in one sentence, -1 if no sequence is possible (Viterbi 1967)."""
        n, k = int(self.lengths[row]), self.emissions.shape[-1]
        moves = np.zeros((k, k)) if self.transitions is None else self.transitions
        scores = self.emissions[row, 0] + (0.0 if self.start is None else self.start)
        before = []
        for t in range(1, n):
            pairs = scores[:, None] + moves + (0.0 if self.steps is None else self.steps[row, t])  # p q
            before.append(pairs.argmax(0))
            scores = self.emissions[row, t] + pairs.max(0)
        scores = scores + (0.0 if self.end is None else self.end)
        tags = [int(scores.argmax())]
        for choice in reversed(before):
            tags.append(int(choice[tags[-1]]))
        return tags[::-1] if scores.max() > -np.inf else [-1] * n


# --- distributions over tags ------------------------------------------------------------------------------------------


TagStructureValue = tuple[list[str], float]
"""Tags of the model and their log-probability in nats."""


class TagDistribution(ABC):
    """Distribution over the tags of each sentence in a batch, in the scheme of the model."""

    tagging: TagSet
    lengths: list[int]

    @abstractmethod
    def best(self) -> list[list[str]]:
        """The most probable tags of each sentence."""

    @abstractmethod
    def n_best(self, n: int) -> list[list[TagStructureValue]]:
        """The ``n`` most probable tag sequences of each sentence, best first; fewer if there are not as many."""

    @abstractmethod
    def samples(self, n: int, generator: torch.Generator) -> list[list[TagStructureValue]]:
        """``n`` tag sequences of each sentence, sampled from the distribution."""

    @abstractmethod
    def tag_probabilities(self) -> list[np.ndarray]:
        """For each sentence, ``[i, q]`` is the probability that word ``i`` has tag ``q``."""

    @abstractmethod
    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """For each sentence, the probability of each span with these boundaries and this kind."""

    @abstractmethod
    def given(self, allowed: Sequence[np.ndarray]) -> TagDistribution:
        """The conditional distribution, where ``allowed[b][i, q]`` is True if word ``i`` may have tag ``q``."""

    def padded(self, allowed: Sequence[np.ndarray]) -> Bool[Tensor, "b t q"]:
        """Masks of sentences as one tensor, True after their ends."""
        import torch

        found = np.ones((len(allowed), max([*self.lengths, 1]), len(self.tagging.names)), bool)
        for row, mask in zip(found, allowed, strict=True):
            row[: len(mask)] = mask
        return torch.from_numpy(found)


class ChainDistribution(TagDistribution):
    """Tags of a linear chain."""

    def __init__(self, chain: LinearChain, tagging: TagSet, lengths: Sequence[int]) -> None:
        self.chain, self.tagging, self.lengths = chain, tagging, list(lengths)

    def best(self) -> list[list[str]]:
        k = len(self.tagging.names)
        if self.chain.mask is None and can_skip_kernels(viterbi_microseconds(sum(self.lengths), k)):
            scores = ChainScores.of_chain(self.chain)
            return [self._names(scores.best(row), n) for row, n in enumerate(self.lengths)]
        return [self._names(row, n) for row, n in zip(self.chain.argmax().tolist(), self.lengths, strict=True)]

    def n_best(self, n: int) -> list[list[TagStructureValue]]:
        scores, members = self.chain.topk(n)
        log_probs = scores - self.chain.log_partition()
        return self._answers(members, log_probs)

    def samples(self, n: int, generator: torch.Generator) -> list[list[TagStructureValue]]:
        members = self.chain.sample(n, generator)
        return self._answers(members, self.chain.log_prob(members))

    def tag_probabilities(self) -> list[np.ndarray]:
        found = self.chain.marginals().numpy()
        return [row[:n] for row, n in zip(found, self.lengths, strict=True)]

    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        if not any(spans):
            return [[] for _ in spans]
        wide = self.chain.with_score_tensors([x if x is None else x.double() for x in self.chain.score_tensors()])
        ones, pairs = wide.marginals().numpy(), wide.pair_marginals().numpy()
        return [[self._span(ones[b], pairs[b], span, self.lengths[b]) for span in some] for b, some in enumerate(spans)]

    def _span(self, ones: np.ndarray, pairs: np.ndarray, span: Span, n: int) -> float:
        own, names = self.tagging.own, self.tagging.names
        assert own is not None
        size = span.end - span.begin
        own_tags = spans_to_tags([Span(0, size, span.kind)], size, own)
        if any(tag not in names for tag in own_tags):
            return 0.0
        tags = names.ids(own_tags)
        probability = float(ones[span.begin, tags[0]])
        for i, (p, q) in enumerate(pairwise(tags), span.begin + 1):
            probability *= _share(pairs[i, p, q], ones[i - 1, p])
        # In iob2 the word after a span decides whether it continues; in bilou the last word marks its end.
        goes_on = f"{own.inside}-{span.kind}" if span.kind else own.inside
        if own.scheme == "iob2" and span.end < n and goes_on in names:
            last = tags[-1]
            probability *= 1 - _share(pairs[span.end, last, names.id(goes_on)], ones[span.end - 1, last])
        return min(max(probability, 0.0), 1.0)

    def given(self, allowed: Sequence[np.ndarray]) -> ChainDistribution:
        emissions = self.chain.emissions.masked_fill(~self.padded(allowed), -np.inf)
        chain = self.chain.with_score_tensors((emissions, *self.chain.score_tensors()[1:]))
        _check_possible(chain.log_partition())
        return ChainDistribution(chain, self.tagging, self.lengths)

    def _names(self, ids: Sequence[int], n: int) -> list[str]:
        if n and ids[0] < 0:
            raise DataError(
                f"No tag sequence that the scheme allows fits a sentence of {n} word{'s' if n != 1 else ''}. Train on "
                f"more data, or with --no-constrain."
            )
        return [self.tagging.names.names[i] for i in ids[:n]]

    def _answers(self, members: Tensor, log_probs: Tensor) -> list[list[TagStructureValue]]:
        ids, numbers = members.transpose(0, 1).tolist(), log_probs.transpose(0, 1).tolist()
        return [
            [(self._names(row, n), p) for row, p in zip(some, chances, strict=True) if p != -np.inf]
            for some, chances, n in zip(ids, numbers, self.lengths, strict=True)
        ]


class SegmentDistribution(TagDistribution):
    """Tags of a segmentation."""

    def __init__(self, segments: SemiMarkov, kinds: SegmentKinds, tagging: TagSet, lengths: Sequence[int]) -> None:
        self.segments, self.kinds, self.tagging, self.lengths = segments, kinds, tagging, list(lengths)

    def best(self) -> list[list[str]]:
        return [self._tags(row, n) for row, n in zip(self.segments.argmax().tolist(), self.lengths, strict=True)]

    def n_best(self, n: int) -> list[list[TagStructureValue]]:
        scores, members = self.segments.topk(n)
        return self._answers(members, scores - self.segments.log_partition())

    def samples(self, n: int, generator: torch.Generator) -> list[list[TagStructureValue]]:
        members = self.segments.sample(n, generator)
        return self._answers(members, self.segments.log_prob(members))

    def tag_probabilities(self) -> list[np.ndarray]:
        found = []
        for row, n in zip(self.segments.marginals().detach().numpy(), self.lengths, strict=True):
            table = np.zeros((n, len(self.tagging.names)))
            for y, kind in enumerate(self.kinds.labels):
                for size in range(1, min(n, row.shape[1]) + 1):
                    self._spread(table, row[: n - size + 1, size - 1, y], size, kind)
            found.append(table)
        return found

    def _spread(self, table: np.ndarray, chances: np.ndarray, size: int, kind: str | None) -> None:
        """Add the probabilities of segments with one size and kind, by start position, to those of their tags."""
        if not chances.any():
            return
        for j, tag in enumerate(self._segment_tags(size, kind)):
            if tag in self.tagging.names:
                table[j : j + len(chances), self.tagging.names.id(tag)] += chances

    def span_probabilities(self, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        marginals = self.segments.marginals().detach().numpy()
        m, label = marginals.shape[2], {kind: y for y, kind in enumerate(self.kinds.labels)}
        return [
            [
                float(marginals[b, begin, end - begin - 1, label[kind]]) if end - begin <= m and kind in label else 0.0
                for begin, end, kind in some
            ]
            for b, some in enumerate(spans)
        ]

    def given(self, allowed: Sequence[np.ndarray]) -> SegmentDistribution:
        from catena.tasks.tag.structures import restrict_tags

        segments = restrict_tags(self.segments, self.kinds, self.padded(allowed))
        _check_possible(segments.log_partition())
        return SegmentDistribution(segments, self.kinds, self.tagging, self.lengths)

    def _segment_tags(self, size: int, kind: str | None) -> list[str]:
        assert self.tagging.own is not None
        return [OUTSIDE] * size if kind is None else spans_to_tags([Span(0, size, kind)], size, self.tagging.own)

    def _tags(self, triples: Sequence[Sequence[int]], n: int) -> list[str]:
        tags: list[str] = []
        for begin, end, y in triples:
            if begin >= 0:
                tags += self._segment_tags(end - begin, self.kinds.labels[y])
        return tags

    def _answers(self, members: Tensor, log_probs: Tensor) -> list[list[TagStructureValue]]:
        rows, numbers = members.transpose(0, 1).tolist(), log_probs.transpose(0, 1).tolist()
        return [
            [(self._tags(triples, n), p) for triples, p in zip(some, chances, strict=True) if p != -np.inf]
            for some, chances, n in zip(rows, numbers, self.lengths, strict=True)
        ]


def own_spans(tagging: TagSet, tags: Sequence[str]) -> list[Span]:
    """The spans of the model's tags; empty if the tags are invalid or do not encode spans."""
    if tagging.own is None:
        return []
    try:
        return tags_to_spans(tags, tagging.own.scheme)
    except DataError:
        return sorted(Span(*span) for span in tagging.spans(tags))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def _check_possible(log_z: Tensor) -> None:
    rows = (log_z == -np.inf).nonzero()[:, 0].tolist()
    if rows:
        raise ImpossibleError(f"The given tags allow no tag sequence for sentence {rows[0] + 1}. Remove some of them.")
