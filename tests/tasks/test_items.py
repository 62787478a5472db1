"""What a model is asked for: texts in a list, or one by one."""

from __future__ import annotations

import pytest

from catena.errors import DataError
from catena.tasks.items import listed_texts


def test_texts_come_in_a_list_or_one_by_one() -> None:
    assert listed_texts(text for text in ("a", "")) == listed_texts(("a", "")) == ["a", ""]
    with pytest.raises(DataError, match="predict must get a list of texts, got one text"):
        listed_texts("a text")
    with pytest.raises(DataError, match="item 7 must be a text, got NoneType: None"):
        listed_texts(["a", "b", None], before=5)
