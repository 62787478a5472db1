"""Exact inference with Catena and other libraries: time, memory, agreement, growth.

    python benchmarks/structure.py [chain] [trees] [dependency] [automata] [alignment] [--only pcfg] [--threads 1 2]

Each part is a file, ``structure_chain.py`` and so on, which registers its cases in the tables here; by default all
parts run. All contestants of a case alternate in one process, so that a busy machine slows all of them. A value is the
median of the process time of a run (*least*: the least disturbed one); a ratio is the time of a library divided by
Catena's. *kept* is the memory that autograd saves for the backward pass, without the inputs, *of ours* its ratio to
Catena's; *peak* is the largest growth of the process while it runs. With two threads the time is wall time. ``--cold``
measures the compilation time instead: by how many seconds of process time the first call of each case is slower than
the second, in a new process without compiled code on disk.

Libraries that are not installed are skipped; install ``requirements-peers.txt`` in a separate virtual environment, with
this repository's ``src`` on ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # with a visible GPU autograd does not survive the forks that measure memory
import torch
from memory import peak
from torch import Tensor

warnings.filterwarnings("ignore")

Run = Callable[[], Tensor]

PARTS = ("chain", "trees", "dependency", "automata", "alignment")


@dataclass
class Case:
    """One problem: its contestants, Catena first. Each run returns the values on which the contestants must agree."""

    name: str
    runs: dict[str, Run]
    wanted: dict[str, float] = field(default_factory=dict)
    """The required speed relative to each library, on one thread."""
    agree: float | None = 1e-2
    """The largest difference of results; None if they are not comparable."""


CASES: dict[str, Callable[[], Case]] = {}
GROWTH: dict[str, tuple[Callable[[int], Run], list[int], str, Callable[[int], float]]] = {}
"""Growth measurements: (a run of a given size, doubling sizes, the axis name, the documented cost of a size)."""


SLACK = 0.3
"""Largest difference between the exponent of the last two sizes and the documented one without a warning."""

OWNED: dict[Run, Sequence[Tensor]] = {}
"""The inputs of a run, which the caller keeps anyway."""


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    """Register a case in the table under the name of its function."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def with_gradient(value: Callable[[], Tensor], *inputs: Tensor) -> Run:
    """Return a run of the forward and the backward pass."""

    def run() -> Tensor:
        for x in inputs:
            x.grad = None
        answer = value()
        answer.sum().backward()
        return answer.detach()

    OWNED[run] = inputs
    return run


