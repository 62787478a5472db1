"""Numbers as tables write them: ``3.71``, ``3,71``, ``1.234,50 €``, ``$1,234.50``, ``45 %``.

The mark of decimals is found from all values of a column, because ``1.234`` may be a thousand or one. Tested in
tests/data/test_quantities.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from catena.data.roles import MISSING

_UNIT = r"[$€£¥₹]|US\$|USD|EUR|GBP|CHF|JPY|kr|zł|%"
_WRITTEN = re.compile(
    rf"(?P<sign>[-+\u2212]?)(?P<before>{_UNIT})?\s?(?P<inner>[-+\u2212]?)"
    rf"(?P<digits>(?:\d[\d.,'’\u00a0\u202f]*)?\d)(?P<power>[eE][-+]?\d+)?\s?(?P<after>{_UNIT})?"
)


@dataclass(frozen=True)
class NumberStyle:
    """How the numbers of a column are written.

    Args:
        decimal: the mark before the decimals.
        unit: the unit that stands next to numbers; empty if there is none.
    """

    decimal: str = "."
    unit: str = ""

    def parse(self, text: str) -> float | None:
        """The number that a text is, or None."""
        found = _WRITTEN.fullmatch(text.strip())
        if found is None or (found["sign"] and found["inner"]) or _unit(found) not in ("", self.unit):
            return None
        whole, mark, decimals = found["digits"].partition(self.decimal)
        groups = re.split(r"\D", whole)
        if not decimals.isdecimal() and mark:
            return None
        if len(groups) > 1 and (
            len(groups[0]) > 3 or groups[0][0] == "0" or any(len(group) != 3 for group in groups[1:])
        ):
            return None
        sign = "-" if "-" in (written := found["sign"] + found["inner"]) or "\u2212" in written else ""
        return float(f"{sign}{''.join(groups)}.{decimals or 0}{found['power'] or ''}")


PLAIN = NumberStyle()


def find_style(values: Iterable[Any]) -> NumberStyle:
    """How most texts among the values of a column write numbers; plain if they do not show it."""
    found = [match for value in values if isinstance(value, str) and (match := _WRITTEN.fullmatch(value.strip()))]
    units = {unit for match in found if (unit := _unit(match))}
    unit = units.pop() if len(units) == 1 else ""
    styles = [NumberStyle(mark, unit) for mark in (".", ",")]
    read = [sum(style.parse(match[0]) is not None for match in found) for style in styles]
    if read[0] != read[1]:
        return styles[read[1] > read[0]]
    return styles[unit not in ("", "%") and _are_thousands([match["digits"] for match in found])]


def _are_thousands(digits: list[str]) -> bool:
    """Whether all points are before three digits, as in ``1.234 €``, where a comma would be the mark of decimals."""
    pointed = [text for text in digits if "." in text]
    return bool(pointed) and all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", text) for text in pointed)


def _unit(match: re.Match[str]) -> str:
    return match["before"] or match["after"] or ""


def parse_number(value: Any, style: NumberStyle = PLAIN) -> tuple[float, str | None]:
    """The number that a cell holds, and None; or nan and what is wrong with it: missing, not a number, not finite.

    Args:
        value: the cell.
        style: how its column writes numbers.
    """
    if value is None or (isinstance(value, str) and value.strip() in MISSING):
        return math.nan, "missing"
    number = None if isinstance(value, str) and style.decimal != "." else to_float(value)
    if number is None and isinstance(value, str):
        number = style.parse(value)
    if number is None:
        return math.nan, "not a number"
    return (number, None) if math.isfinite(number) else (math.nan, "not finite")


def to_float(value: Any) -> float | None:
    """The number that Python reads in a value, or None."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
