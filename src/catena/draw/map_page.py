"""A map of labeled points as one HTML page with zoom (wheel, touch, keys), drag and search. Needs no network.

Labels never overlap: at each zoom level the page shows those that fit, in the given order.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catena.draw.palette import N_CATEGORIES, PALETTE
from catena.draw.values import NumberSequence, array, check_count, check_shape, check_some
from catena.errors import DataError
from catena.files import atomic_write


@dataclass(frozen=True)
class Page:
    """An HTML page that can be saved or shown in a notebook frame."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to ``name.html`` atomically and return the path."""
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise DataError(f"path must end in .html, got {path.name!r}. Save the page as {path.stem + '.html'!r}.")
        with atomic_write(path) as unfinished:
            unfinished.write_bytes(self.html.encode("utf-8"))
        return path


def draw_map_page(
    points: NumberSequence, labels: Sequence[str], *, groups: Sequence[str] | None = None, title: str = "Map"
) -> Page:
    """Draw labeled points as an interactive page.

    Args:
        points: ``points[i]`` has the coordinates of point ``i``.
        labels: ``labels[i]`` is its label; earlier labels take precedence if space is short.
        groups: ``groups[i]`` is its group, which sets its color.
        title: the heading of the page.
    """
    check_some("labels", labels)
    places = array("points", points, "n c")
    check_shape("points", places, [len(labels), 2], "x and y for each label")
    if not np.isfinite(places).all():
        raise DataError("points has a value that is not finite. Remove that point.")
    if groups is not None:
        check_count("groups", len(groups), len(labels), "points")
    names = list(dict.fromkeys(groups or ()))
    low, span = places.min(0), max(float((places.max(0) - places.min(0)).max()), 1e-12)
    moved = (places - low) / span
    data = {
        "x": [round(float(x), 5) for x in moved[:, 0]],
        "y": [round(1 - float(y), 5) for y in moved[:, 1]],
        "name": list(labels),
        "group": [names.index(group) % N_CATEGORIES for group in groups] if groups is not None else [0] * len(labels),
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = _PAGE.replace("@TITLE@", html.escape(title)).replace("@N@", f"{len(labels):,}")
    return Page(page.replace("@COLORS@", _colors()).replace("@DATA@", text))


def _colors() -> str:
    meanings = ["paper", "ink", "soft", "line", *(f"c{i}" for i in range(N_CATEGORIES))]
    light = "".join(f"--{name}:{PALETTE[name].light};" for name in meanings)
    dark = "".join(f"--{name}:{PALETTE[name].dark};" for name in meanings)
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>@TITLE@</title>
<style>
@COLORS@
html,body{margin:0;height:100%;background:var(--paper);color:var(--ink);font:14px system-ui,sans-serif}
header{position:fixed;z-index:1;left:12px;top:12px;display:flex;gap:10px;align-items:center;flex-wrap:wrap}
header,input,button{background:var(--paper);color:var(--ink)}
h1{font-size:16px;margin:0}
input,button{font:inherit;border:1px solid var(--line);border-radius:6px;padding:6px 10px}
p{margin:0;color:var(--soft)}
canvas{display:block;width:100vw;height:100vh;touch-action:none;cursor:grab}
canvas:focus-visible{outline:2px solid var(--c0);outline-offset:-4px}
</style>
</head>
<body>
<header>
<h1>@TITLE@</h1>
<input id="search" type="search" placeholder="Search @N@ words" aria-label="Search a word" list="words">
<datalist id="words"></datalist>
<button id="whole">Whole map</button>
<p id="said" role="status"></p>
</header>
<canvas id="map" tabindex="0" aria-label="Map of @N@ words. Plus and minus zoom, arrows move."></canvas>
<script type="application/json" id="data">@DATA@</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent), n = data.name.length;
const canvas = document.getElementById("map"), pen = canvas.getContext("2d");
const search = document.getElementById("search"), said = document.getElementById("said");
const view = {x: 0.5, y: 0.5, zoom: 1};
let found = -1, width = 0, height = 0, waiting = false;

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
function unit() { return Math.min(width, height) * 0.9 * view.zoom; }
function onScreen(i) {
  return [width / 2 + (data.x[i] - view.x) * unit(), height / 2 + (data.y[i] - view.y) * unit()];
}
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
function draw() {
  const ratio = window.devicePixelRatio || 1;
  width = canvas.clientWidth; height = canvas.clientHeight;
  canvas.width = width * ratio; canvas.height = height * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const colors = Array.from({length: 8}, (_, i) => color("c" + i)), ink = color("ink"), best = color("c1");
  const seen = [], taken = new Map(), cell = 40;
  for (let i = 0; i < n; i++) {
    const [x, y] = onScreen(i);
    if (x > -200 && x < width + 200 && y > -20 && y < height + 20) seen.push([i, x, y]);
  }
  pen.globalAlpha = 0.8;
  for (const [i, x, y] of seen) {
    pen.fillStyle = colors[data.group[i]];
    pen.beginPath(); pen.arc(x, y, 2.5, 0, 7); pen.fill();
  }
  pen.globalAlpha = 1;
  function hits(box) {
    const cells = [];
    for (let cx = Math.floor(box[0] / cell); cx <= Math.floor(box[2] / cell); cx++)
      for (let cy = Math.floor(box[1] / cell); cy <= Math.floor(box[3] / cell); cy++) {
        const key = cx + "," + cy;
        for (const b of taken.get(key) || [])
          if (box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3]) return true;
        cells.push(key);
      }
    for (const key of cells) { if (!taken.has(key)) taken.set(key, []); taken.get(key).push(box); }
    return false;
  }
  function label(i, x, y, fill, bold) {
    pen.font = (bold ? "bold 15px" : "12px") + " system-ui, sans-serif";
    const w = pen.measureText(data.name[i]).width;
    if (hits([x + 4, y - 8, x + w + 8, y + 8]) && !bold) return;
    pen.fillStyle = fill;
    pen.fillText(data.name[i], x + 6, y);
  }
  if (found >= 0) {
    const [x, y] = onScreen(found);
    pen.strokeStyle = best; pen.lineWidth = 2;
    pen.beginPath(); pen.arc(x, y, 7, 0, 7); pen.stroke();
    label(found, x + 5, y, best, true);
  }
  for (const [i, x, y] of seen) if (i !== found) label(i, x, y, ink, false);
}
function zoomAt(x, y, factor) {
  const before = unit(), zoom = Math.min(400, Math.max(0.5, view.zoom * factor));
  const px = view.x + (x - width / 2) / before, py = view.y + (y - height / 2) / before;
  view.zoom = zoom;
  view.x = px - (x - width / 2) / unit(); view.y = py - (y - height / 2) / unit();
  redraw();
}
function find(text) {
  const wanted = text.trim().toLowerCase();
  found = -1; said.textContent = "";
  if (wanted) {
    const lower = data.name.map(name => name.toLowerCase());
    found = lower.indexOf(wanted);
    if (found < 0) found = lower.findIndex(name => name.startsWith(wanted));
    if (found < 0) said.textContent = "no such word";
    else { view.x = data.x[found]; view.y = data.y[found]; view.zoom = Math.max(view.zoom, 4); }
  }
  redraw();
}
const fingers = new Map();
canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); fingers.set(e.pointerId, e); });
canvas.addEventListener("pointermove", e => {
  const old = fingers.get(e.pointerId);
  if (!old) return;
  if (fingers.size === 2) {
    const other = [...fingers.values()].find(f => f.pointerId !== e.pointerId);
    const span = f => Math.hypot(f.clientX - other.clientX, f.clientY - other.clientY);
    zoomAt((e.clientX + other.clientX) / 2, (e.clientY + other.clientY) / 2, span(e) / Math.max(1, span(old)));
  } else {
    view.x -= (e.clientX - old.clientX) / unit(); view.y -= (e.clientY - old.clientY) / unit();
    redraw();
  }
  fingers.set(e.pointerId, e);
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, e => fingers.delete(e.pointerId));
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  zoomAt(e.clientX, e.clientY, Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)));
}, {passive: false});
canvas.addEventListener("keydown", e => {
  const s = 40 / unit(), keys = {ArrowLeft: [-s, 0], ArrowRight: [s, 0], ArrowUp: [0, -s], ArrowDown: [0, s]};
  if (keys[e.key]) { view.x += keys[e.key][0]; view.y += keys[e.key][1]; redraw(); e.preventDefault(); }
  if (e.key === "+" || e.key === "=") zoomAt(width / 2, height / 2, 1.3);
  if (e.key === "-") zoomAt(width / 2, height / 2, 1 / 1.3);
});
search.addEventListener("input", () => find(search.value));
document.getElementById("whole").addEventListener("click", () => {
  Object.assign(view, {x: 0.5, y: 0.5, zoom: 1}); found = -1; search.value = ""; said.textContent = ""; redraw();
});
const list = document.getElementById("words");
for (const name of data.name.slice(0, 2000)) {
  const option = document.createElement("option");
  option.value = name;
  list.append(option);
}
window.addEventListener("resize", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
draw();
</script>
</body>
</html>
"""
