"""Verse: sequences in a form of lines, meter and rhyme.

Each word has a meter, one sign for each syllable (stress, tone, or a sign for any), and may have a rhyme. A line is
filled exactly, followed by its closing ids: a comma, a full stop and a line end, or nothing. Lines with the same letter
end in different words of one rhyme. Ghazvininejad et al. (2016) generate sonnets by search in the intersection of such
a form with a language model.

States are computed lazily: there is one for every choice of rhymes so far, more than an automaton could list.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from catena.errors import ConfigError, ImpossibleError
from catena.search.acceptor import UNREACHABLE, Acceptor, NextIds

ANY = "?"
"""The sign of a syllable of any kind."""


@dataclass(frozen=True)
class Line:
    """A line: the sign of every syllable, the letter of its rhyme ("" for no rhyme), and the ids after it.

    Args:
        meter: one sign for each syllable.
        rhyme: the letter of its rhyme; ``""`` for no rhyme.
        after: the ids after the line, such as a line end.
    """

    meter: str
    rhyme: str = ""
    after: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return len(self.meter) + len(self.after)


class VersePosition(NamedTuple):
    """A position in a verse.

    ``line`` is the index of the line, ``there`` the number of its syllables and then of the ids after it so far.
    ``rhymes`` holds (letter, rhyme, words used) in the order of their first lines.
    """

    line: int
    there: int
    rhymes: tuple[tuple[str, Hashable, frozenset[int]], ...]

    def bound(self, letter: str) -> tuple[Hashable, frozenset[int]] | None:
        return next(((rhyme, used) for known, rhyme, used in self.rhymes if known == letter), None)


class Verse(Acceptor):
    """The sequences that fill a verse form.

    A rhyme is started only if enough of its words fit for all lines to follow, and one more for each, so that every
    line can be finished. If words are scarce, this excludes a rhyme that would have been just sufficient.

    Args:
        lines: the form.
        meters: the meter, or several meters, of each id that may be generated.
        v: the size of the vocabulary.
        rhymes: the rhyme of an id, any value; ids without one do not end a rhyming line.
        separator: the id between two lines, for lines without ``after``.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        meters: Mapping[int, str | Sequence[str]],
        v: int,
        rhymes: Mapping[int, Hashable] | None = None,
        separator: int | None = None,
    ) -> None:
        between = () if separator is None else (separator,)
        self.lines = [replace(line, after=line.after or between) for line in lines[:-1]] + list(lines[-1:])
        self.v, marks = v, {id for line in self.lines for id in line.after}.union(between)
        self._meters = {id: [signs] if isinstance(signs, str) else list(signs) for id, signs in meters.items()}
        self._rhyme = dict(rhymes or {})
        self._words: dict[str, list[int]] = {}
        self._rhyming: dict[tuple[str, Hashable], frozenset[int]] = {}
        for id, all_signs in self._meters.items():
            for signs in all_signs:
                if not signs or not 0 <= id < v or id in marks:
                    raise ConfigError(
                        f"meters must map word ids below {v} to meters, got {signs!r} for id {id}. Remove the id, or "
                        "give it a meter."
                    )
                self._words.setdefault(signs, []).append(id)
                if id in self._rhyme:
                    key = signs, self._rhyme[id]
                    self._rhyming[key] = self._rhyming.get(key, frozenset()) | {id}
        self._known: dict[Hashable, int] = {}
        self._viable = {letter: self._viable_rhymes(letter) for letter in {line.rhyme for line in self.lines} - {""}}
        if self._rest(self._spot(0, 0, ())) >= UNREACHABLE:
            raise ImpossibleError(
                f"The {len(self._meters)} words cannot fill the {len(self.lines)} lines of the form. Add words, or "
                "change the meters of the lines."
            )

    def start(self) -> Hashable:
        return frozenset({self._spot(0, 0, ())})

    def options(self, place: Hashable) -> NextIds:
        assert isinstance(place, frozenset)
        needed = np.full(self.v, UNREACHABLE, np.int16)
        for spot in place:
            for ids, reached in self._moves(spot):
                needed[ids] = np.minimum(needed[ids], self._rest(reached))
        return NextIds(needed, any(spot.line == len(self.lines) for spot in place))

    def step(self, place: Hashable, id: int) -> Hashable:
        assert isinstance(place, frozenset)
        reached = (after for spot in place for ids, after in self._moves(spot, id) if id in ids)
        return frozenset(spot for spot in reached if self._rest(spot) < UNREACHABLE)

    def _moves(self, spot: VersePosition, id: int | None = None) -> Iterator[tuple[list[int], VersePosition]]:
        """Groups of ids, or only ``id``, with the position they lead to."""
        if spot.line == len(self.lines):
            return
        line = self.lines[spot.line]
        if spot.there >= len(line.meter):
            yield [line.after[spot.there - len(line.meter)]], self._spot(spot.line, spot.there + 1, spot.rhymes)
            return
        for signs in self._fitting(line.meter, spot.there):
            words = self._words[signs] if id is None else [id] if signs in self._meters.get(id, ()) else []
            after = spot.there + len(signs)
            if after < len(line.meter) or not line.rhyme:
                yield words, self._spot(spot.line, after, spot.rhymes)
                continue
            bound = spot.bound(line.rhyme)
            if bound is not None and id is None:
                words = sorted(self._rhyming.get((signs, bound[0]), ()))
            for word in words:
                if self._may_end(spot, line.rhyme, word):
                    yield [word], self._spot(spot.line, after, self._rhymes_after(spot, line.rhyme, word))

    def _fitting(self, meter: str, first: int) -> Iterator[str]:
        for signs in self._words:
            there = meter[first : first + len(signs)]
            if len(there) == len(signs) and all(a == b or ANY in (a, b) for a, b in zip(signs, there, strict=True)):
                yield signs

    def _may_end(self, spot: VersePosition, letter: str, word: int) -> bool:
        bound = spot.bound(letter)
        if bound is None:
            return self._rhyme.get(word) in self._viable[letter]
        return word in self._rhyme and self._rhyme[word] == bound[0] and word not in bound[1]

    def _rhymes_after(
        self, spot: VersePosition, letter: str, word: int
    ) -> tuple[tuple[str, Hashable, frozenset[int]], ...]:
        """The rhymes after a line has ended in a word, without those that no later line uses."""
        others = tuple(known for known in spot.rhymes if known[0] != letter)
        if not any(line.rhyme == letter for line in self.lines[spot.line + 1 :]):
            return others
        used = (spot.bound(letter) or (None, frozenset()))[1] | {word}
        return (*others, (letter, self._rhyme[word], used))

    def _spot(self, line: int, there: int, rhymes: tuple[tuple[str, Hashable, frozenset[int]], ...]) -> VersePosition:
        """The position; if a line is full, the beginning of the next line."""
        while line < len(self.lines) and there == self.lines[line].length:
            line, there = line + 1, 0
        return VersePosition(line, there, rhymes)

    # --- remaining ids ------------------------------------------------------------------------------------------

    def _rest(self, spot: VersePosition) -> int:
        """The minimum number of ids from a position to the end of the verse; UNREACHABLE if impossible."""
        if spot not in self._known:
            total = 0
            for number in range(spot.line, len(self.lines)):
                line, there = self.lines[number], spot.there if number == spot.line else 0
                written = max(there - len(line.meter), 0)
                total += self._least(number, min(there, len(line.meter)), spot) + len(line.after) - written
            self._known[spot] = min(total, UNREACHABLE)
        return self._known[spot]

    def _least(self, number: int, syllable: int, spot: VersePosition) -> int:
        letter = self.lines[number].rhyme
        bound = spot.bound(letter) if letter else None
        if not letter or bound is not None or syllable == len(self.lines[number].meter):
            return self._within(number, syllable, bound)
        return min(
            (self._within(number, syllable, (c, frozenset())) for c in self._viable[letter]), default=UNREACHABLE
        )

    def _within(self, number: int, syllable: int, bound: tuple[Hashable, frozenset[int]] | None) -> int:
        """The minimum number of words from a syllable to the end of its line, the last an unused word of the rhyme."""
        key = (number, syllable, bound)
        if key not in self._known:
            meter, best = self.lines[number].meter, UNREACHABLE
            if syllable == len(meter):
                best = 0  # the line is full
            for signs in self._fitting(meter, syllable):
                if syllable + len(signs) < len(meter):
                    best = min(best, 1 + self._within(number, syllable + len(signs), bound))
                elif bound is None or self._rhyming.get((signs, bound[0]), frozenset()) - bound[1]:
                    best = 1
            self._known[key] = min(best, UNREACHABLE)
        return self._known[key]

    def _viable_rhymes(self, letter: str) -> set[Hashable]:
        """The rhymes with a word for every line of a letter, for any words used in the lines before."""
        found = set(self._rhyme.values())
        numbers = [number for number, line in enumerate(self.lines) if line.rhyme == letter]
        for turn, number in enumerate(numbers, start=1):
            found = {rhyme for rhyme in found if len(set(self._ends(number, rhyme))) >= turn}
        return found

    def _ends(self, number: int, rhyme: Hashable) -> Iterator[int]:
        """The words of a rhyme that may end a line."""
        meter = self.lines[number].meter
        for (signs, known), words in self._rhyming.items():
            first = len(meter) - len(signs)
            if (
                known == rhyme
                and first >= 0
                and signs in set(self._fitting(meter, first))
                and self._reached(number, first)
            ):
                yield from words

    def _reached(self, number: int, syllable: int) -> bool:
        """Whether words can fill a line up to a syllable."""
        reached = {0}
        for first in range(syllable):
            if first in reached:
                reached |= {first + len(signs) for signs in self._fitting(self.lines[number].meter, first)}
        return syllable in reached
