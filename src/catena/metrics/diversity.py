"""Diversity of texts: distinct-n (Li et al. 2016, section 4.3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from catena.errors import DataError


def distinct(texts: Sequence[Sequence[Hashable]], n: int) -> float:
    """The number of distinct n-grams divided by the number of n-grams; 0 if there are none."""
    if n < 1:
        raise DataError(f"n must be at least 1, got {n}. Use 1 or 2.")
    grams = [tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0
