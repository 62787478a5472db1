"""The interface of transducers, which return the best targets of a source.

Tested in tests/transduction/test_baseline.py and tests/transduction/test_ensemble.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SymbolSequence = Sequence[str]


class Link(NamedTuple):
    """A piece of the source and the aligned piece of the target; either may be empty."""

    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class TransducedString:
    """A predicted target of a source.

    Args:
        tokens: its symbols.
        log_prob: log p(y | x), summed over alignments if the model can; None if it has no probabilities.
        alignment: its best alignment.
        finished: False if it was truncated at the largest length; then log_prob excludes the end symbol.
    """

    tokens: tuple[str, ...]
    log_prob: float | None
    alignment: tuple[Link, ...]
    finished: bool = True


class StringTransducer(ABC):
    """A model of p(target | source), or a deterministic rule."""

    @abstractmethod
    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        """Return the best distinct targets of each source, best first."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except the weights of a network."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return lines that describe the model to the user."""
