"""What a transducer finds: a target, its probability, and which part of it comes from which part of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Link(NamedTuple):
    """A piece of the source and the piece of the target that is written for it; either may be empty."""

    source: tuple[str, ...]
    target: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A target of a source.

    Args:
        tokens: its symbols.
        log_prob: log p(y | x), summed over alignments as far as the model can.
        alignment: the best of its alignments.
    """

    tokens: tuple[str, ...]
    log_prob: float
    alignment: tuple[Link, ...]
