"""How much texts differ from one another: distinct-n (Li et al. 2016, section 4.3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from catena.errors import DataError


def distinct(texts: Sequence[Sequence[Hashable]], n: int) -> float:
    """Different n-grams over all n-grams of the texts: 1 where none comes twice; 0 where there is no n-gram at all."""
    if n < 1:
        raise DataError(f"n-grams have at least one token, and n is {n}")
    grams = [tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0
