"""Answers, attention flow and spans by plain loops, without Catena."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

# --- answers ----------------------------------------------------------------------------------------------------------

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def words(text: str) -> list[str]:
    """Lower case, then ASCII punctuation, then articles, then blanks."""
    kept = "".join(c for c in text.lower() if c not in PUNCTUATION)
    return [w for w in re.sub(r"\b(a|an|the)\b", " ", kept).split() if w]


def f1(gold: list[str], given: list[str]) -> float:
    """F1 of bags, matching each unit of the prediction with one unused unit of the reference."""
    unused = list(gold)
    hits = 0
    for unit in given:
        if unit in unused:
            unused.remove(unit)
            hits += 1
    if hits == 0:
        return 0.0
    precision = hits / len(given)
    recall = hits / len(gold)
    return 2 * precision * recall / (precision + recall)


# --- attention flow ---------------------------------------------------------------------------------------------------

Matrix = Sequence[Sequence[float]]


def trilinear(h: Matrix, u: Matrix, w: Sequence[float]) -> list[list[float]]:
    """S[t][j] = w . [h_t; u_j; h_t * u_j]."""
    scores = []
    for ht in h:
        row = []
        for uj in u:
            features = [*ht, *uj, *(a * b for a, b in zip(ht, uj, strict=True))]
            row.append(sum(a * b for a, b in zip(w, features, strict=True)))
        scores.append(row)
    return scores


def softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    masses = [math.exp(v - top) for v in values]
    return [m / sum(masses) for m in masses]


def flow(
    h: Matrix, u: Matrix, w: Sequence[float], c2q: bool = True, q2c: bool = True
) -> tuple[list[list[float]], list[float], list[list[float]]]:
    """a[t][j], b[t] and G[t] of one context and one question, without padding."""
    scores = trilinear(h, u, w)
    d = len(h[0])
    a = [softmax(row) for row in scores]
    b = softmax([max(row) for row in scores])
    summary = [sum(b[t] * h[t][k] for t in range(len(h))) for k in range(d)]
    mean = [sum(uj[k] for uj in u) / len(u) for k in range(d)]
    rows = []
    for t, ht in enumerate(h):
        attended = [sum(a[t][j] * u[j][k] for j in range(len(u))) for k in range(d)] if c2q else mean
        row = [*ht, *attended, *(x * y for x, y in zip(ht, attended, strict=True))]
        if q2c:
            row += [x * y for x, y in zip(ht, summary, strict=True)]
        rows.append(row)
    return a, b, rows


# --- spans ------------------------------------------------------------------------------------------------------------


def spans(starts: Sequence[float], ends: Sequence[float], longest: int) -> list[tuple[float, int, int]]:
    """Score, first and last position of each span of at most ``longest`` positions."""
    n = len(starts)
    return [(starts[s] + ends[e], s, e) for s in range(n) for e in range(s, n) if e - s < longest]
