"""Information about how a model was estimated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NgramInfo:
    """The name of a model's estimator, whether its probabilities sum to one, and warnings.

    ``notes`` are warnings as full sentences.
    """

    estimator: str = ""
    normalized: bool = True
    notes: tuple[str, ...] = ()
