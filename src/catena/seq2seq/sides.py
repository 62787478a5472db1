"""The two vocabularies of an encoder-decoder, as its builder sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class VocabularyInfo:
    """What a model is told of its two vocabularies.

    Args:
        n_source: size of the source vocabulary.
        counts: how often each target id occurs, ``end`` among them; their number is the size of the vocabulary.
        begin: the target id that is read first.
        end: the target id that ends a sequence.
        forbidden: target ids that never come, such as padding and ``begin``.
        shared: whether both sides have one vocabulary, so that they may share one table of vectors.
    """

    n_source: int
    counts: Sequence[int]
    begin: int
    end: int
    forbidden: tuple[int, ...] = ()
    shared: bool = False

    @property
    def v(self) -> int:
        return len(self.counts)
