"""Templates read one by one, and losses of taggers by listing all tag sequences. Imports nothing of catena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def value(name: str, at: int, words: Sequence[str], tags: Sequence[str]) -> str | None:
    """The value of a feature such as ``suffix2`` at a position; ``tags`` are the fields of column 1."""
    if at < 0:
        return f"<{at}>"
    if at >= len(words):
        return f"<+{at + 1 - len(words)}>"
    word = words[at]
    if name == "w":
        return word
    if name == "lower":
        return word.lower()
    if name == "column1":
        return tags[at]
    length = int(name[-1])
    if len(word) < length:
        return None
    return word[:length] if name.startswith("prefix") else word[len(word) - length :]


def features(templates: Sequence[str], words: Sequence[str], tags: Sequence[str], i: int) -> list[str]:
    """The features of a token, for templates such as ``w[-1]|suffix2[0]``, without ranges."""
    found = []
    for template in templates:
        if template == "bias":
            found.append("bias")
            continue
        values = []
        for atom in template.split("|"):
            name, offset = atom[:-1].split("[")
            values.append(value(name, i + int(offset), words, tags))
        if None not in values:
            found.append(f"{template}={'|'.join(str(v) for v in values)}")
    return found


Scores = Sequence[Sequence[float]]


def log_sum(terms: Sequence[float]) -> float:
    top = max(terms)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(term - top) for term in terms))


def path_score(
    path: Sequence[int], scores: Scores, moves: Scores, start: Sequence[float], end: Sequence[float]
) -> float:
    total = [scores[i][q] for i, q in enumerate(path)]
    total += [moves[p][q] for p, q in itertools.pairwise(path)]
    k = len(start)
    if scores and len(scores[0]) > k:  # then scores of pairs of tags follow
        total += [scores[i][k + p * k + q] for i, (p, q) in enumerate(itertools.pairwise(path), 1)]
    return math.fsum([*total, start[path[0]], end[path[-1]]]) if path else 0.0


def crf_loss(tags: Sequence[int], scores: Scores, moves: Scores, start: Sequence[float], end: Sequence[float]) -> float:
    """log of the sum over all paths, less that over the paths with the known tags (-1: any)."""
    k = len(start)
    paths = list(itertools.product(range(k), repeat=len(scores)))
    agree = [path for path in paths if all(tag in (-1, q) for tag, q in zip(tags, path, strict=True))]
    return log_sum([path_score(path, scores, moves, start, end) for path in paths]) - log_sum(
        [path_score(path, scores, moves, start, end) for path in agree]
    )


def local_loss(tags: Sequence[int], scores: Scores, moves: Scores | None, start: Sequence[float]) -> float:
    """Each token by itself, or, with ``moves``, after the right tag before it; what is not known does not count."""
    loss = 0.0
    for i, tag in enumerate(tags):
        if tag < 0 or (moves is not None and i > 0 and tags[i - 1] < 0):
            continue
        row = list(scores[i])
        if moves is not None:
            row = [x + (start[q] if i == 0 else moves[tags[i - 1]][q]) for q, x in enumerate(row)]
        loss += log_sum(row) - row[tag]
    return loss


def margin_loss(
    tags: Sequence[int], scores: Scores, moves: Scores, start: Sequence[float], end: Sequence[float], cost: float
) -> float:
    """The greatest score of a path with ``cost`` for each wrong tag, less the score of the right one."""
    k = len(start)
    best = max(
        path_score(path, scores, moves, start, end) + cost * sum(p != q for p, q in zip(path, tags, strict=True))
        for path in itertools.product(range(k), repeat=len(scores))
    )
    return best - path_score(tags, scores, moves, start, end)
