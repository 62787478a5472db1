"""How much memory a computation takes at most, by what a fork of the process grows; for Linux."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def peak(run: Callable[[], Any], clear: Callable[[], None] = lambda: None) -> float:
    """Mebibytes by which a fork of this process grows at most while it runs, beyond what it has after a first run.

    ``clear`` drops what the first run left, such as gradients.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # a fork has none of its parent's threads, and would wait for them
        run()
        clear()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the highest mark so far is forgotten
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
    """Kibibytes that this process has in memory (VmRSS), or had at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))
