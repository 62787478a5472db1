"""Spans: bars under the right words, nested spans in separate rows, line breaks between words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.draw.spans import DrawnSpan, assign_rows, draw_spans, spans_of_tags
from catena.errors import DataError
from tests.draw.reading import assert_apart, read

WORDS = ["book", "a", "flight", "to", "New", "York", "tomorrow"]

some_spans = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 4), st.sampled_from(["p", "time", "a long label"])), max_size=6
).map(lambda found: [(start, min(start + size, 7), label) for start, size, label in found])


def test_tags_become_spans():
    assert spans_of_tags(["O", "B-x", "I-x", "B-x", "O", "I-y", "I-z"]) == [
        (1, 3, "x"),
        (3, 4, "x"),
        (5, 6, "y"),
        (6, 7, "z"),
    ]
    assert spans_of_tags(["U-a", "B-b", "L-b", "S-c", "B-d", "I-d", "E-d", "I-d"]) == [
        (0, 1, "a"),
        (1, 3, "b"),
        (3, 4, "c"),
        (4, 7, "d"),
        (7, 8, "d"),
    ]
    assert spans_of_tags([]) == []


@pytest.mark.parametrize("tag", ["X-a", "B", "O-a", "", "b-a"])
def test_invalid_tag_raises(tag):
    with pytest.raises(DataError, match=r"tags\[1\] must be O or B-, I-, L-"):
        spans_of_tags(["O", tag])


@given(some_spans)
def test_overlapping_spans_have_different_rows_and_inner_is_closer(found):
    spans = [DrawnSpan(*span) for span in found]
    rows = assign_rows(spans)
    for i, a in enumerate(spans):
        for j, b in enumerate(spans[:i]):
            if a.start < b.end and b.start < a.end:
                assert rows[i] != rows[j]
            if b.start <= a.start and a.end <= b.end and (a.start, a.end) != (b.start, b.end):
                assert rows[i] < rows[j]
    assert set(rows) == set(range(max(rows, default=-1) + 1))


def bars(found):
    return [mark for mark in found.marks if mark.kind == "rect" and mark.attributes["height"] == "3"]


@settings(max_examples=30)
@given(some_spans, st.sampled_from([60, 200, 720]))
def test_bars_lie_under_their_words_and_nothing_overlaps(spans, width):
    found = read(draw_spans(WORDS, spans, width=width))
    assert_apart(found.texts())
    words = [found.text(word).box for word in WORDS]
    for bar in bars(found):
        over = [
            box for box in words if bar.box.x0 - 1 <= box.x0 and box.x1 <= bar.box.x1 + 1 and box.y1 <= bar.box.y0 + 3
        ]
        assert over
    assert len(bars(found)) >= len(spans)
    if width == 720:
        for bar, (start, end, _) in zip(bars(found), spans, strict=True):
            assert bar.box.x0 <= words[start].x0
            assert bar.box.x1 >= words[end - 1].x1
            assert start == 0 or bar.box.x0 > words[start - 1].x1
            assert end == 7 or bar.box.x1 < words[end].x0


def test_span_continues_in_next_line():
    found = read(draw_spans(WORDS, [(4, 7, "x")], width=260))
    assert len(bars(found)) == 2
    lines = sorted({mark.box.middle[1] for mark in found.texts() if mark.text in WORDS})
    assert len(lines) == 2


def test_equal_labels_have_equal_colors():
    found = read(draw_spans(WORDS, [(0, 1, "x"), (2, 3, "y"), (4, 5, "x")]))
    assert [bar.classes[0] for bar in bars(found)] == ["f-c0", "f-c1", "f-c0"]
    assert found.description == "x: book; y: flight; x: New"


def test_right_to_left_words_start_at_right():
    found = read(draw_spans(["שלום", "עולם"], [(0, 1, "x")]))
    assert found.text("שלום").box.x0 > found.text("עולם").box.x1


@pytest.mark.parametrize("span", [(0, 8, "x"), (-1, 2, "x"), (3, 3, "x")])
def test_spans_outside_text_raise(span):
    with pytest.raises(DataError, match=r"spans\[0\] must have 0 <= start < end <= 7, the number of words, got"):
        draw_spans(WORDS, [span])
