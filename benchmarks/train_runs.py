"""Several training runs in parallel processes with one time limit, for train_pictures.py and train_sounds.py."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="more folders of keyword clips to pack")
    parser.add_argument("-o", "--out", type=Path, default=Path("runs"), help="folder of the results")
    parser.add_argument("--runs", nargs="+", default=list(default), metavar="NAME:SEED")
    parser.add_argument("--minutes", type=float, default=9.0, help="time limit of the whole command")
    parser.add_argument("--parallel", type=int, default=16, help="number of processes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--one", metavar="RESULT", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_all(script: str, arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Start a process for each run. Returns the results in the order of the runs, and the saved weights by run."""
    deadline = time.time() + 60 * arguments.minutes - RESERVE
    base = [sys.executable, script, str(arguments.data), "--device", arguments.device, "--deadline", str(deadline)]
    with tempfile.TemporaryDirectory() as folder:
        waiting = list(arguments.runs)
        running: dict[str, subprocess.Popen[bytes]] = {}
        while waiting or running:
            while waiting and len(running) < arguments.parallel:
                run = waiting.pop(0)
                running[run] = _start([*base, "--runs", run], Path(folder) / f"{run}.json")
            time.sleep(0.2)
            for run in [run for run, process in running.items() if process.poll() is not None]:
                print(f"{run} ended with status {running.pop(run).returncode}", flush=True)
        return _collect(Path(folder), arguments.runs)


def _start(command: list[str], result: Path) -> subprocess.Popen[bytes]:
    with result.with_suffix(".log").open("wb") as log:
        return subprocess.Popen([*command, "--one", str(result)], stdout=log, stderr=subprocess.STDOUT)


def _collect(folder: Path, runs: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    results, weights = [], {}
    for run in runs:
        path = folder / f"{run}.json"
        if not path.exists():
            print(f"--- {run} failed ---\n{path.with_suffix('.log').read_text(encoding='utf-8')[-2000:]}")
            continue
        results.append(json.loads(path.read_text(encoding="utf-8")))
        if path.with_suffix(".pt").exists():
            weights[run] = torch.load(path.with_suffix(".pt"), map_location="cpu", weights_only=True)
    return results, weights


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
