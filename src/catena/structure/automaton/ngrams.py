r"""N-gram language models as acceptors.

States are histories. A dense table has an arc for every history and word. A back-off model has arcs for its n-grams,
and a failure arc to the next shorter history for all other words:

.. math::  p(w \mid h) = p^*(w \mid h) \text{ if known, else } \beta(h)\, p(w \mid h')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.numerics import NEG_INF
from catena.structure.automaton.build import Arc, from_arcs
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.wfsa import FAILURE, LOG, Automaton
from catena.structure.semirings import Semiring


def from_ngram_table(
    log_probs: Float[Tensor, "..."], start: int, end: int, labels: Sequence[int] | None = None, semiring: Semiring = LOG
) -> Automaton:
    """The acceptor of a dense n-gram table. Gradients flow to the table.

    Args:
        log_probs: ``log_probs[h₁, …, hₙ₋₁, w]`` is log p(w | h₁ … hₙ₋₁) of words numbered from 0. It has n axes of
            equal size.
        start: the word that precedes every string. It is never read.
        end: the word that follows every string. Its probabilities become final weights.
        labels: the label of each word; by default its number plus 1.
        semiring: the semiring of the weights.
    """
    order, v = log_probs.dim(), log_probs.shape[-1] if log_probs.dim() else 0
    if order < 1 or set(log_probs.shape) != {v} or not 0 <= start < v or not 0 <= end < v:
        raise ShapeError(
            f"log_probs must have axes of one size v, and start and end must be below v, got shape "
            f"{list(log_probs.shape)}, start={start} and end={end}. Pass one axis for each word of an n-gram."
        )
    names = np.arange(1, v + 1) if labels is None else np.asarray(labels, np.int64)
    n = v ** (order - 1)
    words = np.array([w for w in range(v) if w not in (start, end)], np.int64)
    if names.shape != (v,) or (names[words] < 1).any():
        raise ShapeError(
            f"labels must be {v} positive labels, got {names.tolist()[:20]}. Pass one for each word; those of start "
            "and end are not read."
        )
    source = np.repeat(np.arange(n), len(words))
    word = np.tile(words, n)
    target = (source * v + word) % n
    rows = log_probs.reshape(n, v)
    begin = (v ** (order - 1) - 1) // (v - 1) * start if v > 1 else 0
    initial = log_probs.new_full((n,), NEG_INF)
    initial[begin] = 0.0
    topology = Topology(source, target, names[word], names[word], n)
    weight = rows[torch.from_numpy(source), torch.from_numpy(word)]
    return Automaton.trusted(topology, weight, initial, rows[:, end], LOG).mapped(semiring.lift, semiring)


def from_ngrams(
    log_probs: Mapping[tuple[int, ...], float | Tensor],
    backoffs: Mapping[tuple[int, ...], float | Tensor],
    start: int,
    end: int,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    """The acceptor of a back-off n-gram model, kept small by failure arcs.

    Args:
        log_probs: the log-probability of each n-gram ``(h₁, …, w)`` of labels in the model.
        backoffs: the log back-off weight of each history; 0 for histories that are missing.
        start: the label of the beginning of a string, which may occur in histories and is never read.
        end: the label of the end of a string. N-grams that end in it become final weights.
        semiring: the semiring of the weights.
        dtype: the dtype of the weights.
    """
    if not all(log_probs) or not all(backoffs):
        raise DataError("log_probs or backoffs has an empty n-gram. Remove the key ().")
    order = max((len(gram) for gram in log_probs), default=1)
    histories = _histories(log_probs, backoffs, order)
    log_probs = _completed(log_probs, backoffs, histories, start)
    number = {h: i for i, h in enumerate(histories)}
    arcs: list[Arc] = []
    final: dict[int, float | Tensor] = {}
    for gram, score in log_probs.items():
        here, word = number[gram[:-1]], gram[-1]
        if word == end:
            final[here] = score
        elif word != start:
            arcs.append(Arc(here, number[_longest_known(gram, number, order - 1)], word, word, score))
    for h in histories:
        if h:
            shorter = number[_longest_known(h[1:], number, order)]
            arcs.append(Arc(number[h], shorter, FAILURE, FAILURE, backoffs.get(h, 0.0)))
    begin = number[_longest_known((start,) * (order - 1), number, order)]
    return from_arcs(arcs, [begin], final, semiring, len(histories), dtype)


def _histories(
    log_probs: Mapping[tuple[int, ...], object], backoffs: Mapping[tuple[int, ...], object], order: int
) -> list[tuple[int, ...]]:
    known = {gram[:-1] for gram in log_probs} | {h for h in backoffs if len(h) < order}
    beginnings = {h[:i] for h in known for i in range(len(h))} | {()}
    return sorted(known | beginnings, key=lambda h: (len(h), h))


def _completed(
    log_probs: Mapping[tuple[int, ...], float | Tensor],
    backoffs: Mapping[tuple[int, ...], float | Tensor],
    histories: Sequence[tuple[int, ...]],
    start: int,
) -> dict[tuple[int, ...], float | Tensor]:
    """The n-grams plus all histories as n-grams, so that they are reachable. Unknown ones get backed-off scores."""
    found = dict(log_probs)
    for h in histories:
        if len(h) > 1 and h not in found and h[-1] != start:
            score = _backed_off(h, log_probs, backoffs)
            if score is not None:
                found[h] = score
    return found


def _backed_off(
    gram: tuple[int, ...],
    log_probs: Mapping[tuple[int, ...], float | Tensor],
    backoffs: Mapping[tuple[int, ...], float | Tensor],
) -> float | Tensor | None:
    """The score of an n-gram by back-off; None if even its last word is unknown."""
    if gram in log_probs:
        return log_probs[gram]
    shorter = _backed_off(gram[1:], log_probs, backoffs) if len(gram) > 1 else None
    return None if shorter is None else backoffs.get(gram[:-1], 0.0) + shorter


def _longest_known(words: tuple[int, ...], number: Mapping[tuple[int, ...], int], most: int) -> tuple[int, ...]:
    """The longest suffix of ``words`` of at most ``most`` words that is a history."""
    return next(h for i in range(max(len(words) - most, 0), len(words) + 1) if (h := words[i:]) in number)
