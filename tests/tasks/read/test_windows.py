"""Windows over long texts: everything is covered, and each short span belongs to exactly one window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError
from catena.tasks.read.encoding import split_windows


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_each_short_span_is_inside_of_its_one_window(n: int, size: int, stride: int, longest: int) -> None:
    if stride > size - longest + 1:
        with pytest.raises(ConfigError, match=f"stride must be from 1 to size - max_answer .*, got {stride}"):
            split_windows(n, size, stride, longest)
        return
    windows = split_windows(n, size, stride, longest)
    assert all(0 < w.end - w.first <= size for w in windows)
    assert {i for w in windows for i in range(w.first, w.end)} == set(range(n))
    for i in range(n):
        for j in range(i, min(n, i + longest)):
            owners = [w for w in windows if w.low <= i + j < w.high]
            assert len(owners) == 1
            assert owners[0].first <= i
            assert j < owners[0].end


@given(st.integers(1, 60), st.integers(2, 12))
def test_span_belongs_to_a_window_with_the_most_context(n: int, size: int) -> None:
    windows = split_windows(n, size, max(1, size // 2), 2)
    assert windows
    for i in range(n - 1):
        (owner,) = (w for w in windows if w.low <= 2 * i + 1 < w.high)
        context = {w: min(i - w.first, w.end - 2 - i) for w in windows if w.first <= i and i + 1 < w.end}
        assert context[owner] == max(context.values())


def test_short_text_is_one_window() -> None:
    assert [(w.first, w.end) for w in split_windows(7, 7, 3)] == [(0, 7)]
    assert [(w.first, w.end) for w in split_windows(8, 7, 3)] == [(0, 7), (1, 8)]
    assert split_windows(0, 7, 3) == []
