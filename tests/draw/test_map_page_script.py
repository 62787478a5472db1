"""The script of a map page, run in Node if installed, on a minimal stub of the document."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from catena.draw.map_page import draw_map_page

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")

# The harness records the drawing of the page, first and after each user event. A letter is 7 wide, the canvas 800 by
# 600.
HARNESS = """
const fs = require("fs"), vm = require("vm");
const given = JSON.parse(fs.readFileSync(0, "utf-8"));
let drawn = null;
const frames = [];
function element(more) {
  const handlers = {};
  return Object.assign({
    handlers, style: {}, children: [], textContent: "", value: "",
    addEventListener(name, work) { handlers[name] = work; },
    append(child) { this.children.push(child); },
    setPointerCapture() {},
  }, more);
}
const pen = {
  setTransform() {}, beginPath() {}, fill() {}, stroke() { drawn.rings += 1; },
  clearRect() { drawn = {dots: 0, rings: 0, labels: []}; },
  arc(x, y, r) { if (r < 5) drawn.dots += 1; else drawn.ring = [x, y]; },
  measureText(text) { return {width: 7 * text.length}; },
  fillText(text, x, y) { drawn.labels.push([text, x, y]); },
};
const parts = {
  data: element({textContent: given.data}), search: element(), said: element(), whole: element(), words: element(),
  map: element({clientWidth: 800, clientHeight: 600, getContext: () => pen}),
};
const world = {
  document: {getElementById: id => parts[id], createElement: () => element(), documentElement: {}},
  getComputedStyle: () => ({getPropertyValue: () => " #123456 "}),
  requestAnimationFrame: work => frames.push(work),
  Math, JSON, Array, Map, Object,
};
const media = element();
world.window = Object.assign(element({devicePixelRatio: 2}), {matchMedia: () => media});
vm.runInNewContext(given.script, world);
const seen = [{...drawn, said: ""}];
for (const [part, name, event] of given.events) {
  if (name === "input") parts.search.value = event;
  const target = part === "window" ? world.window : part === "media" ? media : parts[part];
  target.handlers[name](Object.assign({preventDefault() {}}, event));
  while (frames.length) frames.shift()();
  seen.push({...drawn, said: parts.said.textContent, query: parts.search.value});
}
console.log(JSON.stringify({seen, options: parts.words.children.map(o => o.value)}));
"""


class Outline(HTMLParser):
    """Record the elements in order, and check that each one is closed."""

    EMPTY = ("meta", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.ids += [held["id"]] if held.get("id") else []  # type: ignore[list-item]
        self.links += [str(held[name]) for name in ("src", "href") if name in held]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(labels: list[str]) -> str:
    places = np.random.default_rng(0).normal(size=(len(labels), 2))
    return draw_map_page(places, labels, title="Words & <things>").html


def script_of(html: str) -> tuple[str, str]:
    """Return the data and the script of a page."""
    found = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert len(found) == 2
    return found[0], found[1]


def played(labels: list[str], *events: tuple[str, str, Any]) -> Any:
    """Return the drawing at first and after each event, and the words that the search offers."""
    data, script = script_of(page(labels))
    given = json.dumps({"data": data, "script": script, "events": events})
    ran = subprocess.run([str(NODE), "-e", HARNESS], input=given, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


WORDS = ["king", "queen", "Paris", "</script>", 'a"b', "日本"]


def test_page_is_well_formed_and_needs_no_network() -> None:
    outline = Outline()
    html = page(WORDS)
    outline.feed(html)
    assert outline.open == []
    assert outline.links == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert set(re.findall(r'getElementById\("(\w+)"\)', html)) == set(outline.ids)
    assert "<title>Words &amp; &lt;things&gt;</title>" in html
    assert json.loads(script_of(html)[0])["name"] == WORDS


@needs_node
def test_all_words_are_shown_and_offered() -> None:
    found = played(WORDS)
    (first,) = found["seen"]
    assert first["dots"] == len(WORDS)
    assert {text for text, _, _ in first["labels"]} <= set(WORDS)
    assert found["options"] == WORDS


@needs_node
def test_labels_never_overlap_and_appear_with_zoom() -> None:
    many = [f"word{i}" for i in range(400)]
    few, more = played(many, ("map", "wheel", {"clientX": 400, "clientY": 300, "deltaY": -1000, "deltaMode": 0}))[
        "seen"
    ]
    for shown in (few, more):
        boxes = [(x - 2, y - 8, x + 7 * len(text) + 2, y + 8) for text, x, y in shown["labels"]]
        for i, a in enumerate(boxes):
            assert not any(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3] for b in boxes[:i])
    assert 20 < len(few["labels"]) < 400
    assert more["dots"] < few["dots"]


@needs_node
def test_searched_word_moves_to_center() -> None:
    seen = played(WORDS, ("search", "input", "PAR"), ("search", "input", "zebra"), ("whole", "click", {}))["seen"]
    assert seen[1]["ring"] == pytest.approx([400, 300])
    assert [text for text, x, y in seen[1]["labels"] if abs(x - 411) < 1 and abs(y - 300) < 1] == ["Paris"]
    assert (seen[2]["said"], seen[2]["rings"]) == ("no such word", 0)
    assert (seen[3]["said"], seen[3]["query"]) == ("", "")
    assert seen[3]["labels"] == seen[0]["labels"]


@needs_node
def test_dragging_arrows_and_two_fingers_move_map() -> None:
    def finger(number: int, x: float, y: float) -> dict[str, float]:
        return {"pointerId": number, "clientX": x, "clientY": y}

    drag = [("map", "pointerdown", finger(1, 100, 100)), ("map", "pointermove", finger(1, 130, 90))]
    start, _, moved = played(["one", "two"], *drag)["seen"]
    before, after = ({text: (x, y) for text, x, y in shown["labels"]} for shown in (start, moved))
    for word, (x, y) in before.items():
        assert after[word] == pytest.approx((x + 30, y - 10))
    keys = [
        ("map", "keydown", {"key": "ArrowLeft"}),
        ("map", "keydown", {"key": "+"}),
        ("map", "keydown", {"key": "-"}),
    ]
    start, left, _, again = played(["one", "two"], *keys)["seen"]
    assert left["labels"][0][1] == pytest.approx(start["labels"][0][1] + 40)
    assert again["labels"][0][1] == pytest.approx(left["labels"][0][1])
    pinch = [*drag[:1], ("map", "pointerdown", finger(2, 200, 100)), ("map", "pointermove", finger(2, 300, 100))]
    start, *_, wide = played([f"w{i}" for i in range(60)], *pinch)["seen"]
    before, after = ({text: np.array([x, y]) for text, x, y in shown["labels"]} for shown in (start, wide))
    first, second, *_ = [word for word in before if word in after]
    assert after[first] - after[second] == pytest.approx(2 * (before[first] - before[second]))


@needs_node
def test_resize_and_color_change_redraw() -> None:
    seen = played(["one", "two"], ("window", "resize", {}), ("media", "change", {}))["seen"]
    assert seen[0]["labels"] == seen[1]["labels"] == seen[2]["labels"]
