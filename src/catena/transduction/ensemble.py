r"""An ensemble of transducers that mixes their n-best lists.

.. math::  p(y \mid x) = \sum_m w_m \, p_m(y \mid x)

A target that is not in the n-best list of a transducer has probability 0 there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from catena.errors import DataError
from catena.transduction.base import StringTransducer, SymbolSequence, TransducedString

_LISTED = 10
"""Least number of targets from each transducer."""


class TransducerEnsemble(StringTransducer):
    """A mixture of transducers of any kinds that have probabilities.

    Args:
        models: the transducers, each with its weight.
    """

    def __init__(self, models: Sequence[tuple[StringTransducer, float]]) -> None:
        total = math.fsum(weight for _, weight in models)
        self.models = [(model, weight / total) for model, weight in models]

    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        lists = [(model.search_all(sources, max(n_best, _LISTED)), weight) for model, weight in self.models]
        return [_mixed([(found[r], weight) for found, weight in lists])[:n_best] for r in range(len(sources))]

    def save(self, folder: Path) -> None:
        raise DataError("An ensemble cannot be saved. Keep the runs of its models.")

    def describe(self) -> list[str]:
        lines = [f"an ensemble of {len(self.models)} transducers:"]
        return lines + [f"{weight:.2f}  {model.describe()[0]}" for model, weight in self.models]


def _mixed(lists: Sequence[tuple[list[TransducedString], float]]) -> list[TransducedString]:
    """Return all targets by their mean probability, each with the alignment of the model that prefers it most."""
    shares: dict[tuple[str, ...], list[tuple[float, TransducedString]]] = {}
    for listed, weight in lists:
        for found in listed:
            if found.log_prob is None:
                raise DataError("A baseline without probabilities cannot be part of an ensemble. Remove it.")
            share = math.log(weight) + found.log_prob if weight > 0 else -math.inf
            shares.setdefault(found.tokens, []).append((share, found))
    mixed = []
    for parts in shares.values():
        best = max(parts, key=lambda part: part[0])[1]
        total = np.logaddexp.reduce([share for share, _ in parts])  # the exp of a long target would be 0
        mixed.append(replace(best, log_prob=float(total)))
    return sorted(mixed, key=lambda found: -(found.log_prob or 0.0))
