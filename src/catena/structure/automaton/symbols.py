"""Names of labels, both ways. Label 0 is always epsilon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from catena.errors import FormatError, UnknownNameError
from catena.registry import did_you_mean
from catena.structure.automaton.wfsa import EPSILON

EPSILON_NAME = "<eps>"


class SymbolTable:
    """A table of names and labels.

    >>> words = Symbols(["the", "cat"])
    >>> words.label("cat"), words.name(1), len(words)
    (2, 'the', 3)
    """

    def __init__(self, names: Iterable[str] = (), epsilon: str = EPSILON_NAME) -> None:
        """Names get the labels 1, 2, … in their order; one that comes again keeps its label."""
        self._labels: dict[str, int] = {epsilon: EPSILON}
        for name in names:
            self._labels.setdefault(name, len(self._labels))
        self._names = {label: name for name, label in self._labels.items()}

    @classmethod
    def of(cls, labels: Mapping[str, int]) -> SymbolTable:
        """From given labels, which must be different, none below 0."""
        table = cls()
        names: dict[int, str] = {}
        for name, label in labels.items():
            if label < 0:
                raise FormatError(f"the label of a symbol must not be below 0, but that of {name!r} is {label}")
            if label in names:
                raise FormatError(
                    f"every symbol needs a label of its own, but {names[label]!r} and {name!r} are {label}"
                )
            names[label] = name
        table._labels, table._names = dict(labels), names
        if EPSILON not in names:
            table._labels[EPSILON_NAME], table._names[EPSILON] = EPSILON, EPSILON_NAME
        return table

    def label(self, name: str) -> int:
        if name not in self._labels:
            raise UnknownNameError(f"no symbol is called {name!r}: {did_you_mean(name, self._labels)}")
        return self._labels[name]

    def labels(self, names: Iterable[str]) -> list[int]:
        return [self.label(name) for name in names]

    def name(self, label: int) -> str:
        if label not in self._names:
            raise UnknownNameError(f"no symbol has the label {label}; the table has {len(self)} symbols")
        return self._names[label]

    def names(self, labels: Iterable[int]) -> list[str]:
        """The names of labels, epsilons left out."""
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
