"""Memory that is used again: never while anything still refers to it, and no more than is said."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections import deque

import numpy as np
import pytest
import torch

from catena.kernels.common import scratch
from catena.kernels.common.scratch import scratch_array


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_spare", deque())


def place(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


COUNT_FAULTS = """
import resource, sys
import numpy as np
if sys.argv[1] == "kept":
    import catena.kernels.common.ops
for turn in range(20):
    if turn == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(2**18) for _ in range(8)]  # 2 MiB each
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other rules")
def test_freed_memory_causes_no_page_faults_when_it_is_used_again() -> None:
    runs = {how: [sys.executable, "-c", COUNT_FAULTS, how] for how in ("kept", "returned")}
    faults = {how: int(subprocess.run(run, capture_output=True, check=True).stdout) for how, run in runs.items()}
    assert faults["kept"] < faults["returned"] / 10


def test_released_memory_is_reused() -> None:
    first = place(scratch_array(100))
    assert place(scratch_array(60)) == first
    assert len(scratch_array(101)) == 101, "too large for what was kept"


def test_referenced_memory_is_not_reused() -> None:
    scratch_array(100)  # is let go at once
    row = torch.from_numpy(scratch_array(100)[10:50].reshape(4, 10))[2:]
    row.fill_(7.0)
    others = [scratch_array(40) for _ in range(3)]
    for other in others:
        other[:] = 0.0
    assert len({place(other) for other in others}) == 3
    assert (row == 7.0).all()


def test_largest_array_is_reused_first_and_kept_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MOST", 4 * 150)
    some = [scratch_array(size) for size in (80, 60, 50, 200)]
    del some
    kept = sorted(len(x) for x in scratch._spare)
    assert sum(kept) <= 150
    assert 200 not in kept
    assert len(scratch_array(1)) == kept[-1]


class Raced(deque[np.ndarray]):
    """What another thread empties just after it was seen to hold something."""

    def __bool__(self) -> bool:
        return True


def test_last_kept_array_may_be_taken_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_spare", Raced())
    assert len(scratch_array(10)) == 10
