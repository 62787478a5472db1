"""From a config to a trained agent: train, resume and load run folders. Tested in tests/agents/test_resume.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from catena import config as configs
from catena.agents.base import AgentTask, read_spaces
from catena.agents.config import DQNConfig, PlayConfig
from catena.agents.dqn import DQNTask
from catena.agents.environment import EnvironmentFactory, PlayEnvironment, make_environment
from catena.agents.evaluation import PlayEvaluation
from catena.agents.network import QNetwork, build_q_network
from catena.agents.spaces import ActionFormat, ObservationFormat
from catena.agents.tabular import QTable, QTableTask
from catena.checkpoint import CONFIG, lock_run, open_checkpoint, read_meta
from catena.config import to_toml
from catena.errors import ConfigError
from catena.randomness import Randomness
from catena.training.device import choose_device, set_threads
from catena.training.loop import resume, train
from catena.training.report import Reporter, RunResult
from catena.training.resuming import load_config
from catena.training.run import RunFolder, create_run, open_run
from catena.training.state import finite

_FREE = ("environment.replay_actions",)
"""Options that may change when a run is resumed, in addition to the limits of training."""


@dataclass(frozen=True)
class TrainedAgent:
    """A finished training: the task with the best weights, how it ended, and the test episodes unless interrupted."""

    task: AgentTask
    outcome: RunResult
    test: PlayEvaluation | None


def build_model(
    config: PlayConfig, observations: ObservationFormat, actions: ActionFormat, name: str
) -> QNetwork | QTable:
    """The Q-function that a config describes, with weights that depend only on the seed."""
    if isinstance(config.model, DQNConfig):
        Randomness(config.seed).seed_torch("weights")
        frames, normalize = config.environment.frames, config.model.normalize
        return build_q_network(config.model.network, observations, actions.n, frames, normalize)
    if not observations.n_states:
        raise ConfigError(
            f"model.kind must be 'dqn' for {name}, whose observations are not a finite number of states, got 'table'. "
            f"Use --model dqn."
        )
    return QTable(observations.n_states, actions.n, config.model.initial)


def build_task(config: PlayConfig, factory: EnvironmentFactory | None = None) -> AgentTask:
    """The task of a config, with new weights."""

    def make() -> PlayEnvironment:
        return make_environment(config.environment, factory)

    environment = make()
    model = build_model(config, environment.observations, environment.actions, environment.name)
    environment.close()
    if isinstance(model, QTable):
        return QTableTask(config, make, model)
    return DQNTask(config, make, model.to(choose_device(config.machine.device)))


def train_agent(
    config: PlayConfig,
    folder: Path | None,
    reporter: Reporter,
    *,
    factory: EnvironmentFactory | None = None,
    init_from: Path | None = None,
    overwrite: bool = False,
    command: Sequence[str] = (),
) -> TrainedAgent:
    """Train an agent and play the test episodes with its best weights.

    Args:
        config: the config.
        folder: a new run folder; with None, the agent is kept in memory only.
        reporter: receives the progress.
        factory: makes the environment instead of the name in the config.
        init_from: a run or checkpoint whose weights are the initial ones.
        overwrite: replace an existing run folder.
        command: the command line, stored in the run.
    """
    set_threads(config.machine.threads)
    old = open_checkpoint(init_from, reporter.note) if init_from else None
    task = build_task(config, factory)
    if old is not None:
        old.load_into(task.model)
    with nullcontext() if folder is None else lock_run(folder):
        run = None
        if folder is not None:
            run = create_run(
                folder, to_toml(config), seed=config.seed, command=command, started_from=init_from, overwrite=overwrite
            )
        outcome = train(task, config.training, run, Randomness(config.seed), reporter, save_start=old is not None)
        return _test(task, outcome, run)


def resume_agent(
    folder: Path,
    reporter: Reporter,
    limits: Mapping[str, object] | None = None,
    factory: EnvironmentFactory | None = None,
) -> TrainedAgent:
    """Resume a run exactly where it stopped, or train it for longer.

    Args:
        folder: the run folder.
        reporter: receives the progress.
        limits: new limits of training, such as ``{"max_epochs": 40}``.
        factory: makes the environment instead of the name in the config.
    """
    run = open_run(folder)
    config = configs.load(PlayConfig, folder / CONFIG)
    set_threads(config.machine.threads or int(read_meta(folder)["threads"]))
    config = load_config(PlayConfig, folder, run.last(lambda words: None), limits or {}, _FREE)
    task = build_task(config, factory)
    with lock_run(folder):
        return _test(task, resume(task, config.training, run, Randomness(config.seed), reporter), run)


def _test(task: AgentTask, outcome: RunResult, run: RunFolder | None) -> TrainedAgent:
    """Play the test episodes with the best weights and store their scores once."""
    if outcome.interrupted:
        return TrainedAgent(task, outcome, None)
    task.model.eval()
    test = task.test()
    ends = test.interval
    scores = finite({**test.scores(), "return_low": ends.low, "return_high": ends.high})
    row = {"step": outcome.best_step or outcome.steps, "part": "test", **scores}
    if run is not None and row not in run.metrics():  # it is there if a finished run is resumed
        run.append_metrics(row)
    return TrainedAgent(task, outcome, test)


@dataclass(frozen=True)
class LoadedAgent:
    """The content of a checkpoint: the config, the trained Q-function, and the forms of observations and actions."""

    config: PlayConfig
    model: nn.Module
    observations: ObservationFormat
    actions: ActionFormat


def load_model(folder: Path, device: str = "auto") -> LoadedAgent:
    """Load the trained Q-function of a run or checkpoint folder, without making its environment."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(PlayConfig, checkpoint.folder / CONFIG)
    with checkpoint.reading():
        observations, actions = read_spaces(checkpoint.folder)
        model = build_model(config, observations, actions, str(config.environment.name))
        checkpoint.load_into(model)
    if not isinstance(model, QTable):
        model.to(choose_device(device))
    return LoadedAgent(config, model.eval(), observations, actions)
