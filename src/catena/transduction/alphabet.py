"""The symbols of one side of the data, numbered from 1; 0 is an unknown symbol.

Tested in tests/transduction/test_edit.py and tests/transduction/test_joint.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catena.structure.automaton.symbols import EPSILON_NAME, SymbolTable

UNKNOWN = 0
_ESCAPED = {"\\": "\\\\", "+": "\\p", "|": "\\o", "_": "\\u"}


class Alphabet:
    """Symbols and their ids.

    >>> letters = Alphabet.of(["bad", "cab"])
    >>> letters.ids("cat"), letters.spelled([2, 1, 4])
    ([3, 1, 0], ('b', 'a', 'd'))
    """

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: id for id, symbol in enumerate(self.symbols, start=1)}

    @classmethod
    def of(cls, strings: Iterable[Iterable[str]]) -> Alphabet:
        """Return the alphabet of all symbols of some strings, sorted."""
        return cls(sorted({symbol for string in strings for symbol in string}))

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alphabet) and self.symbols == other.symbols

    def __hash__(self) -> int:
        return hash(self.symbols)

    def ids(self, symbols: Iterable[str]) -> list[int]:
        return [self._ids.get(symbol, UNKNOWN) for symbol in symbols]

    def spelled(self, ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.symbols[id - 1] for id in ids)

    def labels(self) -> SymbolTable:
        """Return the names of ids as automaton labels, without blanks and not mistakable for epsilon."""
        return SymbolTable.of({EPSILON_NAME: 0, **{written(s): id for id, s in enumerate(self.symbols, start=1)}})


def written(symbol: str) -> str:
    """Return a symbol without blanks and without the characters that join symbols in unit names."""
    found = "".join(_ESCAPED.get(c, f"\\x{ord(c):x};" if c.isspace() else c) for c in symbol)
    return "\\" + found if found == EPSILON_NAME else found