def in_reference(compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Return the same run with the reference implementation."""
    from catena.structure.backend import use_backend

    def run() -> Tensor:
        with use_backend("reference"):
            return compute()

    return run


# --- measuring ----------------------------------------------------------------------------------------------


def timed(runs: dict[str, Run], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the (median, least) milliseconds of a run of each, alternating.

    Before each turn garbage is collected, and one or two untimed runs warm up the caches. The garbage collector is off
    while runs are timed.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            gc.collect()
            gc.disable()
            spent = turn(run, 2, 0.02)
            found[name] += turn(run, 25, max(0.05, 3 * min(spent)))
            gc.enable()
    return {name: (statistics.median(times) * 1e3, min(times) * 1e3) for name, times in found.items()}


def turn(run: Run, most: int, seconds: float) -> list[float]:
    """Return the seconds of at most ``most`` runs, started within the time limit."""
    # Process time is not disturbed by other programs, but adds up over threads.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: list[float] = []
    while len(times) < most and sum(times) < seconds:
        begun = clock()
        run()
        times.append(clock() - begun)
    return times


def kept(run: Run) -> int:
    """Return the bytes that autograd saves for the backward pass, each storage once, without the inputs."""
    storages: dict[int, int] = {}
    inputs = {x.untyped_storage().data_ptr() for x in OWNED.get(run, ())}

    def note(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        run()
    return sum(size for place, size in storages.items() if place not in inputs)


def disagreement(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).abs().max().item()


def report(case: Case, rounds: int, threads: int) -> None:
    """Print one table with a line for each contestant."""
    print(f"\n{case.name}, {threads} thread{'s' * (threads > 1)}")
    heads = ("ms", "least", "ratio", "of least", "wanted", "kept MiB", "of ours", "peak MiB", "differs")
    print(f"  {'':20}" + "".join(f"{head:>10}" for head in heads))
    ours, *_ = case.runs
    answers = {name: run() for name, run in case.runs.items()}
    memory = {name: (kept(run) / 2**20, peak(run)) for name, run in case.runs.items()}
    times = timed(case.runs, rounds)
    for name in case.runs:
        ratios = [a / b for a, b in zip(times[name], times[ours], strict=True)]
        gap = None if case.agree is None else disagreement(answers[ours], answers[name])
        wanted = case.wanted.get(name)
        held, mine = memory[name][0], memory[ours][0]
        notes = ["MISSED"] * (threads == 1 and wanted is not None and max(ratios) < wanted)
        notes += ["DIFFERS"] * (gap is not None and case.agree is not None and not gap <= case.agree)
        cells = (
            f"{times[name][0]:.3f}", f"{times[name][1]:.3f}", f"{ratios[0]:.1f}x", f"{ratios[1]:.1f}x",
            "" if wanted is None else f"{wanted:g}x", f"{held:.3f}", f"{held / mine:.1f}x" if mine else "",
            f"{memory[name][1]:.1f}", "" if gap is None else f"{gap:.1g}",
        )  # fmt: skip
        print(f"  {name:20}" + "".join(f"{cell:>10}" for cell in cells) + "  " + " ".join(notes))


def exponents(sizes: Sequence[int], costs: Sequence[float]) -> tuple[float, float]:
    """Return exponents fitted by least squares to the logs of all costs, and of the last two."""
    x, y = [math.log(n) for n in sizes], [math.log(cost) for cost in costs]
    return statistics.linear_regression(x, y).slope, (y[-1] - y[-2]) / (x[-1] - x[-2])


def growth(
    name: str, make: Callable[[int], Run], sizes: list[int], axis: str, says: Callable[[int], float], rounds: int
) -> None:
    """Print the measured exponent of the least times and that of the documented cost at the same sizes."""
    times = timed({str(n): make(n) for n in sizes}, rounds)
    found, found_last = exponents(sizes, [times[str(n)][1] for n in sizes])
    said, said_last = exponents(sizes, [says(n) for n in sizes])
    points = ", ".join(f"{axis}={n}: {times[str(n)][1]:.2f} ms" for n in sizes)
    print(f"  {name}: exponent {found:.2f}, of the last two sizes {found_last:.2f}; ", end="")
    print(f"documented {said:.2f} and {said_last:.2f}  ({points})")
    if found_last > said_last + SLACK:
        print("    ABOVE: it grows faster than documented; check whether its tables outgrow the cache")
    elif found_last < said_last - SLACK:
        print("    below: lower-order terms still dominate at these sizes; the documented cost is an upper bound")


# --- parts --------------------------------------------------------------------------------------------------


def load(part: str) -> None:
    """Register the cases of a part."""
    CASES.clear()
    GROWTH.clear()
    importlib.import_module(f"structure_{part}")


def run_loaded(options: argparse.Namespace) -> None:
    """Run every selected case on every number of threads, and measure the growth of costs."""
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, make in CASES.items():
            if options.only in name:
                report(make(), options.rounds, threads)
    torch.set_num_threads(1)
    wanted = {name: what for name, what in GROWTH.items() if options.only.split("-")[0] in name}
    if wanted:
        print("\ngrowth, one thread")
    for name, (make, sizes, axis, says) in wanted.items():
        growth(name, make, sizes, axis, says, max(3, options.rounds // 2))


def first_calls(only: str) -> None:
    """Print by how much the first call is slower than the second, for each case."""
    torch.set_num_threads(1)
    for name, make in CASES.items():
        if only in name:
            ours, run = next(iter(make().runs.items()))
            spent = []
            for _ in range(2):
                begun = time.process_time()
                run()
                spent.append(time.process_time() - begun)
            print(f"  {name} ({ours}): {spent[0] - spent[1]:.1f} s", flush=True)


def cold(part: str, only: str) -> None:
    """Measure compilation time in a separate process without compiled code on disk."""
    print(
        f"\n{part}: seconds of the first call without a disk cache (but with code of earlier cases)",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        command = f"import structure; structure.load({part!r}); structure.first_calls({only!r})"
        paths = os.pathsep.join((str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")))
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": paths}
        subprocess.run([sys.executable, "-c", command], env=environment, check=True)


def main(parts: Sequence[str] = ()) -> None:
    """Run some of the parts; without any, the cases that the calling file has registered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if parts:
        parser.add_argument("parts", nargs="*", help=f"parts to run, of {', '.join(parts)}; default: all")
    parser.add_argument("--only", default="", help="run only cases whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cold", action="store_true", help="measure compilation time instead")
    options = parser.parse_args()
    chosen = (options.parts or parts) if parts else ()
    for part in chosen:
        if part not in parts:
            parser.error(f"unknown part {part!r}; choose from {', '.join(parts)}")
    print(f"torch {torch.__version__}, python {sys.version.split()[0]}, {os.cpu_count()} processors", flush=True)
    for part in chosen:
        if options.cold:
            cold(part, options.only)
        else:
            load(part)
            run_loaded(options)
    if not chosen:
        run_loaded(options)


if __name__ == "__main__":
    import structure  # the parts register their cases there, not in __main__

    structure.main(structure.PARTS)
