"""What every transducer answers: the best targets of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SymbolSequence = Sequence[str]


class Link(NamedTuple):
    """A piece of the source and the piece of the target that is written for it; either may be empty."""

    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class TransducedString:
    """A target of a source.

    Args:
        tokens: its symbols.
        log_prob: log p(y | x), summed over alignments as far as the model can; None where it has no probabilities.
        alignment: the best of its alignments.
        finished: whether it came to its end; if not, it was cut at the greatest length, and has no factor of the end.
    """

    tokens: tuple[str, ...]
    log_prob: float | None
    alignment: tuple[Link, ...]
    finished: bool = True


class StringTransducer(ABC):
    """p(target | source), or a rule."""

    @abstractmethod
    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        """The best targets of each source, each target once, the best first."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write all but the weights of a network."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Lines about the model for a person."""
