"""Rows of a batch shared out to threads. Compiled loops let go of the interpreter lock, so plain threads
serve.

Numba's own ``prange`` is not used: its thread layers abort the process when two Python threads or a forked
child call into them, as data loaders do. Tested in tests/kernels/test_chain_kernels.py and tests/kernels/test_pcfg.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch

WORTH_A_THREAD = 400_000
"""Multiplications below which a second thread costs more than it brings."""


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="catena-kernel")


def in_row_blocks(run: Callable[[int, int], None], rows: int, work: int) -> None:
    """Call ``run(low, high)`` for blocks that cover all rows, on as many threads as torch may use.

    ``work`` is the number of multiplications of all rows.
    """
    threads = max(1, min(torch.get_num_threads(), rows, work // WORTH_A_THREAD))
    if threads == 1:
        run(0, rows)
        return
    pool = _pool(threads - 1, os.getpid())  # a forked child has none of its parent's threads
    edges = [rows * i // threads for i in range(threads + 1)]
    waiting = [pool.submit(run, edges[i], edges[i + 1]) for i in range(threads - 1)]
    run(edges[-2], edges[-1])
    for job in waiting:
        job.result()
