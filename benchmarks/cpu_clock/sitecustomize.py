"""Let Catena measure time by the CPU time of its processes, so that limits hold on a machine that others keep busy.

    PYTHONPATH=benchmarks/cpu_clock:$PYTHONPATH catena train FILE --threads 1 --max-time 60s

Python imports this module when it starts, also in the processes that a search starts. Only for one core: the CPU times
of processes are added up.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path

_wall_clock = time.monotonic
_TICK = 1 / os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started."""
    return sum(os.times()[:4]) + sum(_seconds_of(child.pid) for child in multiprocessing.active_children())


def _seconds_of(pid: int | None) -> float:
    """CPU time of a running process and of those that it started; 0 if it has just ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) * _TICK


def _monotonic() -> float:
    caller = str(sys._getframe(1).f_globals.get("__name__", ""))
    return cpu_seconds() if caller.partition(".")[0] == "catena" else _wall_clock()


time.monotonic = _monotonic
