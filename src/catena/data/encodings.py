"""Which encoding the invalid bytes of a text file point to, for errors.

Bytes are never guessed to be in another encoding than UTF-8 or UTF-16 (:func:`catena.data.files.detect_encoding`). The
error for an invalid byte says what the bytes of the whole file point to.

Tested in tests/data/test_files.py and test_messy_files.py.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter

_UNDEFINED = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Bytes that Windows-1252 does not define."""
_MOST_SCANNED = 1 << 26
"""Number of bytes that are scanned to name an encoding."""
_OTHER_SCRIPT, _ENOUGH = 0.3, 20
"""Fraction and number of bytes above 0x7f in invalid lines from which the text is probably not in Latin script."""


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
