"""How a model was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NgramInfo:
    """The name of a model's estimator, whether its probabilities sum to one, and what was out of the ordinary.

    ``notes`` are full sentences.
    """

    estimator: str = ""
    normalized: bool = True
    notes: tuple[str, ...] = ()
