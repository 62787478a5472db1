"""Colors by meaning, for light and dark backgrounds. Independent of SVG elements.

Text colors have a contrast of at least 4.5 to the background in both modes (WCAG 2.2, success criterion 1.4.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Color(NamedTuple):
    """One color as a pair for light and dark mode."""

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
    # Heat covers the paper with an opacity. Its strength then decides between black and white text.
    "heat": Color("#0550ae", "#79c0ff"),
    "cold": Color("#953800", "#ffa657"),
    "on-weak": Color("#000000", "#ffffff"),
    "on-middle": Color("#000000", "#000000"),
    "on-strong": Color("#ffffff", "#000000"),
    # Categories differ by hue and, for neighbors in this list, by lightness.
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
"""Opacity of heat above which black text reads better on dark paper, and white text on light paper."""

DARK_OPEN, DARK_CLOSE = "@media (prefers-color-scheme:dark){", "}/*dark*/"


def category(number: int) -> str:
    """Return the color name of the category with this index, modulo the number of colors."""
    return f"c{number % N_CATEGORIES}"


def on_heat(opacity: float) -> str:
    """Return the name of the text color to use on heat of this opacity."""
    if opacity < MIDDLE:
        return "on-weak"
    return "on-middle" if opacity < STRONG else "on-strong"


def stylesheet(classes: Iterable[str]) -> str:
    """Return the CSS rules for classes such as ``f-ink`` (fill with ink) and ``s-line`` (stroke), light and dark."""
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
    """Return the SVG with its dark colors made unconditional, for programs without ``prefers-color-scheme``."""
    return svg.replace(DARK_OPEN, "").replace(DARK_CLOSE, "")
