"""Encodings of text files: byte-order marks, UTF-16 without a mark, and which encoding invalid bytes point to.

Bytes are never guessed to be in another encoding than UTF-8 or UTF-16. The error for an invalid byte says what the
bytes of the whole file point to.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from pathlib import Path

from catena.errors import FormatError

BOMS = {
    # UTF-32 comes first because its little-endian mark begins with the mark of UTF-16.
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
HEAD = 512
"""Number of first bytes that :func:`detect_encoding` needs."""
_UNDEFINED = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Bytes that Windows-1252 does not define."""
_LATIN_TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F), *range(0xA0, 0x100)))
_MOST_SCANNED = 1 << 26
"""Number of bytes that are scanned to name an encoding."""
_OTHER_SCRIPT, _ENOUGH = 0.3, 20
"""Fraction and number of bytes above 0x7f in invalid lines from which the text is probably not in Latin script."""


def detect_encoding(path: Path | str, head: bytes, encoding: str | None) -> str:
    """The encoding to decode with.

    Args:
        path: the file, for errors.
        head: its first bytes, at least four; with :data:`HEAD` bytes, UTF-16 without a mark is detected.
        encoding: the encoding that the user sets, which must agree with a byte-order mark.
    """
    marked = next((name for bom, name in BOMS.items() if head.startswith(bom)), None)
    if encoding is None:
        return marked or utf16_without_mark(head) or "utf-8"
    try:
        name = codecs.lookup(encoding).name
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # rejects codecs such as base64 that are not for text
    except (LookupError, ValueError):
        raise FormatError(
            f"Unknown encoding {encoding!r} for {path}. Use utf-8, utf-16, latin-1, cp1252, gb18030, shift_jis or "
            f"another encoding of Python."
        ) from None
    if marked is None:
        return name
    family = marked.removesuffix("-sig")
    if not name.startswith(family):
        raise FormatError(
            f"The encoding of {path} must be {family} because of its byte-order mark, got {encoding!r}. "
            "Remove the encoding option."
        )
    return marked


def utf16_without_mark(head: bytes) -> str | None:
    """``utf-16-le`` or ``utf-16-be`` if every other byte is NUL, as in UTF-16 of Latin letters, otherwise None."""
    head = head[: HEAD - HEAD % 2]
    pairs = len(head) // 2
    even, odd = head[0 : 2 * pairs : 2], head[1 : 2 * pairs : 2]
    for name, low, high in (("utf-16-le", even, odd), ("utf-16-be", odd, even)):
        latin = sum(byte in _LATIN_TEXT for byte, other in zip(low, high, strict=True) if other == 0)
        others = high.count(0) - latin + low.count(0)
        if pairs >= 4 and latin >= 0.5 * pairs and others <= 0.02 * pairs:
            return name
    return None


def encoding_advice(stream: io.BufferedIOBase, encoding: str | None) -> str:
    """A sentence with the cure for a file with bytes that are not in its encoding.

    Args:
        stream: the file from its beginning.
        encoding: the encoding that the user sets, or None for UTF-8.
    """
    if encoding is not None and codecs.lookup(encoding).name != "utf-8":
        return "Pass the encoding of the file, such as --encoding utf-8."
    invalid, high, valid = _scan(stream)
    if len(invalid) == 1 and valid:
        return "All other lines are UTF-8, so correct this line."
    name, why = _named_by_bytes(high)
    if len(invalid) == 1:
        return f"It is the only such line: correct it, or pass --encoding {name} if the whole file is in that encoding."
    if valid:
        return (
            f"{len(invalid):,} lines are not UTF-8 and {valid:,} lines with such letters are, so the file mixes "
            f"encodings: convert the lines of {_numbers(invalid)}."
        )
    return f"Pass the encoding of the file: --encoding {name}{why}."


def _scan(stream: io.BufferedIOBase) -> tuple[list[int], Counter[int], int]:
    """The numbers of the lines that are not UTF-8, their bytes, and how many other lines are not ASCII."""
    invalid: list[int] = []
    high: Counter[int] = Counter()
    valid = 0
    for number, line in enumerate(io.BytesIO(stream.read(_MOST_SCANNED)), start=1):
        if line.isascii():
            continue
        try:
            line.decode()
            valid += 1
        except UnicodeDecodeError:
            invalid.append(number)
            high.update(line)
    return invalid, high, valid


def _named_by_bytes(counts: Counter[int]) -> tuple[str, str]:
    """The encoding that the bytes of invalid lines point to, and the evidence in brackets."""
    high = {byte: n for byte, n in counts.items() if byte >= 0x80}
    letters = sum(n for byte, n in counts.items() if byte > 0x20)
    if sum(high.values()) > max(_OTHER_SCRIPT * letters, _ENOUGH):
        return "NAME", " (such as cp1251 or koi8-r for Cyrillic, gb18030 for Chinese, shift_jis for Japanese)"
    if high.keys() & _UNDEFINED:
        return "latin-1", ""
    curly = sorted(byte for byte in high if byte < 0xA0)
    if not curly:
        return "cp1252", ""
    shown = ", ".join(f"0x{byte:02x} is {bytes([byte]).decode('cp1252')}" for byte in curly[:3])
    return "cp1252", f" ({shown} there)"


def _numbers(lines: list[int]) -> str:
    return ", ".join(f"{number:,}" for number in lines[:5]) + (", …" if len(lines) > 5 else "")


UNDECODED = re.compile("[\udc80-\udcff]")
"""A byte ``b`` that could not be decoded, as the character ``U+DC00 + b``."""
