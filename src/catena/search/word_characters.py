"""Which characters belong to words, for texts read as characters or as the bytes of UTF-8.

A phrase matches as whole words if no letter is adjacent to it. A single byte does not decide this: 0xE2 may begin a
dash or ⅓. So a reader has a state: whether the last character was a letter, or that it is still incomplete. Byte
prefixes that allow the same characters have the same state.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

BROKEN, OTHER, LETTER = -1, 0, 1
"""The states for invalid input and after a complete character; larger states are inside a character."""

_WITHIN_WORDS = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Cn", "Cs", "Co"}
_MARKED_BLOCKS = (0x80, 0xC0, 0x600, 0x640, 0x940, 0x2000, 0x2040, 0x2080, 0x3000, 0xFF00, 0xFF40)
"""Blocks with punctuation among the letters: Latin, Arabic, Devanagari and East Asian texts, quotes, dashes, currency.
In other blocks, rare punctuation counts as letters when bytes are read, which keeps the number of states small."""
_SYMBOLS = ((0x2100, 0x2BFF), (0x1F000, 0x1FFFF))
"""Blocks with almost no letters: arrows, signs, pictures."""
_NO_BLANKS = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x107F),
    (0x1780, 0x17FF),
    (0x3040, 0x30FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Thai and Lao, Burmese, Khmer, kana, and Han: words are not separated by blanks, so a phrase matches wherever its
characters occur."""
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"

CharacterReader = Callable[[int, str], int]
"""The state after one more character."""


def is_letter(character: str) -> bool:
    """Whether a character belongs to an adjacent word: letters, digits and combining marks.

    Unassigned code points count as letters; characters of scripts without blanks do not.
    """
    within = unicodedata.category(character) in _WITHIN_WORDS or character in _JOINERS
    return within and not _is_in(ord(character), _NO_BLANKS)


def read_character(state: int, character: str) -> int:
    """The state after one more character of plain text."""
    return LETTER if is_letter(character) else OTHER


def reader_of_bytes(number_of: Callable[[str], int]) -> CharacterReader:
    """The reader of texts whose bytes are written as characters; ``number_of`` maps a character to its byte."""
    return lambda state, character: after_byte(state, number_of(character))


def after_byte(state: int, byte: int) -> int:
    """The state after one more byte of UTF-8."""
    begun, open_characters = _table()
    if state > LETTER:
        return open_characters[state][byte - 0x80] if 0x80 <= byte < 0xC0 else BROKEN
    if byte < 0x80:
        return LETTER if is_letter(chr(byte)) else OTHER
    return begun.get(byte, LETTER)


@cache
def _table() -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """The states after first bytes, and for each state inside a character those after the 64 continuation bytes."""
    states: dict[tuple[int, ...], int] = {}

    def after(first: int, n_bytes: int) -> int:
        """The state with ``n_bytes`` missing, where ``first`` is the smallest possible character."""
        if n_bytes == 1:
            followers = _block(first)
        else:
            followers = tuple(after(first + (i << 6 * (n_bytes - 1)), n_bytes - 1) for i in range(64))
        return states.setdefault(followers, len(states) + LETTER + 1)

    begun = {0xC0 + i: after(i << 6, 1) for i in range(2, 32)}
    begun |= {0xE0 + i: after(i << 12, 2) for i in range(16)}
    begun[0xF0] = after(0, 3)
    return begun, {state: followers for followers, state in states.items()}


def _block(first: int) -> tuple[int, ...]:
    """The class of each of 64 characters, starting with ``first``."""
    if first in _MARKED_BLOCKS:
        return tuple(LETTER if is_letter(chr(first + i)) else OTHER for i in range(64))
    return (OTHER if _is_in(first, (*_SYMBOLS, *_NO_BLANKS)) else LETTER,) * 64


def _is_in(number: int, blocks: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= number <= last for first, last in blocks)
