"""Where the tokens of a text are in it: offsets in characters, and spans of characters as spans of tokens.

Works for every tokenizer that only splits a text: words, whitespace and characters without changes of case, form,
digits or stems. Such changes can be made to the tokens afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from catena.data.files import shorten
from catena.errors import DataError


class TokenSpan(NamedTuple):
    """First and last token of a span, and whether its ends are exactly the ends of tokens."""

    first: int
    last: int
    exact: bool


def locate_tokens(text: str, tokens: Sequence[str]) -> Int[np.ndarray, "t 2"]:
    """``offsets[i]`` are the index of the first character of token i and the index after its last one.

    Only blanks may lie between tokens. Time O(characters).

    Raises:
        DataError: if a token is not the next part of the text, because the tokenizer changes what it splits.
    """
    offsets = np.empty((len(tokens), 2), np.int64)
    at = 0
    for i, token in enumerate(tokens):
        while at < len(text) and text[at].isspace() and not text.startswith(token, at):
            at += 1
        if not text.startswith(token, at) or not token:
            raise DataError(
                f"A token must be the next part of its text, got {token!r} at {shorten(text[at : at + 20], 20)}. Use a "
                "tokenizer without lowercase, normalize, digits, stem and lemmatize."
            )
        offsets[i] = at, at + len(token)
        at += len(token)
    return offsets


def find_token_span(offsets: Int[np.ndarray, "t 2"], start: int, end: int) -> TokenSpan | None:
    """The smallest span of tokens that covers the characters ``start`` up to ``end``, without blanks at its ends.

    Returns:
        The span, or None if no token has one of these characters.
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))  # the first token that ends after start
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1  # the last token that begins before end
    if first > last or start >= end:
        return None
    return TokenSpan(first, last, bool(start <= offsets[first, 0] and offsets[last, 1] <= end))
