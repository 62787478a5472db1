"""Preparation of text for drawing: safe characters, width and direction.

Widths are measured in a wide sans-serif font (DejaVu Sans, Verdana). Common fonts are at most as wide, so text that
fits here also fits there. Independent of SVG.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

# Hundredths of an em, rounded up: one line for each width among the printable ASCII characters.
_WIDTHS = {
    28: "'ijl",
    30: "IJ",
    32: " ,.",
    34: "/:;\\|",
    37: "-f",
    41: "!()[]rt",
    46: '"',
    50: "*_`",
    53: "?sz",
    56: "Lc",
    58: "Fk",
    61: "PTYaovxy",
    64: "$0123456789ESbdeghnpqu{}",
    66: "K",
    69: "ABVXZ",
    70: "CR",
    75: "NUH",
    77: "D",
    79: "&GOQ",
    82: "w",
    84: "#+<=>^~",
    87: "M",
    96: "%",
    99: "Wm",
    100: "@",
}
_ASCII = {character: hundredths / 100 for hundredths, group in _WIDTHS.items() for character in group}
_BY_CATEGORY = {"Lu": 0.78, "Ll": 0.68, "Lo": 0.78, "Lm": 0.5, "Nd": 0.64, "Mc": 0.5, "Pf": 0.6, "Pi": 0.6}
_NO_WIDTH = ("Mn", "Me", "Cf")
_OTHER = 0.85
_EMOJI = 1.3
_BOLD = 1.11
_ELLIPSIS = "…"

_BLANKS = re.compile(r"^ +| +$| {2,}")


def clean(text: str) -> str:
    """Return the text with every character visible and allowed in XML.

    Control characters become their pictures, blanks that SVG would drop become open boxes, and characters that XML
    forbids become the replacement character.

    >>> clean("a\\tb\\0 ")
    'a␉b␀␣'
    """
    shown = "".join(character if " " <= character <= "~" else _shown(character) for character in text)
    return _BLANKS.sub(lambda blanks: "␣" * len(blanks[0]), shown)


def _shown(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE:
        return "\ufffd"
    if character in "\u2028\u2029":
        return "␤"
    return " " if unicodedata.category(character) == "Zs" else character


@lru_cache(maxsize=4096)
def _ems(character: str) -> float:
    known = _ASCII.get(character)
    if known is not None:
        return known
    category = unicodedata.category(character)
    if category in _NO_WIDTH:
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return _EMOJI if category == "So" else 1.0
    base = unicodedata.normalize("NFD", character)[0]
    return _ASCII.get(base) or _BY_CATEGORY.get(category, _OTHER)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of a text processed by :func:`clean`, in the unit of ``size``, which is one em."""
    return sum(map(_ems, text)) * size * (_BOLD if bold else 1.0)


def shorten(text: str, size: float, most: float, bold: bool = False) -> str:
    """Return the text, or its longest beginning that fits into ``most`` with an ellipsis.

    >>> shorten("Donaudampfschifffahrt", 10.0, 70.0)
    'Donaudam…'
    """
    if text_width(text, size, bold) <= most:
        return text
    left = most - text_width(_ELLIPSIS, size, bold)
    kept = 0
    for character in text:
        left -= text_width(character, size, bold)
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + _ELLIPSIS


def is_right_to_left(texts: Iterable[str]) -> bool:
    """Return whether more characters run from right to left (Hebrew, Arabic) than from left to right."""
    balance = 0
    for text in texts:
        for character in text:
            direction = unicodedata.bidirectional(character)
            balance += (direction in ("R", "AL")) - (direction == "L")
    return balance > 0
