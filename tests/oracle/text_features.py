"""The n-gram features of a text by counting, one at a time."""

from __future__ import annotations

import math


def ngrams(tokens: list[str], longest: int) -> list[tuple[str, ...]]:
    found = []
    for start in range(len(tokens)):
        for end in range(start + 1, len(tokens) + 1):
            if end - start <= longest:
                found.append(tuple(tokens[start:end]))
    return found


def character_ngrams(token: str, shortest: int, longest: int) -> list[tuple[str, ...]]:
    marked = ["BEGIN", *token, "END"]
    found = []
    for gram in ngrams(marked, longest):
        if len(gram) >= shortest and gram not in (("BEGIN",), ("END",)):
            found.append(gram)
    return found


def value(count: int, how: str) -> float:
    return {"binary": 1.0, "counts": float(count), "log": math.log(1 + count)}[how]
