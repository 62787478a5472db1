"""A small SVG builder with shapes and text in named colors, and a view box that encloses all of them.

Every mark reports the box it covers, so the size of a picture is known without a browser. A picture has no external
references: no script or font, images only as bytes of its own, and no id that could clash with another picture on the
same page.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple

from catena.draw.palette import stylesheet
from catena.draw.picture import Picture
from catena.draw.text import clean, is_right_to_left, shorten, text_width

_FONT = "'Segoe UI','Helvetica Neue',Helvetica,Arial,'Noto Sans','DejaVu Sans',sans-serif"
WORD, SMALL, TINY = 14.0, 11.5, 10.0
"""Font sizes in pixels: words, labels on things, and numbers in cells."""

ASCENT, DESCENT = 0.95, 0.28
MARGIN = 14.0
LONGEST_WORD = 30 * WORD
"""A single word or label is truncated at this width; its tooltip has the full text."""

_Anchor = Literal["start", "middle", "end"]


class Box(NamedTuple):
    """A rectangle: x from ``x0`` to ``x1``, y from ``y0`` (above) to ``y1`` (below)."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def middle(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def grown(self, by: float) -> Box:
        return Box(self.x0 - by, self.y0 - by, self.x1 + by, self.y1 + by)

    def union(self, other: Box) -> Box:
        return Box(min(self.x0, other.x0), min(self.y0, other.y0), max(self.x1, other.x1), max(self.y1, other.y1))

    def overlaps(self, other: Box) -> bool:
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1


Point = tuple[float, float]


