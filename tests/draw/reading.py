"""Parse a picture back into marks with the box that each covers, using only the SVG."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from catena.draw.picture import Picture
from catena.draw.svg import Box
from catena.draw.text import text_width

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Mark:
    kind: str
    box: Box
    classes: tuple[str, ...]
    text: str
    tooltip: str
    attributes: dict[str, str]
    points: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Read:
    view: Box
    title: str
    description: str
    style: str
    marks: tuple[Mark, ...]

    def texts(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == "text"]

    def text(self, text: str) -> Mark:
        (found,) = [mark for mark in self.texts() if mark.text == text]
        return found

    def having(self, kind: str, name: str) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == kind and name in mark.classes]


def read(picture: Picture) -> Read:
    root = ET.fromstring(picture.svg)
    assert root.tag == SVG + "svg"
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (width, height)
    assert root.attrib["role"] == "img"
    parts = list(root)
    assert [part.tag for part in parts[:4]] == [SVG + "title", SVG + "desc", SVG + "style", SVG + "rect"]
    title, description, style = (part.text or "" for part in parts[:3])
    assert root.attrib["aria-label"] == title
    return Read(Box(x, y, x + width, y + height), title, description, style, tuple(map(_mark, parts[4:])))


def _mark(element: ET.Element) -> Mark:
    kind = element.tag.removeprefix(SVG)
    attributes = dict(element.attrib)
    classes = tuple(attributes.pop("class", "").split())
    tooltip = element.find(SVG + "title")
    text = "".join(element.itertext()) if kind == "text" else ""
    note = "" if tooltip is None else tooltip.text or ""
    text = text.removeprefix(note) if tooltip is not None else text
    points = _points(kind, attributes, text)
    xs, ys = [x for x, _ in points], [y for _, y in points]
    grown = float(attributes["stroke-width"]) / 2 if "stroke-width" in attributes else 0.0
    box = Box(min(xs), min(ys), max(xs), max(ys)).grown(grown)
    return Mark(kind, box, classes, text, note, attributes, tuple(points))


def _points(kind: str, attributes: dict[str, str], text: str) -> list[tuple[float, float]]:
    if kind == "path":
        return path_points(attributes["d"])
    get = {key: float(value) for key, value in attributes.items() if re.fullmatch(r"-?[\d.]+", value)}
    if kind in ("rect", "image"):
        return [(get["x"], get["y"]), (get["x"] + get["width"], get["y"] + get["height"])]
    if kind == "circle":
        return [(get["cx"] - get["r"], get["cy"] - get["r"]), (get["cx"] + get["r"], get["cy"] + get["r"])]
    if kind == "line":
        return [(get["x1"], get["y1"]), (get["x2"], get["y2"])]
    assert kind == "text", kind
    return _text_corners(attributes, get, text)


def _text_corners(attributes: dict[str, str], get: dict[str, float], text: str) -> list[tuple[float, float]]:
    size = get["font-size"]
    width = text_width(text, size, attributes.get("font-weight") == "bold")
    anchor = attributes.get("text-anchor", "start")
    if attributes.get("direction") == "rtl":
        anchor = {"start": "end", "end": "start"}.get(anchor, anchor)
    left = get["x"] - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    corners = [(x, y) for x in (left, left + width) for y in (get["y"] - 0.8 * size, get["y"] + 0.22 * size)]
    turn = re.fullmatch(r"rotate\(([-\d.]+) ([-\d.]+) ([-\d.]+)\)", attributes.get("transform", "rotate(0 0 0)"))
    assert turn
    angle, cx, cy = math.radians(float(turn[1])), float(turn[2]), float(turn[3])
    c, s = math.cos(angle), math.sin(angle)
    return [(cx + (x - cx) * c - (y - cy) * s, cy + (x - cx) * s + (y - cy) * c) for x, y in corners]


def path_points(d: str) -> list[tuple[float, float]]:
    """Return points on a path of absolute moves, lines and cubic curves, dense enough to follow it."""
    points: list[tuple[float, float]] = []
    for name, numbers in re.findall(r"([MLCZ])([^MLCZ]*)", d):
        values = [float(number) for number in numbers.split()]
        if name in "ML":
            points.append((values[0], values[1]))
        elif name == "C":
            start, controls = points[-1], list(zip(values[::2], values[1::2], strict=True))
            points += [_bezier(start, controls, k / 16) for k in range(1, 17)]
    return points


def _bezier(start: tuple[float, float], controls: list[tuple[float, float]], t: float) -> tuple[float, float]:
    a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
    p, q, r = controls
    return a * start[0] + b * p[0] + c * q[0] + d * r[0], a * start[1] + b * p[1] + c * q[1] + d * r[1]


def assert_inside(picture: Picture) -> None:
    """Assert that every mark is within the view box."""
    found = read(picture)
    view = found.view.grown(0.02)
    for mark in found.marks:
        box = mark.box
        assert view.x0 <= box.x0, (mark, found.view)
        assert view.y0 <= box.y0, (mark, found.view)
        assert box.x1 <= view.x1, (mark, found.view)
        assert box.y1 <= view.y1, (mark, found.view)


def assert_apart(marks: list[Mark], slack: float = 0.05) -> None:
    """Assert that no two texts overlap."""
    shown = [mark for mark in marks if mark.box.width > 0]
    for i, a in enumerate(shown):
        for b in shown[:i]:
            assert not (a.box.overlaps(b.box) and _share(a, b, slack)), (a, b)


def _share(a: Mark, b: Mark, slack: float) -> bool:
    """Return whether two rectangles, slanted or not, overlap: no direction of their sides separates them."""
    for corners in (a.points, b.points):
        for other in corners[1:3]:
            dx, dy = other[0] - corners[0][0], other[1] - corners[0][1]
            length = math.hypot(dx, dy)
            (low, high), (least, most) = (_extent(mark, dx / length, dy / length) for mark in (a, b))
            if high <= least + slack or most <= low + slack:
                return False
    return True


def _extent(mark: Mark, dx: float, dy: float) -> tuple[float, float]:
    along = [x * dx + y * dy for x, y in mark.points]
    return min(along), max(along)
