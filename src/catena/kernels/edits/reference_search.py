"""Reference implementation of the search for the best targets, by numpy.

It also serves a few sources in a cold process, see :func:`catena.accelerators.start_cold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

BAND = 40.0
"""Nats below the best position of the source that still count for a prefix."""
LEAST_PIVOT = 1e-12
"""A pivot at or below this counts as 0: the series diverges."""


def following_reference(
    sub: np.ndarray, ins: np.ndarray, dele: np.ndarray, end: np.ndarray, n: int
) -> np.ndarray | None:
    """``beta[i, p]``: log of the weight of all that may follow at position i after p. None if a series diverges."""
    v = len(end) - 1
    with np.errstate(all="ignore"):
        inserted = np.exp(ins[: n + 1])
        if not _converges(np.eye(v) - inserted[:, 1:]):
            return None
        closures = np.linalg.inv(np.eye(v) - inserted[:, 1:]).clip(0.0)  # rounding may leave less than 0
        beta = np.empty((n + 1, v + 1))
        after = end
        for i in range(n, -1, -1):
            if i < n:
                written = np.logaddexp.reduce(sub[i] + after[1:], axis=1)
                after = np.logaddexp(written, dele[i] + after)
            top = after.max()
            if top > -np.inf:
                weights = np.exp(after - top)
                symbols = closures[i] @ weights[1:]
                first = weights[0] + inserted[i, 0] @ symbols
                after = np.log(np.concatenate(([first], symbols))) + top
            beta[i] = after
    return beta


def _converges(systems: np.ndarray) -> bool:
    """Whether all pivots of an elimination are positive. ``systems[i]`` is I - W of position i."""
    for k in range(systems.shape[1]):
        if not (systems[:, k, k] > LEAST_PIVOT).all():
            return False
        factors = systems[:, k + 1 :, k] / systems[:, k, k, None]
        systems[:, k + 1 :, k + 1 :] -= factors[:, :, None] * systems[:, k, None, k + 1 :]
    return True


def strings_reference(
    sub: np.ndarray, ins: np.ndarray, dele: np.ndarray, end: np.ndarray, beta: np.ndarray, n: int, wanted: int,
    width: int, most: int,
) -> tuple[list[tuple[float, tuple[int, ...]]], float]:  # fmt: skip
    """The best targets of at most ``most`` symbols with their scores, and the greatest worth of a dropped prefix."""
    found: list[tuple[float, tuple[int, ...]]] = []
    dropped = -np.inf
    alpha = np.full((1, n + 1), -np.inf)
    alpha[0, 0] = 0.0
    alpha = _delete(alpha, dele[:n, :1].T)
    lasts = np.zeros(1, np.int64)
    texts: list[tuple[int, ...]] = [()]
    for j in range(most + 1):
        for score, text in zip((alpha[:, n] + end[lasts]).tolist(), texts, strict=True):
            _insert(found, score, text, wanted)
        least = found[-1][0] if len(found) == wanted else -np.inf
        raw = alpha[:, :, None] + ins[: n + 1, lasts].swapaxes(0, 1)
        raw[:, 1:] = np.logaddexp(raw[:, 1:], alpha[:, :-1, None] + sub[:n, lasts].swapaxes(0, 1))
        worths = np.logaddexp.reduce(raw + beta[:, 1:], axis=1).ravel()
        order = [c for c in np.argsort(-worths, kind="stable")[: width + 1] if worths[c] > least]
        kept = order[: width if j < most else 0]
        if len(order) > len(kept):
            dropped = max(dropped, float(worths[order[len(kept)]]))
        if not kept:
            break
        rows, symbols = np.divmod(kept, len(end) - 1)
        alpha = _delete(_from_first(raw[rows, :, symbols]), dele[:n, symbols + 1].T)
        lasts = symbols + 1
        texts = [(*texts[k], q) for k, q in zip(rows.tolist(), symbols.tolist(), strict=True)]
    return found, dropped


def _insert(found: list[tuple[float, tuple[int, ...]]], score: float, text: tuple[int, ...], wanted: int) -> None:
    """Put a target among the best ones, in descending order of scores."""
    if not score > -np.inf or (len(found) == wanted and not score > found[-1][0]):
        return
    place = len(found)
    while place and found[place - 1][0] < score:
        place -= 1
    found.insert(place, (score, text))
    del found[wanted:]


def _from_first(raw: np.ndarray) -> np.ndarray:
    """The positions from the first one within the band of the best; -inf before."""
    within = raw >= raw.max(1, keepdims=True) - BAND
    return np.where(np.cumsum(within, 1) > 0, raw, -np.inf)


def _delete(raw: np.ndarray, dele: np.ndarray) -> np.ndarray:
    """Deletions after a symbol was written: the positions up to the last one within the band of the best."""
    alpha = raw.copy()
    for i in range(1, alpha.shape[1]):
        alpha[:, i] = np.logaddexp(raw[:, i], alpha[:, i - 1] + dele[:, i - 1])
    within = alpha >= alpha.max(1, keepdims=True) - BAND
    return np.where(np.cumsum(within[:, ::-1], 1)[:, ::-1] > 0, alpha, -np.inf)


def best_edits_reference(
    sub: np.ndarray, ins: np.ndarray, dele: np.ndarray, y: Sequence[int], n: int
) -> list[int] | None:
    """The edits of the best way to write a target: 0 deletes, 1 inserts, 2 substitutes. None if there is none."""
    m = len(y)
    last = [0, *(q + 1 for q in y)]
    best = {(0, 0): (0.0, -1)}
    for i, j in product(range(n + 1), range(m + 1)):
        if i == j == 0:
            continue
        ways = [(-np.inf, -1)]
        if i and j:
            ways.append((best[i - 1, j - 1][0] + sub[i - 1, last[j - 1], y[j - 1]], 2))
        if i:
            ways.append((best[i - 1, j][0] + dele[i - 1, last[j]], 0))
        if j:
            ways.append((best[i, j - 1][0] + ins[i, last[j - 1], y[j - 1]], 1))
        best[i, j] = max(ways, key=lambda way: way[0])
    if best[n, m][0] == -np.inf:
        return None
    edits = []
    i, j = n, m
    while i or j:
        edits.append(best[i, j][1])
        i, j = i - (edits[-1] != 1), j - (edits[-1] != 0)
    return edits[::-1]
