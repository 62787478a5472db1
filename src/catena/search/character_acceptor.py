"""Character automata as acceptors: a pattern over characters constrains a search over words or subwords.

Each id is a piece of text, possibly a different one at the beginning (where a word has no space before it). The
automaton reads the characters of the pieces; ids whose characters it does not read are impossible.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from catena.errors import ConfigError, ImpossibleError
from catena.search.acceptor import UNREACHABLE, Acceptor, Needed, NextIds
from catena.structure.automaton.transition_table import TransitionTable
from catena.structure.automaton.wfsa import Automaton

_DEAD = 0
"""The row of the table for texts that the automaton does not read; state q of the automaton is row q + 1."""

_Place = tuple[int, bool]
"""The row, and whether the sequence is still empty."""


class PieceAcceptor(Acceptor):
    """The sequences of ids whose text an automaton accepts.

    The first visit of a state costs O(v × longest piece); the distances to the end cost that for each state of the
    automaton, once.

    Args:
        machine: a deterministic acceptor without failure arcs; its labels are code points.
        later: the text of each id after others; an empty text for an id that is never generated.
        first: the text of each id at the beginning; ``later`` by default.
    """

    def __init__(self, machine: Automaton, later: Sequence[str], first: Sequence[str] | None = None) -> None:
        self.v = len(later)
        first = later if first is None else first
        if len(first) != self.v:
            raise ConfigError(f"first must have one text for each of {self.v} ids, got {len(first)}. Pass {self.v}.")
        alphabet = sorted(set().union(*later, *first))
        table = TransitionTable.of(machine, [ord(c) for c in alphabet])
        n = len(table.final)
        self._next = np.zeros((n + 1, len(alphabet) + 1), np.int32)
        sources = np.repeat(np.arange(n), np.diff(table.starts.numpy()))
        self._next[sources + 1, table.ids.numpy()] = table.targets.numpy() + 1
        self._next[:, -1] = np.arange(n + 1)  # the padding after a short piece does not change the state
        self._ends = np.concatenate(([False], np.isfinite(table.final.detach().numpy())))
        self._begin = table.begin + 1
        codes = {c: i for i, c in enumerate(alphabet)}
        self._pieces = [_coded(first, codes), _coded(later, codes)]
        self._written = [np.array([bool(text) for text in texts]) for texts in (first, later)]
        self._distance = self._distances(n + 1)
        self._known: dict[_Place, np.ndarray] = {}
        if self.options(self.start()).shortest >= UNREACHABLE:
            raise ImpossibleError(
                "The pattern does not accept any text that the vocabulary can write. Use only characters that occur in "
                "the model's tokens."
            )

    def start(self) -> Hashable:
        return self._begin, True

    def options(self, place: Hashable) -> NextIds:
        assert isinstance(place, tuple)
        return NextIds(self._distance[self._after(place)], bool(self._ends[place[0]]))

    def step(self, place: Hashable, id: int) -> Hashable:
        assert isinstance(place, tuple)
        return int(self._after(place)[id]), False

    def _after(self, place: _Place) -> np.ndarray:
        """The row after each id."""
        if place not in self._known:
            self._known[place] = self._read(place[0], place[1])
        return self._known[place]

    def _read(self, row: int, beginning: bool) -> np.ndarray:
        pieces, written = self._pieces[not beginning], self._written[not beginning]
        rows = np.full(self.v, row, np.int32)
        for column in pieces.T:
            rows = self._next[rows, column]
        return np.where(written, rows, _DEAD)

    def _distances(self, n: int) -> Needed:
        """The minimum number of ids before the end, from each row."""
        reached = [np.unique(self._read(row, False)) for row in range(n)]
        found = np.where(self._ends, 0, UNREACHABLE).astype(np.int16)
        for distance in range(1, n):
            near = [
                row for row in range(1, n) if found[row] == UNREACHABLE and (found[reached[row]] == distance - 1).any()
            ]
            if not near:
                break
            found[near] = distance
        return found


def _coded(texts: Sequence[str], codes: dict[str, int]) -> np.ndarray:
    """The characters of each text as columns of codes, padded with the code after the last."""
    coded = np.full((len(texts), max(map(len, texts), default=0)), len(codes), np.int32)
    for row, text in zip(coded, texts, strict=True):
        row[: len(text)] = [codes[c] for c in text]
    return coded
