"""Functions that all tasks use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from catena.data.examples import SourceLocation, Text
from catena.errors import TooLongError
from catena.tasks.base import name_too_long

AT = SourceLocation("list", 1)


def lengths(examples: Sequence[Text]) -> list[int]:
    """A model that reads at most five characters."""
    longest = max(len(example.text) for example in examples)
    if longest > 5:
        raise TooLongError(f"the length must be at most 5, got {longest}. Truncate the text.")
    return [len(example.text) for example in examples]


@pytest.mark.parametrize("n", range(1, 7))
def test_first_text_that_is_too_long_is_named(n: int) -> None:
    path = "texts.txt"
    examples = [Text("a" * (9 if i in (n, 6) else 5), SourceLocation(path, i)) for i in range(1, 8)]
    with pytest.raises(TooLongError, match=rf"^texts\.txt:{n}: the length must be at most 5, got 9\. Truncate"):
        name_too_long(examples, lengths)
    short = [example for example in examples if len(example.text) == 5]
    assert name_too_long(short, lengths) == [5] * len(short)


def test_error_without_location_is_unchanged() -> None:
    with pytest.raises(TooLongError, match=r"^the length must be at most 5, got 8"):
        name_too_long(["12345", "12345678"], lambda some: lengths([Text(text, AT) for text in some]))
