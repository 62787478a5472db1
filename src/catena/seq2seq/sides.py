"""The two vocabularies of an encoder-decoder, for its builder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class VocabularyInfo:
    """Sizes and special ids of the two vocabularies of a model.

    Args:
        n_source: the size of the source vocabulary.
        counts: the count of each target id, including ``end``; one for each id of the vocabulary.
        begin: the target id of the start token.
        end: the target id that ends a sequence.
        forbidden: target ids that never occur, such as padding and ``begin``.
        shared: whether both sides have one vocabulary, so that they can use one embedding table.
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
