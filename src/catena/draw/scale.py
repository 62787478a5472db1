"""Axes: ticks at round values, values as short text, and the map from values to pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from catena.errors import DataError

_MINUS = "−"


def nice_step(span: float, most: int) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that divides ``span`` into at most ``most`` steps."""
    if not (span > 0 and math.isfinite(span)) or most < 1:
        raise DataError(f"span and most must be positive, got span={span} and most={most}. Pass positive values.")
    power = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1.0, 2.0, 5.0, 10.0):
        if span <= factor * power * most * (1 + 1e-9):
            return factor * power
    return 20.0 * power


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` + 1 round values in [low, high].

    >>> ticks(0.0, 0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    step = nice_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Return powers of ten between two positive values, with their 2 and 5 fold if ``most`` allows."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**p for p in powers for f in factors if low * (1 - 1e-9) <= f * 10.0**p <= high * (1 + 1e-9)]
        if len(found) <= most:
            break
    stride = max(1, math.ceil(len(found) / most))
    return found[::stride] if len(found) > 1 else [low, high]


def short(value: float, digits: int = 3) -> str:
    """Return a value as short text: three digits, thousands as k, no trailing zeros.

    >>> [short(v) for v in (0.12345, 12000.0, 3.0, -0.5, 1.5e9)]
    ['0.123', '12k', '3', '−0.5', '1.5G']
    """
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("∞" if value > 0 else _MINUS + "∞")
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if limit <= size < 1e12:
            divisor = {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return short(value / divisor, digits) + unit
    if size and (size < 1e-3 or size >= 1e12):
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        text = f"{_trimmed(mantissa)}e{int(power)}"
    else:
        places = max(0, digits - 1 - (math.floor(math.log10(size)) if size else 0))
        text = _trimmed(f"{value:.{places}f}")
    return text.replace("-", _MINUS)


def format_fixed(value: float, places: int = 2) -> str:
    """Return a value with ``places`` decimals and a minus sign as wide as a digit."""
    text = f"{value:.{places}f}"
    return text[1:] if float(text) == 0 and text[0] == "-" else text.replace("-", _MINUS)


def probability(value: float) -> str:
    """Return a probability with two decimals and no leading zero, as in ``.07`` and ``1``."""
    text = f"{value:.2f}"
    return {"1.00": "1", "0.00": "0", "-0.00": "0"}.get(text, text.lstrip("0"))


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class Axis:
    """A map from values to pixels, with ticks.

    Args:
        low: the value at ``start``.
        high: the value at ``end``.
        start: the pixel of ``low``.
        end: the pixel of ``high``; less than ``start`` on a vertical axis.
        marks: the values that get a tick.
        logarithmic: equal ratios have equal distances.
    """

    low: float
    high: float
    start: float
    end: float
    marks: tuple[float, ...]
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def fit_axis(
    values: Sequence[float],
    start: float,
    end: float,
    *,
    most: int = 6,
    logarithmic: bool = False,
    zero: bool = False,
    tight: bool = False,
) -> Axis:
    """Return an axis over all finite values.

    Args:
        values: the values to show; those that are not finite are ignored.
        start: the pixel of the least value.
        end: the pixel of the largest value.
        most: the largest number of steps between ticks.
        logarithmic: use a logarithmic axis.
        zero: include 0.
        tight: end the axis at the extreme values instead of the next ticks.
    """
    found = [v for v in values if math.isfinite(v)]
    if not found:
        raise DataError("There is nothing to draw: no value is finite. Check the values.")
    low, high = min(found), max(found)
    if logarithmic:
        return _log_axis(low, high, start, end, most)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = (low if zero and low == 0 else low - pad), high + pad
    if not math.isfinite(high - low):
        raise DataError(f"The range from {low:g} to {high:g} is too large for an axis. Remove extreme values.")
    if not tight:
        step = nice_step(high - low, most)
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        return Axis(low, high, start, end, tuple(ticks(low, high, round((high - low) / step))))
    return Axis(low, high, start, end, tuple(ticks(low, high, most)))


def _log_axis(low: float, high: float, start: float, end: float, most: int) -> Axis:
    if low <= 0:
        raise DataError(f"Values on a logarithmic axis must be positive, got {low:g}. Use a linear axis.")
    if high / low < 1.01:
        low, high = low / 2, high * 2
    return Axis(low, high, start, end, tuple(log_ticks(low, high, most)), logarithmic=True)
