"""Drawable characters, sufficient widths, and text directions."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.draw.text import clean, is_right_to_left, shorten, text_width

# The advance widths of DejaVu Sans from its font file, in thousandths of an em.
DEJAVU = {
    "Hello, world!": 6326,
    "WAVE": 2989,
    "minimum": 4746,
    "0123456789": 6360,
    "the quick brown fox": 9937,
    "naïve façade": 6428,
    "Straße": 3296,
    "Привет мир": 6181,
    "λόγος": 2995,
}


@given(st.text(st.characters()))
def test_clean_text_is_valid_xml_and_keeps_every_letter(text):
    shown = clean(text)
    assert ET.fromstring(f"<t>{escape(shown)}</t>").text == (shown or None)
    assert len(shown) == len(text)
    assert [c for c in shown if c.isalnum()] == [c for c in text if c.isalnum()]


def test_control_characters_are_shown_as_their_pictures():
    assert clean("a\0\t\n\x1b\x7f") == "a␀␉␊␛␡"
    assert clean("\x80\x9f\ud800\udfff\ufffe\uffff\U0001ffff") == "\ufffd" * 7
    assert clean("\u2028\u2029") == "␤␤"


def test_blanks_that_svg_would_drop_are_shown():
    assert clean("  a b  c ") == "␣␣a b␣␣c␣"
    assert clean(" ") == "␣"
    assert clean("a\u00a0b\u3000c") == "a b c"


@pytest.mark.parametrize("text", DEJAVU)
def test_widths_bound_those_of_wide_font_tightly(text):
    true = DEJAVU[text] / 1000
    assert true <= text_width(text, 1.0) <= (1.02 if text.isascii() else 1.14) * true


def test_wide_characters_are_em_and_marks_are_nothing():
    assert text_width("東京", 10.0) == 20.0
    assert text_width("e\u0301", 10.0) == text_width("e", 10.0) == text_width("é", 10.0)
    assert text_width("a\u200db", 10.0) == text_width("ab", 10.0)
    assert text_width("😀", 10.0) > 12.0
    assert text_width("word", 10.0, bold=True) == pytest.approx(1.11 * text_width("word", 10.0))


@given(st.text(st.characters(), min_size=1, max_size=30), st.floats(20.0, 200.0))
def test_shortened_text_fits_and_is_beginning(text, most):
    text = clean(text)
    found = shorten(text, 10.0, most)
    assert text_width(found, 10.0) <= most
    if found != text:
        assert found.endswith("…")
        assert text.startswith(found[:-1])
        kept = len(found) - 1
        rest = text[kept : kept + 1 + len(text[kept:]) - len(text[kept:].lstrip())]
        assert text_width(text[:kept] + rest + "…", 10.0) > most


def test_directions():
    assert is_right_to_left(["שלום", "x"])
    assert is_right_to_left(["سلام"])
    assert not is_right_to_left(["hello", "ש"])
    assert not is_right_to_left(["123", "!"])
    assert not is_right_to_left([])
