"""Search by listing everything, and by plain loops over dictionaries. Imports nothing of catena.

A model is a function from a prefix (a tuple of ids) to the list of probabilities of the next id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

Model = Callable[[tuple[int, ...]], Sequence[float]]
Sequence_ = tuple[int, ...]


def log(p: float) -> float:
    return math.log(p) if p > 0 else -math.inf


def all_sequences(model: Model, end: int, max_length: int, min_length: int = 0) -> dict[tuple[Sequence_, bool], float]:
    """log p of every (ids, finished) of at most n steps; their probabilities sum to one."""
    found: dict[tuple[Sequence_, bool], float] = {}

    def go(prefix: Sequence_, log_prob: float) -> None:
        if len(prefix) == max_length:
            found[prefix, False] = log_prob
            return
        for id, p in enumerate(model(prefix)):
            if p == 0 or (id == end and len(prefix) < min_length):
                continue
            if id == end:
                found[prefix, True] = log_prob + log(p)
            else:
                go((*prefix, id), log_prob + log(p))

    go((), 0.0)
    return found


def gnmt(alpha: float) -> Callable[[int], float]:
    return lambda length: (5 + length) ** alpha / 6**alpha


def beam_by_hand(
    model: Model,
    end: int,
    width: int,
    max_length: int,
    min_length: int = 0,
    norm: Callable[[int], float] = lambda length: 1.0,
    stop_after: int | None = None,
) -> list[tuple[Sequence_, float, float, bool]]:
    """Every (ids, log p, score, finished) that a beam ends with, best first."""
    live, finished = [((), 0.0)], []
    for step in range(1, max_length + 1):
        candidates = [
            (log_prob + log(p), prefix, id)
            for prefix, log_prob in live
            for id, p in enumerate(model(prefix))
            if p > 0 and not (id == end and step <= min_length)
        ]
        candidates.sort(key=lambda c: -c[0])
        for log_prob, prefix, id in candidates[:width]:
            if id == end:
                finished.append((prefix, log_prob, log_prob / norm(step), True))
        live = [((*prefix, id), log_prob) for log_prob, prefix, id in candidates if id != end][:width]
        if stop_after is not None and len(finished) >= stop_after:
            live = []
            break
    finished.sort(key=lambda f: -f[2])
    return finished + [(ids, log_prob, log_prob / norm(max_length), False) for ids, log_prob in live]


# --- filters ------------------------------------------------------------------------------------------------


def kept(p: Sequence[float], places: set[int]) -> list[float]:
    total = math.fsum(p[i] for i in places)
    return [p[i] / total if i in places else 0.0 for i in range(len(p))]


def in_order_until(p: Sequence[float], order: Sequence[int], mass: float) -> set[int]:
    places: set[int] = set()
    for i in order:
        if math.fsum(p[j] for j in places) >= mass:
            break
        places.add(i)
    return places


def top_k(p: Sequence[float], k: int) -> list[float]:
    return kept(p, set(sorted(range(len(p)), key=lambda i: -p[i])[:k]))


def top_p(p: Sequence[float], mass: float) -> list[float]:
    return kept(p, in_order_until(p, sorted(range(len(p)), key=lambda i: -p[i]), mass))


def typical(p: Sequence[float], mass: float) -> list[float]:
    entropy = -math.fsum(x * log(x) for x in p if x > 0)
    possible = [i for i in range(len(p)) if p[i] > 0]
    return kept(p, in_order_until(p, sorted(possible, key=lambda i: abs(-log(p[i]) - entropy)), mass))


def min_p(p: Sequence[float], share: float) -> list[float]:
    return kept(p, {i for i in range(len(p)) if p[i] >= share * max(p)})


def temperature(p: Sequence[float], t: float) -> list[float]:
    powers = [x ** (1 / t) for x in p]
    return [x / math.fsum(powers) for x in powers]


# --- machines -----------------------------------------------------------------------------------------------


def strings(v: int, end: int, most: int) -> Iterator[Sequence_]:
    """Every string without ``end`` of at most n ids, short ones first."""
    level: list[Sequence_] = [()]
    for _ in range(most + 1):
        yield from level
        level = [(*string, id) for string in level for id in range(v) if id != end]


def diverse_by_hand(
    model: Model, end: int, width: int, groups: int, strength: float, max_length: int
) -> list[list[tuple[Sequence_, float]]]:
    """What each group of a diverse beam finishes or is left with, best first."""
    live: list[list[tuple[Sequence_, float]]] = [[((), 0.0)] for _ in range(groups)]
    told: list[list[tuple[Sequence_, float]]] = [[] for _ in range(groups)]
    for _ in range(max_length):
        chosen: list[int] = []
        for g in range(groups):
            candidates = [
                (total + log(p) - strength * chosen.count(id), total + log(p), prefix, id)
                for prefix, total in live[g]
                for id, p in enumerate(model(prefix))
                if p > 0
            ]
            candidates.sort(key=lambda c: -c[0])
            told[g] += [(prefix, total) for _, total, prefix, id in candidates[: width // groups] if id == end]
            kept = [(total, prefix, id) for _, total, prefix, id in candidates if id != end][: width // groups]
            live[g] = [((*prefix, id), total) for total, prefix, id in kept]
            chosen += [id for _, _, id in kept]
    return told


def reads(
    arcs: Sequence[tuple[int, int, int, float]], initial: set[int], final: set[int], string: Sequence[int]
) -> bool:
    """Whether a machine of (source, target, label, score) arcs reads a string: 0 is epsilon, -1 a failure.

    A failure is taken where the next label, or the end, has no arc (no final state), and only after no silent arc.
    """

    def fails(q: int) -> list[int]:
        return [r for p, r, label, _ in arcs if p == q and label == -1]

    def ends(q: int) -> bool:
        return q in final or any(ends(r) for r in fails(q))

    def follow(q: int, label: int) -> list[int]:
        own = [(r, score) for p, r, read, score in arcs if p == q and read == label]
        if own:
            return [r for r, score in own if score > -math.inf]
        return [s for r in fails(q) for s in follow(r, label)]

    def silent(states: set[int]) -> set[int]:
        more = {r for p, r, label, score in arcs if label == 0 and p in states and score > -math.inf} - states
        return silent(states | more) if more else states

    states = silent(set(initial))
    for label in string:
        states = silent({r for q in states for r in follow(q, label)})
    return any(ends(q) for q in states)


# --- a channel of edits ---------------------------------------------------------------------------------------


def channel_by_hand(
    true: Sequence_,
    observed: Sequence_,
    n_symbols: int,
    rates: dict[str, float],
    substitution: Callable[[int, int], float],
) -> float:
    """p(observed | true): every way to write the one for the other, one after another."""
    more = (n_symbols, rates, substitution)
    if not true and not observed:
        return 1 - rates["insert"]
    if not true:
        return rates["insert"] / n_symbols * channel_by_hand(true, observed[1:], *more)
    p = 0.0
    if observed:
        p += rates["insert"] / n_symbols * channel_by_hand(true, observed[1:], *more)
    go = 1 - rates["insert"]
    swap = rates["transpose"] if len(true) > 1 else 0.0
    p += go * rates["delete"] * channel_by_hand(true[1:], observed, *more)
    if observed and observed[0] == true[0]:
        p += go * (1 - rates["delete"] - rates["substitute"] - swap) * channel_by_hand(true[1:], observed[1:], *more)
    if observed and observed[0] != true[0]:
        changed = rates["substitute"] * substitution(true[0], observed[0])
        p += go * changed * channel_by_hand(true[1:], observed[1:], *more)
    if len(true) > 1 and len(observed) > 1 and (observed[1], observed[0]) == true[:2]:
        # No insertion comes between two symbols that change places.
        p += go * swap * channel_by_hand(true[2:], observed[2:], *more)
    return p