@dataclass
class Path:
    """The outline of a shape: straight lines and cubic curves through absolute points."""

    steps: list[tuple[str, tuple[Point, ...]]] = field(default_factory=list)

    def move(self, x: float, y: float) -> Path:
        self.steps.append(("M", ((x, y),)))
        return self

    def line(self, x: float, y: float) -> Path:
        self.steps.append(("L", ((x, y),)))
        return self

    def curve(self, first: Point, second: Point, end: Point) -> Path:
        self.steps.append(("C", (first, second, end)))
        return self

    def close(self) -> Path:
        self.steps.append(("Z", ()))
        return self

    def points(self) -> Iterable[Point]:
        return (point for _, points in self.steps for point in points)

    def __str__(self) -> str:
        return "".join(name + " ".join(f"{number(x)} {number(y)}" for x, y in points) for name, points in self.steps)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals and no unnecessary characters.

    >>> number(12.5), number(3.0), number(-0.001)
    ('12.5', '3', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def attribute(value: float | str) -> str:
    """Return the text of an attribute value: strings as they are, numbers with few digits."""
    return value if isinstance(value, str) else number(value)


class Canvas:
    """A list of marks in drawing order; later marks are on top."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.box: Box | None = None
        self.classes: set[str] = {"f-paper"}

    # --- shapes ---------------------------------------------------------------------------------------------

    def rect(
        self,
        box: Box,
        fill: str | None = None,
        stroke: str | None = None,
        *,
        width: float = 1.0,
        radius: float = 0.0,
        opacity: float | None = None,
        tooltip: str = "",
    ) -> None:
        shape = {"x": box.x0, "y": box.y0, "width": box.width, "height": box.height}
        if radius:
            shape["rx"] = radius
        self._mark("rect", shape, box, fill, stroke, width, opacity, tooltip)

    def circle(
        self,
        x: float,
        y: float,
        radius: float,
        fill: str | None = None,
        stroke: str | None = None,
        *,
        width: float = 1.0,
        opacity: float | None = None,
        tooltip: str = "",
    ) -> None:
        box = Box(x, y, x, y).grown(radius)
        self._mark("circle", {"cx": x, "cy": y, "r": radius}, box, fill, stroke, width, opacity, tooltip)

    def line(
        self,
        start: Point,
        end: Point,
        stroke: str = "line",
        *,
        width: float = 1.0,
        opacity: float | None = None,
        dash: str = "",
        tooltip: str = "",
    ) -> None:
        shape = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
        box = Box(min(start[0], end[0]), min(start[1], end[1]), max(start[0], end[0]), max(start[1], end[1]))
        self._mark("line", shape, box, None, stroke, width, opacity, tooltip, dash)

    def path(
        self,
        path: Path,
        fill: str | None = None,
        stroke: str | None = None,
        *,
        width: float = 1.0,
        opacity: float | None = None,
        dash: str = "",
        tooltip: str = "",
    ) -> None:
        xs, ys = zip(*path.points(), strict=True)
        box = Box(min(xs), min(ys), max(xs), max(ys))  # control points included: a curve stays in their convex hull
        self._mark("path", {"d": str(path)}, box, fill, stroke, width, opacity, tooltip, dash)

    def image(self, box: Box, png: bytes, *, tooltip: str = "") -> None:
        """Draw a raster image, whose bytes become a part of the picture."""
        data = f"data:image/png;base64,{b64encode(png).decode('ascii')}"
        shape: dict[str, float | str] = {"x": box.x0, "y": box.y0, "width": box.width, "height": box.height}
        self._element("image", {**shape, "href": data, "preserveAspectRatio": "none"}, (), "", tooltip)
        self._cover(box)

    def arrow_head(self, tip: Point, direction: Point, color: str, size: float = 7.0, opacity: float = 1.0) -> None:
        """Draw a filled triangle with its tip at ``tip`` that points along ``direction``."""
        length = (direction[0] ** 2 + direction[1] ** 2) ** 0.5
        dx, dy = direction[0] / length, direction[1] / length
        x, y = tip[0] - dx * size, tip[1] - dy * size
        half = size * 0.42
        path = Path().move(*tip).line(x - dy * half, y + dx * half).line(x + dy * half, y - dx * half).close()
        self.path(path, color, opacity=None if opacity >= 1 else opacity)

    # --- text -----------------------------------------------------------------------------------------------

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        color: str = "ink",
        size: float = WORD,
        anchor: _Anchor = "middle",
        bold: bool = False,
        backed: bool = False,
        opacity: float | None = None,
        most: float = LONGEST_WORD,
        tooltip: str = "",
    ) -> Box:
        """Draw text centered vertically at ``y`` and anchored horizontally at ``x``, and return its box.

        With ``backed``, a rectangle in the paper color behind the text hides lines that cross it.
        """
        whole = clean(text)
        shown = shorten(whole, size, most, bold)
        if shown != whole:
            tooltip = tooltip or whole
        width = text_width(shown, size, bold)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        base = y + 0.35 * size
        box = Box(left, base - ASCENT * size, left + width, base + DESCENT * size)
        if backed and shown:
            self.rect(Box(box.x0 - 3, y - size * 0.6, box.x1 + 3, y + size * 0.6), "paper")
        if shown:
            self._text(x, base, shown, color, size, anchor, bold, opacity, tooltip)
            self._cover(box)
        return box

    def slanted_text(
        self, x: float, y: float, text: str, angle: float, *, size: float = WORD, most: float = LONGEST_WORD
    ) -> Box:
        """Draw text that starts at a point and rises to the right by ``angle`` degrees, and return its box."""
        whole = clean(text)
        shown = shorten(whole, size, most)
        turn = -math.radians(angle)
        base = y + 0.35 * size
        width = text_width(shown, size)
        corners = [(dx, base + dy - y) for dx in (0.0, width) for dy in (-ASCENT * size, DESCENT * size)]
        xs = [x + dx * math.cos(turn) - dy * math.sin(turn) for dx, dy in corners]
        ys = [y + dx * math.sin(turn) + dy * math.cos(turn) for dx, dy in corners]
        box = Box(min(xs), min(ys), max(xs), max(ys))
        if shown:
            slant = f"rotate({number(-angle)} {number(x)} {number(y)})"
            note = whole if shown != whole else ""
            self._text(x, base, shown, "ink", size, "start", False, None, note, slant)
            self._cover(box)
        return box

    def _text(
        self,
        x: float,
        base: float,
        shown: str,
        color: str,
        size: float,
        anchor: _Anchor,
        bold: bool,
        opacity: float | None,
        tooltip: str,
        transform: str = "",
    ) -> None:
        shape: dict[str, float | str] = {"x": x, "y": base, "font-size": size}
        if transform:
            shape["transform"] = transform
        if is_right_to_left([shown]):
            shape["direction"] = "rtl"  # then SVG's start is at the right
            anchor = {"start": "end", "end": "start", "middle": "middle"}[anchor]  # type: ignore[assignment]
        if anchor != "start":
            shape["text-anchor"] = anchor
        if bold:
            shape["font-weight"] = "bold"
        if opacity is not None:
            shape["opacity"] = opacity
        self._element("text", shape, [f"f-{color}"], escape(shown, quote=False), tooltip)

    # --- common parts of marks ------------------------------------------------------------------------------

    def _mark(
        self,
        name: str,
        shape: dict[str, float] | dict[str, str],
        box: Box,
        fill: str | None,
        stroke: str | None,
        width: float,
        opacity: float | None,
        tooltip: str,
        dash: str = "",
    ) -> None:
        attributes: dict[str, float | str] = dict(shape)
        names = []
        if fill is None:
            attributes["fill"] = "none"
        else:
            names.append(f"f-{fill}")
        if stroke is not None:
            names.append(f"s-{stroke}")
            attributes["stroke-width"] = width
            box = box.grown(width / 2)
        if dash:
            attributes["stroke-dasharray"] = dash
        if opacity is not None:
            attributes["opacity"] = opacity
        self._element(name, attributes, names, "", tooltip)
        self._cover(box)

    def _element(
        self, name: str, attributes: dict[str, float | str], classes: Sequence[str], content: str, tooltip: str
    ) -> None:
        self.classes.update(classes)
        shown = "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items())
        if tooltip:
            content = f"<title>{escape(clean(tooltip), quote=False)}</title>" + content
        end = f">{content}</{name}>" if content else "/>"
        self.marks.append(f'<{name} class="{" ".join(classes)}"{shown}{end}')

    def _cover(self, box: Box) -> None:
        self.box = box if self.box is None else self.box.union(box)

    # --- the result -----------------------------------------------------------------------------------------

    def picture(self, name: str, description: str, heading: str = "") -> Picture:
        """Return the finished picture, with ``heading`` on top and ``name`` and ``description`` as alternative text."""
        box = self.box or Box(0.0, 0.0, 0.0, 0.0)
        if heading:
            y = box.y0 - 18.0
            box = box.union(self.text(box.x0, y, heading, size=WORD + 1, bold=True, anchor="start", most=720.0))
        view = box.grown(MARGIN)
        size = [number(v) for v in (view.x0, view.y0, view.width, view.height)]
        name, description = (escape(clean(text)[:1000]) for text in (heading or name, description))
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="catena" viewBox="{" ".join(size)}" width="{size[2]}" '
            f'height="{size[3]}" font-family="{_FONT}" style="max-width:100%;height:auto" role="img" '
            f'aria-label="{name}">',
            f"<title>{name}</title>",
            f"<desc>{description}</desc>",
            f"<style>{stylesheet(self.classes)}</style>",
            f'<rect class="f-paper" x="{size[0]}" y="{size[1]}" width="{size[2]}" height="{size[3]}" rx="6"/>',
            *self.marks,
            "</svg>",
        ]
        return Picture("\n".join(parts) + "\n")
