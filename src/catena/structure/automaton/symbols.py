"""Symbol tables, which map names to labels and back. Label 0 is always epsilon.

Tested in tests/structure/automaton/test_build.py and tests/structure/automaton/test_openfst.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from catena.errors import FormatError, UnknownNameError
from catena.registry import did_you_mean
from catena.structure.automaton.wfsa import EPSILON

EPSILON_NAME = "<eps>"


class SymbolTable:
    """Bidirectional mapping between symbol names and integer labels.

    Args:
        names: the names, which get the labels 1, 2, … in order. Repeated names keep their first label.
        epsilon: the name of label 0.

    >>> words = SymbolTable(["the", "cat"])
    >>> words.label("cat"), words.name(1), len(words)
    (2, 'the', 3)
    """

    def __init__(self, names: Iterable[str] = (), epsilon: str = EPSILON_NAME) -> None:
        """Assign the labels."""
        self._labels: dict[str, int] = {epsilon: EPSILON}
        for name in names:
            self._labels.setdefault(name, len(self._labels))
        self._names = {label: name for name, label in self._labels.items()}

    @classmethod
    def of(cls, labels: Mapping[str, int]) -> SymbolTable:
        """A table with the given labels, which must be distinct and not negative."""
        table = cls()
        names: dict[int, str] = {}
        for name, label in labels.items():
            if label < 0:
                raise FormatError(f"Labels must not be negative, got {label} for {name!r}. Number labels from 1.")
            if label in names:
                raise FormatError(
                    f"Labels must be distinct, got {label} for {names[label]!r} and {name!r}. Change one of the two."
                )
            names[label] = name
        table._labels, table._names = dict(labels), names
        if EPSILON not in names:
            table._labels[EPSILON_NAME], table._names[EPSILON] = EPSILON, EPSILON_NAME
        return table

    def label(self, name: str) -> int:
        if name not in self._labels:
            raise UnknownNameError(f"unknown symbol {name!r}: {did_you_mean(name, self._labels)}")
        return self._labels[name]

    def labels(self, names: Iterable[str]) -> list[int]:
        return [self.label(name) for name in names]

    def name(self, label: int) -> str:
        if label not in self._names:
            raise UnknownNameError(f"No symbol of the table has the label {label}. Use one of its {len(self)} labels.")
        return self._names[label]

    def names(self, labels: Iterable[int]) -> list[str]:
        """The names of labels, without epsilons."""
        return [self.name(label) for label in labels if label != EPSILON]

    def items(self) -> Sequence[tuple[str, int]]:
        return sorted(self._labels.items(), key=lambda item: item[1])

    def __contains__(self, name: str) -> bool:
        return name in self._labels

    def __iter__(self) -> Iterator[str]:
        return iter(name for name, _ in self.items())

    def __len__(self) -> int:
        return len(self._labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolTable) and self._labels == other._labels

    def __hash__(self) -> int:
        return hash(frozenset(self._labels.items()))
