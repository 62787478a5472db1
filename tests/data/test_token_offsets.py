"""Offsets of tokens in characters, for texts with combining marks and characters outside the basic plane."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.config import (
    CharacterTokenizerConfig,
    TokenizerConfig,
    WhitespaceTokenizerConfig,
    WordTokenizerConfig,
)
from catena.data.tokenize import TokenSpan, build_tokenizer, find_token_span, locate_tokens
from catena.errors import DataError

SPLITTERS = [WordTokenizerConfig(), WordTokenizerConfig(hyphens="split"), WhitespaceTokenizerConfig()]
texts = st.text(alphabet="ab $%.-'’s\t\u00a0\u3000\u0301é𝔸👩🏽‍🚀東カー1,2n t", max_size=40)


@pytest.mark.parametrize("config", [*SPLITTERS, CharacterTokenizerConfig()], ids=repr)
@given(text=texts)
def test_text_between_offsets_is_the_token(config: TokenizerConfig, text: str) -> None:
    tokens = build_tokenizer(config).tokens(text)
    offsets = locate_tokens(text, tokens)
    assert [text[a:b] for a, b in offsets] == tokens
    assert (offsets[1:, 0] >= offsets[:-1, 1]).all()
    covered = {i for a, b in offsets for i in range(a, b)}
    assert all(text[i].isspace() for i in range(len(text)) if i not in covered)


def test_tokens_that_change_the_text_raise() -> None:
    tokens = build_tokenizer(WordTokenizerConfig(lowercase=True)).tokens("Big")
    with pytest.raises(DataError, match="A token must be the next part of its text, got 'big' at 'Big'"):
        locate_tokens("Big", tokens)
    with pytest.raises(DataError, match="next part of its text, got 'x'"):
        locate_tokens("a", ["a", "x"])


def slow_span(offsets: list[tuple[int, int]], start: int, end: int) -> TokenSpan | None:
    """The tokens that have a character in common with the span, one by one."""
    touched = [i for i, (a, b) in enumerate(offsets) if max(a, start) < min(b, end)]
    if not touched:
        return None
    first, last = touched[0], touched[-1]
    inside = all(start <= a and b <= end for a, b in (offsets[first], offsets[last]))
    return TokenSpan(first, last, inside)


@given(texts, st.data())
def test_token_span_equals_the_touched_tokens(text: str, data: st.DataObject) -> None:
    offsets = locate_tokens(text, build_tokenizer(SPLITTERS[1]).tokens(text))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    wanted = slow_span([(int(a), int(b)) for a, b in offsets], start, end) if start < end else None
    assert find_token_span(offsets, start, end) == wanted


def test_spans_inside_tokens_are_widened_and_reported() -> None:
    text = "largest gold rushes ($20)"
    offsets = locate_tokens(text, build_tokenizer(SPLITTERS[1]).tokens(text))
    start = text.index("gold rush")
    assert find_token_span(offsets, start, start + len("gold rush")) == (1, 2, False)
    assert find_token_span(offsets, start, start + len("gold rushes ")) == (1, 2, True)
    assert find_token_span(offsets, text.index("20"), text.index("20") + 2) == (5, 5, True)
    assert find_token_span(offsets, 7, 8) is None
