"""Memory that is used again: never while anything still refers to it, and no more than is said."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch

from catena.kernels import memory
from catena.kernels.memory import borrowed


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_spare", deque())


def place(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def test_what_is_let_go_is_used_again() -> None:
    first = place(borrowed(100))
    assert place(borrowed(60)) == first
    assert len(borrowed(101)) == 101, "too large for what was kept"


def test_nothing_is_lent_while_a_view_or_a_tensor_refers_to_it() -> None:
    borrowed(100)  # is let go at once
    row = torch.from_numpy(borrowed(100)[10:50].reshape(4, 10))[2:]
    row.fill_(7.0)
    others = [borrowed(40) for _ in range(3)]
    for other in others:
        other[:] = 0.0
    assert len({place(other) for other in others}) == 3
    assert (row == 7.0).all()


def test_the_largest_is_lent_first_and_no_more_is_kept_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST", 4 * 150)
    some = [borrowed(size) for size in (80, 60, 50, 200)]
    del some
    kept = sorted(len(x) for x in memory._spare)
    assert sum(kept) <= 150
    assert 200 not in kept
    assert len(borrowed(1)) == kept[-1]


class Raced(deque[np.ndarray]):
    """What another thread empties just after it was seen to hold something."""

    def __bool__(self) -> bool:
        return True


def test_another_thread_may_take_the_last_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_spare", Raced())
    assert len(borrowed(10)) == 10
