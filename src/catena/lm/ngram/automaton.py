r"""n-gram models as weighted automata whose weight of a string is its log-probability. Labels are ids.

Dense: a state for every full history, and for every shorter one at the start of a sentence; an arc for every state
and word. :math:`\delta(q_{ij}, k, q_{jk}) = \log p(k \mid i\,j)`.

Compact: a state for every history in the model; arcs for the n-grams in the model, and a failure arc to the next
shorter history with the back-off weight, taken for all other words.

In both, the probability of the end of a sentence is the final weight, and the probabilities of all strings sum to one.
"""

from __future__ import annotations

import numpy as np
import torch

from catena.errors import DataError, LimitError
from catena.lm.ngram.model import NgramModel
from catena.numerics import NEG_INF
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.wfsa import FAILURE, LOG, Automaton

_MOST_ARCS = 5_000_000


def predictable_ids(model: NgramModel) -> np.ndarray:
    """The ids that strings may contain: all that the model can predict, except the end."""
    possible = model.packed.unigrams != NEG_INF
    possible[model.end] = False
    possible[0] = False  # label 0 is epsilon
    return np.flatnonzero(possible)


def dense_automaton(model: NgramModel, limit: int = _MOST_ARCS) -> Automaton:
    """A state for each full history and each shorter one at the start, an arc for each state and word.

    Raises :class:`LimitError` if there are more than ``limit`` arcs.
    """
    words, order = predictable_ids(model), model.order
    sizes = [len(words) ** k for k in range(order - 1)] + [len(words) ** (order - 1)]
    n = sum(sizes) if order > 1 else 1
    if n * len(words) > limit:
        raise LimitError(
            f"The dense automaton of {len(words):,} words and order {order} must have at most limit = {limit:,} arcs, "
            f"got {n * len(words):,}. Use compact_automaton."
        )
    histories = [np.array([int(model.start(1)[0])])]
    targets = []
    base = 0
    for k in range(order):
        here = histories[-1]
        if k == order - 1:
            within = np.arange(sizes[-1])[:, None] * len(words) + np.arange(len(words))
            targets.append((base + within % sizes[-1]).ravel())
        else:
            targets.append(base + len(here) + np.arange(len(here) * len(words)))
            after = model.packed.step(np.repeat(here, len(words)), np.tile(words, len(here)))[0]
            histories.append(after)
        base += len(here)
    rows = model.packed.spread(np.concatenate(histories)).astype(np.float64)
    label = np.tile(words, n)
    topology = Topology(np.repeat(np.arange(n), len(words)), np.concatenate(targets), label, label, n)
    return _machine(topology, rows[:, words].ravel(), rows[:, model.end], 0)


def compact_automaton(model: NgramModel) -> Automaton:
    """The states of the model itself, with failure arcs. The size is the size of the model."""
    packed = model.packed
    if packed.flat:
        raise DataError(
            "A flat model (add-k, Good-Turing) does not back off, so failure arcs cannot represent it. Use "
            "dense_automaton, or another estimator."
        )
    table = packed.histories.reshape(-1, 4)
    slots = packed.slots.reshape(-1, 3)
    log_probs = packed.slots.view(np.float32).reshape(-1, 3)[:, 2].astype(np.float64)
    widths = np.where(table[:, 1] < 0, 1, table[:, 1])
    source = np.repeat(np.arange(packed.n_states), widths)
    known = (slots[:, 0] >= 0) & (log_probs != NEG_INF) & (slots[:, 0] != model.begin) & (slots[:, 0] != 0)
    ends = known & (slots[:, 0] == model.end)
    final = np.full(packed.n_states, NEG_INF)
    final[source[ends]] = log_probs[ends]
    arcs = np.flatnonzero(known & ~ends)
    backoffs = packed.histories.view(np.float32).reshape(-1, 4)[:, 2].astype(np.float64)
    failing = 1 + np.flatnonzero(backoffs[1:] != NEG_INF)
    label = np.concatenate((slots[arcs, 0], np.full(len(failing), FAILURE))).astype(np.int64)
    target = np.concatenate((slots[arcs, 1], table[failing, 3])).astype(np.int64)
    weight = np.concatenate((log_probs[arcs], backoffs[failing]))
    topology = Topology(np.concatenate((source[arcs], failing)), target, label, label, packed.n_states)
    return _machine(topology, weight, final, int(model.start(1)[0]))


def _machine(topology: Topology, weight: np.ndarray, final: np.ndarray, begin: int) -> Automaton:
    initial = torch.full((topology.n_states,), NEG_INF, dtype=torch.float64)
    initial[begin] = 0.0
    return Automaton.trusted(topology, torch.from_numpy(weight), initial, torch.from_numpy(final), LOG)
