"""Spans as tags: every scheme keeps every set of spans, tags that break a scheme are named with their word."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.schemes import (
    BILOU,
    BIOES,
    BMES,
    IOB1,
    IOB2,
    Dialect,
    SchemeError,
    Span,
    convert_tags,
    detect_dialect,
    follows,
    marks_spans,
    spans_to_tags,
    tags_to_spans,
)
from catena.errors import DataError

DIALECTS = [IOB1, IOB2, BILOU, BIOES, BMES]


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[Span], int]:
    """Spans that do not overlap, some of them side by side, with holes between others."""
    spans, at = [], 0
    for _ in range(draw(st.integers(0, 5))):
        at += draw(st.integers(0, 2))
        size = draw(st.integers(1, 4))
        spans.append(Span(at, at + size, draw(st.sampled_from(["PER", "LOC", "time-of-day", ""]))))
        at += size
    return spans, at + draw(st.integers(0, 2))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(sentences())
def test_spans_come_back_from_their_tags(dialect: Dialect, sentence: tuple[list[Span], int]) -> None:
    spans, n = sentence
    tags = spans_to_tags(spans, n, dialect)
    assert len(tags) == n
    assert tags_to_spans(tags, dialect.scheme) == spans


@given(sentences(), st.sampled_from(DIALECTS), st.sampled_from(DIALECTS))
def test_conversion_there_and_back_gives_the_same_tags(
    sentence: tuple[list[Span], int], old: Dialect, new: Dialect
) -> None:
    tags = spans_to_tags(*sentence, old)
    assert convert_tags(convert_tags(tags, old.scheme, new), new.scheme, old) == tags


def test_the_schemes_by_example() -> None:
    spans = [Span(0, 2, "A"), Span(2, 3, "A"), Span(3, 4, "B"), Span(5, 8, "A")]
    assert spans_to_tags(spans, 9, IOB1) == ["I-A", "I-A", "B-A", "I-B", "O", "I-A", "I-A", "I-A", "O"]
    assert spans_to_tags(spans, 9, IOB2) == ["B-A", "I-A", "B-A", "B-B", "O", "B-A", "I-A", "I-A", "O"]
    assert spans_to_tags(spans, 9, BILOU) == ["B-A", "L-A", "U-A", "U-B", "O", "B-A", "I-A", "L-A", "O"]
    assert spans_to_tags(spans, 9, BIOES) == ["B-A", "E-A", "S-A", "S-B", "O", "B-A", "I-A", "E-A", "O"]
    assert spans_to_tags([Span(0, 1, ""), Span(1, 4, "")], 4, BMES) == ["S", "B", "M", "E"]


@pytest.mark.parametrize(
    ("scheme", "tags", "word", "words"),
    [
        ("iob2", "O I-A", 1, "'I-A' after 'O' begins a span with I instead of B-A (iob2)"),
        ("iob2", "B-A I-B", 1, "'I-B' after 'B-A' begins a span with I instead of B-B"),
        ("iob2", "I-A", 0, "'I-A' at the beginning of the sentence"),
        ("iob1", "O B-A", 1, "'B-A' after 'O' has B instead of I where no span of its kind ends (iob1)"),
        ("iob1", "I-A B-B", 1, "'B-B' after 'I-A'"),
        ("bilou", "B-A O", 1, "'O' after 'B-A' ends a span of 'A' that has no last word (bilou)"),
        ("bilou", "O B-A", 1, "the end of the sentence after 'B-A' ends a span of 'A'"),
        ("bilou", "B-A L-B", 1, "'L-B' after 'B-A' ends a span of 'A'"),
        ("bilou", "O I-A L-A", 1, "'I-A' after 'O' continues a span that did not begin"),
        ("iob2", "B-A L-A", 1, "the tag 'L-A' is not in the scheme iob2"),
        ("iob2", "NN", 0, "the tag 'NN' is not in the scheme iob2"),
    ],
)
def test_invalid_tags_raise_error(scheme: str, tags: str, word: int, words: str) -> None:
    with pytest.raises(SchemeError) as caught:
        tags_to_spans(tags.split(), scheme)  # type: ignore[arg-type]
    assert caught.value.word == word
    assert words in str(caught.value)


@pytest.mark.parametrize(("scheme", "letters"), [("iob1", "BI"), ("iob2", "BI"), ("bilou", "BILU")])
def test_allowed_neighbors_equal_the_neighbors_in_allowed_sentences(scheme: str, letters: str) -> None:
    tags = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "AB")]
    for n in (1, 2, 3):
        for sentence in itertools.product(tags, repeat=n):
            around = [None, *sentence, None]
            expected = all(follows(a, b, scheme) for a, b in itertools.pairwise(around))  # type: ignore[arg-type]
            try:
                tags_to_spans(sentence, scheme)  # type: ignore[arg-type]
            except SchemeError:
                assert not expected
            else:
                assert expected


def test_overlapping_spans_raise_error() -> None:
    with pytest.raises(DataError, match="must be in order, within 4 words and without overlap, got 1 to 3 of 'A'"):
        spans_to_tags([Span(0, 2, "A"), Span(1, 3, "A")], 4, IOB2)
    with pytest.raises(DataError, match="within 2 words and without overlap"):
        spans_to_tags([Span(1, 3, "A")], 2, IOB2)


def test_what_tags_mark_is_seen_by_their_letters() -> None:
    assert marks_spans(["O", "B-PER", "I-PER"])
    assert marks_spans(["O", "I-PER"])
    assert marks_spans(["B", "M", "E", "S"])
    assert marks_spans(["B", "I", "O"])
    assert not marks_spans(["B", "I"])
    assert not marks_spans(["NN", "VB", "IN"])
    assert not marks_spans(["O", "B-PER", "X-PER"])
    assert not marks_spans(["O"])
    assert not marks_spans(["S", "NP"])


def test_dialects_equal_the_dialects_of_the_files() -> None:
    assert detect_dialect(["B-A", "I-A", "E-A", "S-A"], "bilou") == BIOES
    assert detect_dialect(["B", "M", "E", "S"], "bilou") == BMES
    assert detect_dialect(["B-A", "I-A", "L-A"], "bilou") == BILOU
    assert detect_dialect(["B-A"], "iob2") == IOB2
