"""The clock of training: compilation is left out if a process says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from numba.core import event

from catena.training import clock


@pytest.mark.parametrize("is_left_out", [True, False])
def test_compilation_is_left_out(is_left_out: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(clock, "_compilation", clock._Compilation())
    monkeypatch.setattr(event, "_registered", {**event._registered, "numba:compile": []})
    if is_left_out:
        clock.leave_out_compilation()
    began = clock.seconds()
    now[0] += 2.0
    with event.trigger_event("numba:compile"):
        now[0] += 5.0
        with event.trigger_event("numba:compile"):  # a function that the first one calls
            now[0] += 3.0
    now[0] += 1.0
    assert clock.seconds() - began == (3.0 if is_left_out else 11.0)
