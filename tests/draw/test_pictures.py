"""Properties of every picture for any words: valid XML, all marks inside, no external references."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings

from catena.draw.palette import DARK_CLOSE, DARK_OPEN, PALETTE
from catena.draw.text import clean
from tests.draw.pictures import ODD_WORDS, PICTURES, words
from tests.draw.reading import assert_apart, assert_inside, read

kinds = pytest.mark.parametrize("kind", PICTURES)
PLAIN = ["she", "saw", "the", "man", "with", "binoculars"]


@kinds
@settings(max_examples=10)
@given(words)
@example(ODD_WORDS[:8])
@example(ODD_WORDS[8:])
@example([""])
def test_any_words_give_valid_xml_with_everything_inside_view_box(kind, words):
    assert_inside(PICTURES[kind](words))


@kinds
@settings(max_examples=10)
@given(words)
@example(["a" * 500, "b", "c" * 90])
def test_no_two_texts_overlap(kind, words):
    assert_apart(read(PICTURES[kind](words)).texts())


@kinds
def test_same_values_give_same_bytes(kind):
    first, second = PICTURES[kind](PLAIN), PICTURES[kind](list(PLAIN))
    assert first == second
    assert first.svg.encode() == second.svg.encode()
    assert first._repr_svg_() == first.svg


@kinds
def test_pictures_have_no_references_and_no_scripts(kind):
    own_bytes = r'<image ([^>]*?) href="data:image/png;base64,[\w+/=]+"'
    svg = re.sub(own_bytes, r"<rect \1", PICTURES[kind](PLAIN).svg)
    assert not re.search(r"<script|<image|<use|<foreignObject|href|url\(|@import|@font-face|\bid=|\bon\w+=", svg)
    assert re.findall(r"https?://[^\"']+", svg) == ["http://www.w3.org/2000/svg"]


@kinds
def test_pictures_have_title_and_description(kind):
    found = read(PICTURES[kind](PLAIN))
    assert found.title
    assert len(found.description) > 10


@kinds
def test_every_class_has_color_for_light_and_for_dark(kind):
    found = read(PICTURES[kind](PLAIN))
    light, dark = found.style.split(DARK_OPEN)
    assert dark.endswith(DARK_CLOSE)
    for name in {name for mark in found.marks for name in mark.classes}:
        color = PALETTE[name[2:]]
        prop = {"f": "fill", "s": "stroke"}[name[0]]
        assert f".catena .{name}{{{prop}:{color.light}}}" in light
        assert f".catena .{name}{{{prop}:{color.dark}}}" in dark


@kinds
def test_pictures_are_small(kind):
    assert len(PICTURES[kind](PLAIN).svg) < 20_000


@pytest.mark.parametrize("kind", ["tree", "arcs", "spans", "links", "trellis", "chart", "map"])
def test_every_word_is_shown(kind):
    shown = [mark.text for mark in read(PICTURES[kind](ODD_WORDS[2:10])).texts()]
    assert {clean(word) for word in ODD_WORDS[2:10]} <= set(shown)
