"""Peak memory of a computation, measured by the growth of a forked process (Linux only)."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def peak(run: Callable[[], Any], clear: Callable[[], None] = lambda: None) -> float:
    """Return the largest growth in MiB of a fork of this process while it runs, relative to the end of a first run.

    ``clear`` drops what the first run left, such as gradients.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # a fork has no threads of its parent, and would wait for them
        run()
        clear()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        before = in_memory("VmRSS")
        run()
        os.write(write, str(in_memory("VmHWM") - before).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return max(0, int(answer or 0)) / 1024


def in_memory(what: str) -> int:
    """Return the memory of this process in KiB, current (VmRSS) or peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))
