"""The colors, by what they mean, in light and in dark. Knows nothing of SVG elements.

Text colors stand out from the paper by a contrast of 4.5 or more in both (WCAG 2.2, success criterion 1.4.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Color(NamedTuple):
    """One meaning, as it looks on white and on black."""

    light: str
    dark: str


PALETTE = {
    "paper": Color("#ffffff", "#0d1117"),
    "ink": Color("#1f2328", "#e6edf3"),
    "soft": Color("#59636e", "#9198a1"),
    "line": Color("#d1d9e0", "#3d444d"),
    "edge": Color("#949da6", "#6e7681"),
    "faint": Color("#f3f5f7", "#171c23"),
    "accent": Color("#0969da", "#58a6ff"),
    "best": Color("#bc4c00", "#f0883e"),
    "good": Color("#1a7f37", "#3fb950"),
    "bad": Color("#cf222e", "#ff7b72"),
    # Heat is laid on the paper with an opacity. Black and white are then told apart by how strong it is.
    "heat": Color("#0550ae", "#79c0ff"),
    "cold": Color("#953800", "#ffa657"),
    "on-weak": Color("#000000", "#ffffff"),
    "on-middle": Color("#000000", "#000000"),
    "on-strong": Color("#ffffff", "#000000"),
    # Categories, told apart by hue and, next to each other, by lightness.
    "c0": Color("#0969da", "#58a6ff"),
    "c1": Color("#bc4c00", "#f0883e"),
    "c2": Color("#1a7f37", "#3fb950"),
    "c3": Color("#8250df", "#bc8cff"),
    "c4": Color("#bf3989", "#f778ba"),
    "c5": Color("#7d5a00", "#d29922"),
    "c6": Color("#0e7490", "#39c5cf"),
    "c7": Color("#59636e", "#9198a1"),
}

N_CATEGORIES = 8
MIDDLE, STRONG = 0.57, 0.74
"""From which opacity of heat on, black reads better on dark paper, and white on light paper."""

DARK_OPEN, DARK_CLOSE = "@media (prefers-color-scheme:dark){", "}/*dark*/"


def category(number: int) -> str:
    """The color of the category with this number; they come again after the last."""
    return f"c{number % N_CATEGORIES}"


def on_heat(opacity: float) -> str:
    """The color of text that stands on heat of this opacity."""
    if opacity < MIDDLE:
        return "on-weak"
    return "on-middle" if opacity < STRONG else "on-strong"


def stylesheet(classes: Iterable[str]) -> str:
    """The rules for classes such as ``f-ink`` (filled with ink) and ``s-line`` (a stroke), light and dark."""
    light, dark = [], []
    for name in sorted(classes):
        light.append(_rule(name, 0))
        dark.append(_rule(name, 1))
    return "".join(light) + DARK_OPEN + "".join(dark) + DARK_CLOSE


def _rule(name: str, mode: int) -> str:
    kind, _, color = name.partition("-")
    prop = {"f": "fill", "s": "stroke"}[kind]
    return f".catena .{name}{{{prop}:{PALETTE[color][mode]}}}"


def in_the_dark(svg: str) -> str:
    """The same SVG as it looks where dark colors are preferred, for programs that do not know of the preference."""
    return svg.replace(DARK_OPEN, "").replace(DARK_CLOSE, "")
