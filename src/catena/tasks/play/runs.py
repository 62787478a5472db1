"""Runs of agents: train, resume and load for the commands and functions that work with every task.

Tested in tests/agents/test_agent.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from catena.agents.agent import Agent, draw_returns, load_agent, read_curve
from catena.agents.config import PlayConfig
from catena.agents.runs import TrainedAgent, resume_agent, train_agent
from catena.tasks.base import Runner, TrainResult
from catena.training.report import Reporter

CURVES = "curves.svg"
"""The picture of the returns in a run folder."""


class AgentRunner(Runner):
    """The runs of the task ``play``."""

    def train(
        self,
        config: PlayConfig,
        folder: Path,
        reporter: Reporter,
        *,
        init_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        trained = train_agent(config, folder, reporter, init_from=init_from, overwrite=overwrite, command=command)
        return _finish(trained, folder, reporter)

    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object]) -> TrainResult:
        return _finish(resume_agent(folder, reporter, limits), folder, reporter)

    def load(self, folder: Path, device: str) -> Agent:
        return load_agent(folder, device)


def _finish(trained: TrainedAgent, folder: Path, reporter: Reporter) -> TrainResult:
    """Draw the curves of a run, report its test episodes and return its scores."""
    outcome = trained.outcome
    if rows := read_curve(folder):
        draw_returns(rows).save(folder / CURVES)
    if trained.test is not None:
        reporter.note(f"test episodes: {'; '.join(trained.test.lines())}")
    test = {} if trained.test is None else trained.test.scores()
    return TrainResult(folder, outcome.metric, outcome.scores, test, outcome.interrupted)
