from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import UnknownNameError
from catena.vectors.word_index import WordIndex

WORDS = st.lists(st.text(min_size=0, max_size=5), unique=True, max_size=30)


@given(WORDS, st.randoms())
def test_words_come_back_are_found_and_can_be_taken(words: list[str], random: object) -> None:
    found = WordIndex.of(words)
    assert list(found) == words
    assert [found[i] for i in range(len(words))] == words
    assert found.find(words).tolist() == list(range(len(words)))
    assert found.find(["never seen before"]).tolist() == [-1]
    order = list(range(len(words)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert list(found.take(np.array(order, np.int64))) == [words[i] for i in order]


def test_unknown_word_suggests_nearest() -> None:
    words = WordIndex.of(["Paris", "london", "tokyo"])
    assert "Paris" in words
    assert 3 not in words
    assert words.number("tokyo") == 2
    with pytest.raises(UnknownNameError, match="No vector for 'paris': did you mean 'Paris'"):
        words.number("paris")
    with pytest.raises(UnknownNameError, match="did you mean 'london'"):
        words.number("londn")
    with pytest.raises(IndexError):
        words[3]
