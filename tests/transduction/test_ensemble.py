"""Ensembles of transducers by their n-best lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from catena.transduction.base import StringTransducer, SymbolSequence, TransducedString
from catena.transduction.ensemble import TransducerEnsemble


class Listed(StringTransducer):
    """Returns the same list for every source."""

    def __init__(self, log_probs: dict[str, float]) -> None:
        self.log_probs = log_probs

    def search_all(self, sources: Sequence[SymbolSequence], n_best: int = 1) -> list[list[TransducedString]]:
        found = [TransducedString(tuple(y), log_prob, ()) for y, log_prob in self.log_probs.items()]
        return [found[:n_best] for _ in sources]

    def save(self, folder: Path) -> None: ...

    def describe(self) -> list[str]:
        return ["a list"]


@pytest.mark.parametrize("less", [0.0, 900.0])
def test_small_probabilities_are_averaged(less: float) -> None:
    first, second = ({y: math.log(p) - less for y, p in some} for some in ([("a", 0.3), ("b", 0.2)], [("b", 0.4)]))
    both = TransducerEnsemble([(Listed(first), 1.0), (Listed(second), 3.0), (Listed({"c": -less}), 0.0)])
    (listed,) = both.search_all(["x"], n_best=2)
    assert [found.tokens for found in listed] == [("b",), ("a",)]
    wanted = [math.log(0.2 / 4 + 0.4 * 3 / 4) - less, math.log(0.3 / 4) - less]
    assert [found.log_prob for found in listed] == pytest.approx(wanted)
