"""Train deep Q-networks in Gymnasium environments: several settings and seeds in parallel processes, resumable.

    python benchmarks/train_agents.py --out results --runs runs/agents --minutes 9
    python benchmarks/train_agents.py --out results --runs runs/agents --minutes 9 --settings lunar --seeds 0 1 2

Protocol: each agent is trained on the CPU with one thread. The checkpoint with the best return in the dev episodes
plays 100 test episodes with epsilon 0, whose seeds neither training nor the choice of the checkpoint has used.
OUT/agents.json has a table with one row for each setting and one row for each run; it is rewritten when a run ends. All
training stops in time for the command to end after ``--minutes``. A second call with the same RUNS folder skips runs
that are finished and resumes the others. The seconds of a run include its evaluations; up to ``--jobs`` processes
run at the same time.

cartpole        CartPole-v1
acrobot         Acrobot-v1
lunar           LunarLander-v3, which needs the packages box2d and pygame-ce
lunar_far       the same with a discount of 0.995, where landing is worth more than to hover
hidden          CartPole-v1 without velocities, recurrent network
hidden_dense    the same with a dense network, which cannot know them
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from catena.agents import DQN
from catena.agents.agent import read_curve
from catena.agents.runs import TrainedAgent, resume_agent, train_agent
from catena.files import atomic_write
from catena.training.report import SilentReporter

RESERVED_SECONDS = 45
"""Time that is kept for the test episodes of a run."""
MIN_SECONDS = 10
"""A run is not started if it would have less time."""


class Setting(NamedTuple):
    """Options of :class:`DQN` and what the test return is compared with."""

    options: dict[str, Any]
    bar: float
    below: bool = False
    """Whether the return is expected below the bar."""

    def passes(self, score: float) -> bool:
        return score < self.bar if self.below else score >= self.bar


CARTPOLE = {"environment": "CartPole-v1", "steps": 101_000, "epsilon_end": 0.02}
WITHOUT_VELOCITIES = {"environment.observe": (0, 2)}
LUNAR = {
    "environment": "LunarLander-v3",
    "steps": 500_000,
    "epoch_steps": 25_000,
    "capacity": 100_000,
    "warmup": 5_000,
    "target": "average",
    "train_every": 4,
    "batch_size": 64,
    "epsilon_steps": 80_000,
    "epsilon_end": 0.02,
    "stop_at": 250.0,
}
SETTINGS = {
    "lunar": Setting(LUNAR, 200),
    "lunar_far": Setting({**LUNAR, "discount": 0.995}, 200),
    "hidden": Setting(
        {
            **CARTPOLE,
            "steps": 31_000,
            "epoch_steps": 1_000,
            "network": "recurrent",
            "target": "average",
            "train_every": 4,
            "batch_size": 32,
            "stop_at": 490.0,
            "settings": {**WITHOUT_VELOCITIES, "model.normalize": True, "training.schedule": "linear"},
        },
        400,
    ),
    "cartpole": Setting({**CARTPOLE, "stop_at": 500.0}, 475),
    "acrobot": Setting(
        {
            "environment": "Acrobot-v1",
            "steps": 105_000,
            "warmup": 5_000,
            "train_every": 4,
            "epsilon_steps": 15_000,
            "stop_at": -80.0,
            "settings": {"evaluation.dev_episodes": 50},
        },
        -90,
    ),
    "hidden_dense": Setting({**CARTPOLE, "stop_at": 500.0, "settings": WITHOUT_VELOCITIES}, 100, below=True),
}
"""The settings, those that take longest first."""


class Job(NamedTuple):
    """One run, which must end before ``deadline`` (seconds since the epoch)."""

    name: str
    seed: int
    runs: Path
    deadline: float
    steps: int | None

    @property
    def folder(self) -> Path:
        return self.runs / f"{self.name}-{self.seed}"

    @property
    def result(self) -> Path:
        return self.runs / f"{self.name}-{self.seed}.json"


def train(job: Job) -> dict[str, Any]:
    """Train one agent, or resume its run, and return a row of the table."""
    if job.result.exists() and (row := json.loads(job.result.read_text("utf-8")))["ended_by"] != "max_time":
        return row
    left = job.deadline - time.time() - RESERVED_SECONDS
    if left < MIN_SECONDS:
        return {"setting": job.name, "seed": job.seed, "error": "no time was left"}
    try:
        trained = resume(job, left) if (job.folder / "last").exists() else start(job, left)
    except Exception as error:  # the other runs continue
        return {"setting": job.name, "seed": job.seed, "error": f"{type(error).__name__}: {error}"}
    row = describe(job, trained)
    with atomic_write(job.result) as unfinished:
        unfinished.write_text(json.dumps(row), "utf-8")
    return row


def start(job: Job, seconds: float) -> TrainedAgent:
    options = dict(SETTINGS[job.name].options)
    if job.steps is not None:
        options["steps"] = job.steps
    limits = {"training.max_time": f"{seconds:.0f}s", "machine.threads": 1}
    options["settings"] = {**options.get("settings", {}), **limits}
    config = DQN(**options, seed=job.seed, device="cpu").config
    return train_agent(config, job.folder, SilentReporter(), overwrite=True)


def resume(job: Job, seconds: float) -> TrainedAgent:
    rows = (job.folder / "metrics.jsonl").read_text("utf-8").splitlines()
    spent = max((json.loads(row).get("seconds", 0.0) for row in rows), default=0.0)
    return resume_agent(job.folder, SilentReporter(), {"max_time": f"{spent + seconds:.0f}s"})


def describe(job: Job, trained: TrainedAgent) -> dict[str, Any]:
    test, outcome = trained.test, trained.outcome
    assert test is not None
    return {
        "setting": job.name,
        "seed": job.seed,
        "return": test.mean,
        "low": test.interval.low,
        "high": test.interval.high,
        "passes": SETTINGS[job.name].passes(test.mean),
        "dev_return": outcome.score,
        "environment_steps": trained.task.collector.steps,
        "updates": outcome.steps,
        "seconds": round(outcome.seconds, 1),
        "ended_by": outcome.reason,
        "curve": read_curve(job.folder),
    }


def summarize(name: str, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The row of a setting."""
    done = [row for row in rows if "error" not in row]
    setting = SETTINGS[name]
    summary: dict[str, Any] = {"setting": name, "bar": setting.bar, "expected": "below" if setting.below else "above"}
    summary |= {"n_runs": len(done), "n_passed": sum(row["passes"] for row in done)}
    if done:
        summary["mean_return"] = mean(row["return"] for row in done)
        summary["returns"] = [round(row["return"], 2) for row in done]
        summary["seconds"] = [row["seconds"] for row in done]
    return summary


