"""Several training runs in parallel processes with one time limit, for train_pictures.py and others.

    python benchmarks/train_runs.py

starts CUDA's multi-process service, which makes many small trainings on one GPU faster.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

RESERVE = 15.0
"""Seconds of the time limit for evaluating and writing the results."""
MIN_SECONDS = 3.0
"""Training time of a run that starts when the limit is almost reached."""


class Clock:
    """How far a run is, from 0 to 1: by its steps or by the time, whichever is further.

    A run that is fast enough trains for all its steps. A slower one stops at the deadline, and its learning rate still
    reaches 0 there.

    Args:
        n_steps: number of steps of the complete run.
        deadline: when training must end, in seconds since the epoch.
        warmup: the first part of a run, in which the learning rate rises.
    """

    def __init__(self, n_steps: int, deadline: float, warmup: float) -> None:
        self.n_steps, self.warmup, self.step = n_steps, warmup, 0
        self.started = time.time()
        self.limit = max(deadline - self.started, MIN_SECONDS)

    @property
    def seconds(self) -> float:
        return time.time() - self.started

    @property
    def progress(self) -> float:
        return max(self.step / self.n_steps, self.seconds / self.limit)

    def learning_rate(self, highest: float) -> float:
        """Linear warm-up, then half a cosine to 0."""
        progress = min(1.0, max(self.progress, 1 / self.n_steps))
        if progress < self.warmup:
            return highest * progress / self.warmup
        return highest * (1 + math.cos(math.pi * (progress - self.warmup) / (1 - self.warmup))) / 2


def parse_arguments(description: str, default: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of packed data; with --pack, the folder of the data sets")
    parser.add_argument("--pack", type=Path, metavar="OUT", help="write packed data into the folder OUT and stop")
    parser.add_argument("--only", nargs="*", default=[], help="names of the data sets to pack, instead of all")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="more folders of keyword clips to pack")
    parser.add_argument("-o", "--out", type=Path, default=Path("runs"), help="folder of the results")
    parser.add_argument("--runs", nargs="+", default=list(default), metavar="NAME:SEED")
    parser.add_argument("--minutes", type=float, default=9.0, help="time limit of the whole command")
    parser.add_argument("--parallel", type=int, default=16, help="number of processes")
    parser.add_argument("--epochs", type=int, help="instead of the number of each run, for a trial")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--svm", action="store_true", help="fit an SVM to packed sounds and stop")
    parser.add_argument("--one", metavar="RESULT", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_all(
    script: str, arguments: argparse.Namespace, save: Callable[[list[dict[str, Any]], dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Start a process for each run, and return the results in the order of the runs.

    ``save`` gets the results and the saved weights by run so far, whenever a run ends. A process that is still running
    at the time limit is killed.
    """
    end = time.time() + 60 * arguments.minutes
    base = [sys.executable, script, str(arguments.data), "--device", arguments.device, "--deadline", str(end - RESERVE)]
    base += [] if arguments.epochs is None else ["--epochs", str(arguments.epochs)]
    with tempfile.TemporaryDirectory() as folder:
        waiting = list(arguments.runs)
        running: dict[str, subprocess.Popen[bytes]] = {}
        while waiting or running:
            while waiting and len(running) < arguments.parallel:
                run = waiting.pop(0)
                running[run] = _start([*base, "--runs", run], Path(folder) / f"{run}.json")
            time.sleep(0.2)
            if time.time() > end:
                waiting = []
                for process in running.values():
                    process.kill()
            ended = [run for run, process in running.items() if process.poll() is not None]
            for run in ended:
                _report(Path(folder) / f"{run}.json", run, running.pop(run).wait())
            if ended:
                save(*_collect(Path(folder), arguments.runs))
        return _collect(Path(folder), arguments.runs)[0]


def _start(command: list[str], result: Path) -> subprocess.Popen[bytes]:
    with result.with_suffix(".log").open("wb") as log:
        return subprocess.Popen([*command, "--one", str(result)], stdout=log, stderr=subprocess.STDOUT)


def _report(path: Path, run: str, status: int) -> None:
    print(f"{run} ended with status {status}", flush=True)
    if not path.exists():
        print(f"--- {run} failed ---\n{path.with_suffix('.log').read_text(encoding='utf-8')[-2000:]}", flush=True)


def _collect(folder: Path, runs: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    results, weights = [], {}
    for run in runs:
        path = folder / f"{run}.json"
        if path.exists():
            results.append(json.loads(path.read_text(encoding="utf-8")))
        if path.with_suffix(".pt").exists():
            weights[run] = torch.load(path.with_suffix(".pt"), map_location="cpu", weights_only=True)
    return results, weights


def write_results(path: Path, results: Sequence[dict[str, Any]]) -> None:
    """Write results as JSON, in one move, so that a reader never sees half of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def start_mps() -> bool:
    """Start CUDA's multi-process service, which lets small kernels of several processes run at the same time.

    Returns whether processes can use the GPU with it; if not, it is stopped again.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        return False
    test = [sys.executable, "-c", "import torch; print(torch.ones(9, device='cuda').sum().item())"]
    try:
        subprocess.run([control, "-d"], check=True, timeout=20)
        processes = [subprocess.Popen(test) for _ in range(2)]
        works = {process.wait(60) for process in processes} == {0}
    except (subprocess.SubprocessError, OSError) as error:
        print(f"no MPS: {error}", flush=True)
        works = False
    if not works:
        subprocess.run([control], input=b"quit\n", check=False, timeout=20)
    return works


def prepare_device(name: str, *, fixed_shapes: bool) -> torch.device:
    """The device, with one thread; ``fixed_shapes`` lets cuDNN measure which algorithm is fastest for each shape."""
    device = torch.device(name)
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = fixed_shapes
    return device


def describe_device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    print(f"MPS: {'started' if start_mps() else 'not used'}")
