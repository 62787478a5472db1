"""Inputs of ``predict``: texts in a list or any iterable."""

from __future__ import annotations

import pytest

from catena.errors import DataError
from catena.tasks.items import listed_texts


def test_listed_texts_accepts_iterables_and_rejects_one_text() -> None:
    assert listed_texts(text for text in ("a", "")) == listed_texts(("a", "")) == ["a", ""]
    with pytest.raises(DataError, match="predict must get a list of texts, got one text"):
        listed_texts("a text")
    with pytest.raises(DataError, match="item 7 must be a text, got NoneType: None"):
        listed_texts(["a", "b", None], before=5)