def write_table(path: Path, rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    ordered = sorted(rows, key=lambda row: (options.settings.index(row["setting"]), row["seed"]))
    table = {
        "machine": {"cpus": os.cpu_count(), "jobs": options.jobs},
        "settings": [summarize(name, [row for row in ordered if row["setting"] == name]) for name in options.settings],
        "runs": ordered,
    }
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


def run_all(jobs: Sequence[Job], n_processes: int, report: Callable[[list[dict[str, Any]]], None]) -> None:
    """Train all agents, and report the rows so far whenever one is finished."""
    rows: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_processes, mp_context=context, max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(train, job) for job in jobs]):
            rows.append(done.result())
            print({key: value for key, value in rows[-1].items() if key != "curve"}, flush=True)
            report(rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the table agents.json")
    parser.add_argument("--runs", type=Path, default=Path("runs/agents"), help="folder of the run folders")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--minutes", type=float, default=60.0, help="time of the whole command")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of parallel processes")
    parser.add_argument("--steps", type=int, help="environment steps of every run, for a short trial")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    deadline = time.time() + 60 * options.minutes
    os.environ["OMP_NUM_THREADS"] = "1"
    options.out.mkdir(parents=True, exist_ok=True)
    options.runs.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(name, seed, options.runs, deadline, options.steps)
        for name in SETTINGS
        if name in options.settings
        for seed in options.seeds
    ]
    run_all(jobs, options.jobs, lambda rows: write_table(options.out / "agents.json", rows, options))


if __name__ == "__main__":
    main()
