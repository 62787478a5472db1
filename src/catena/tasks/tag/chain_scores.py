"""Scores of a linear chain in arrays, and its best tags without torch and kernels.

Tested in tests/tasks/tag/test_chains.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int64

if TYPE_CHECKING:
    from catena.structure.chain import LinearChain


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
