"""The interface between neural transducers and the training loop.

Tested in tests/transduction/test_sequence.py and tests/tasks/transduce/test_task.py.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.checkpoint import read_stored
from catena.transduction.alphabet import Alphabet
from catena.transduction.base import StringTransducer, SymbolSequence

_SYMBOLS = "symbols.json"


@dataclass(frozen=True, eq=False)
class StringPairBatch:
    """Padded sources and targets as ids of their network.

    ``symbols`` and ``target_symbols`` count the symbols of the sources and of the targets without padding.
    """

    ids: Int[Tensor, "b s"]
    lengths: Int[Tensor, " b"]
    targets: Int[Tensor, "b t"]
    target_lengths: Int[Tensor, " b"]
    symbols: int
    target_symbols: int


class NetworkTransducer(StringTransducer):
    """A network with its alphabets."""

    network: nn.Module
    source: Alphabet
    target: Alphabet

    @abstractmethod
    def source_ids(self, x: SymbolSequence) -> np.ndarray:
        """Return a source as the network expects it."""

    @abstractmethod
    def target_ids(self, y: SymbolSequence) -> np.ndarray:
        """Return a target as the network is trained on it; all its symbols are known."""

    @abstractmethod
    def loss(self, batch: StringPairBatch) -> tuple[Float[Tensor, ""], int]:
        """Return the mean loss of a batch, and the number of items it is a mean of."""

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    def save(self, folder: Path) -> None:
        about = {"source": self.source.symbols, "target": self.target.symbols}
        (folder / _SYMBOLS).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")

    def _symbols_line(self) -> list[str]:
        return [
            f"{len(self.source):,} source symbols: {' '.join(self.source.symbols)}",
            f"{len(self.target):,} target symbols: {' '.join(self.target.symbols)}",
        ]


def load_alphabets(folder: Path) -> tuple[Alphabet, Alphabet]:
    """Return the symbols that :meth:`NetworkTransducer.save` wrote."""
    about = read_stored(folder / _SYMBOLS, {"source": list[str], "target": list[str]})
    return Alphabet(about["source"]), Alphabet(about["target"])


def alike(sources: Sequence[SymbolSequence], capacity: int) -> Iterator[list[int]]:
    """Yield indices of sources of similar length, with at most ``capacity`` symbols in total, padding included."""
    rows: list[int] = []
    for r in sorted(range(len(sources)), key=lambda r: len(sources[r])):
        if rows and (len(rows) + 1) * (len(sources[r]) + 1) > capacity:
            yield rows
            rows = []
        rows.append(r)
    if rows:
        yield rows
