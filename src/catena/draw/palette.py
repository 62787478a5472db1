"""The colours, by what they mean, in light and in dark. Knows nothing of SVG elements.

Text colours stand out from the paper by a contrast of 4.5 or more in both (WCAG 2.2, success criterion 1.4.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Colour(NamedTuple):
    """One meaning, as it looks on white and on black."""

    light: str
    dark: str


PALETTE = {
    "paper": Colour("#ffffff", "#0d1117"),
    "ink": Colour("#1f2328", "#e6edf3"),
    "soft": Colour("#59636e", "#9198a1"),
    "line": Colour("#d1d9e0", "#3d444d"),
    "edge": Colour("#949da6", "#6e7681"),
    "faint": Colour("#f3f5f7", "#171c23"),
    "accent": Colour("#0969da", "#58a6ff"),
    "best": Colour("#bc4c00", "#f0883e"),
    "good": Colour("#1a7f37", "#3fb950"),
    "bad": Colour("#cf222e", "#ff7b72"),
    # Heat is laid on the paper with an opacity. Black and white are then told apart by how strong it is.
    "heat": Colour("#0550ae", "#79c0ff"),
    "cold": Colour("#953800", "#ffa657"),
    "on-weak": Colour("#000000", "#ffffff"),
    "on-middle": Colour("#000000", "#000000"),
    "on-strong": Colour("#ffffff", "#000000"),
    # Categories, told apart by hue and, next to each other, by lightness.
    "c0": Colour("#0969da", "#58a6ff"),
    "c1": Colour("#bc4c00", "#f0883e"),
    "c2": Colour("#1a7f37", "#3fb950"),
    "c3": Colour("#8250df", "#bc8cff"),
    "c4": Colour("#bf3989", "#f778ba"),
    "c5": Colour("#7d5a00", "#d29922"),
    "c6": Colour("#0e7490", "#39c5cf"),
    "c7": Colour("#59636e", "#9198a1"),
}

N_CATEGORIES = 8
MIDDLE, STRONG = 0.57, 0.74
"""From which opacity of heat on, black reads better on dark paper, and white on light paper."""

DARK_OPEN, DARK_CLOSE = "@media (prefers-color-scheme:dark){", "}/*dark*/"


def category(number: int) -> str:
    """The colour of the category with this number; they come again after the last."""
    return f"c{number % N_CATEGORIES}"


def on_heat(opacity: float) -> str:
    """The colour of text that stands on heat of this opacity."""
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
    kind, _, colour = name.partition("-")
    prop = {"f": "fill", "s": "stroke"}[kind]
    return f".catena .{name}{{{prop}:{PALETTE[colour][mode]}}}"


def in_the_dark(svg: str) -> str:
    """The same SVG as it looks where dark colours are preferred, for programs that do not know of the preference."""
    return svg.replace(DARK_OPEN, "").replace(DARK_CLOSE, "")
