"""Whether compiled kernels are worth loading."""

from __future__ import annotations

import sys

import pytest

from catena.accelerators import can_skip_kernels, start_cold


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)


@pytest.mark.usefixtures("without_numba")
def test_kernels_are_skipped_until_time_is_spent() -> None:
    with start_cold(100):
        assert [can_skip_kernels(40) for _ in range(4)] == [True, True, False, False]


@pytest.mark.usefixtures("without_numba")
def test_large_computation_uses_kernels_from_then_on() -> None:
    with start_cold(100):
        assert not can_skip_kernels(200)
        assert not can_skip_kernels(1)


@pytest.mark.usefixtures("without_numba")
def test_kernels_are_used_outside_of_cold_start() -> None:
    with start_cold(100):
        pass
    assert not can_skip_kernels(1)


def test_loaded_kernels_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", sys)
    with start_cold(100):
        assert not can_skip_kernels(1)
