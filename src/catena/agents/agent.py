"""Agents as Python objects: ``fit``, ``act``, ``evaluate``, ``record``, ``plot``, ``save`` and ``load``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
from torch import nn

from catena.agents.base import write_spaces
from catena.agents.config import PlayConfig, QTableConfig, count_epochs
from catena.agents.environment import (
    EnvironmentFactory,
    PlayEnvironment,
    episode_seed,
    make_environment,
)
from catena.agents.evaluation import Episode, PlayEvaluation, play_episodes
from catena.agents.network import QNetwork
from catena.agents.policy import NetworkPolicy, Policy, TablePolicy
from catena.agents.recording import check_recording, record_episode
from catena.agents.runs import TrainedAgent, load_model, resume_agent, train_agent
from catena.agents.spaces import ActionFormat, ObservationFormat
from catena.agents.tabular import QTable
from catena.checkpoint import is_run, write_checkpoint
from catena.config import parse
from catena.config.text import format_options
from catena.draw.curves import draw_curves, series_of_rows
from catena.draw.picture import Picture
from catena.errors import CheckpointError, ConfigError, DataError
from catena.training.report import Reporter, SilentReporter
from catena.training.run import RunFolder

A = TypeVar("A", bound="Agent")
_CURVES = {"return": "evaluation (epsilon 0)", "training_return": "training episodes"}


class Agent:
    """An agent that acts by a Q-function. Use :class:`DQN` or :class:`QLearning`.

    Args:
        config: the config of the agent.
        factory: makes the environment, if it has no name.
    """

    def __init__(self, config: PlayConfig, factory: EnvironmentFactory | None = None) -> None:
        self.config, self.factory = config, factory
        self.model: nn.Module | None = None
        """The trained Q-function; None before :meth:`fit`."""
        self.test: PlayEvaluation | None = None
        """The test episodes after :meth:`fit`."""
        self.curve: list[dict[str, float]] = []
        """The scores of each evaluation in training."""
        self._observations: ObservationFormat | None = None
        self._actions: ActionFormat | None = None
        self._policy: Policy | None = None

    def __repr__(self) -> str:
        state = "not trained" if self.model is None else "trained"
        return f"{type(self).__name__}({self.config.environment.name!r}, {state})"

    # --- training -----------------------------------------------------------------------------------------------------

    def fit(
        self: A,
        folder: str | PathLike[str] | None = None,
        *,
        reporter: Reporter | None = None,
        overwrite: bool = False,
    ) -> A:
        """Train the agent from the start, and play the test episodes with its best weights.

        Args:
            folder: a run folder, which can be resumed; with None, the agent is kept in memory only.
            reporter: receives the progress; silent if None.
            overwrite: replace an existing run folder.
        """
        trained = train_agent(
            self.config,
            None if folder is None else Path(folder),
            reporter or SilentReporter(),
            factory=self.factory,
            overwrite=overwrite,
        )
        self.curve = trained.task.curve
        return self._take(trained)

    @classmethod
    def resume(
        cls: type[A],
        folder: str | PathLike[str],
        *,
        max_epochs: int | None = None,
        reporter: Reporter | None = None,
        environment: EnvironmentFactory | None = None,
    ) -> A:
        """Resume a run exactly where it stopped.

        Args:
            folder: the run folder.
            max_epochs: train for at most this many epochs, counted from the start of the run.
            reporter: receives the progress; silent if None.
            environment: makes the environment, if the run was trained with a function.
        """
        limits = {} if max_epochs is None else {"max_epochs": max_epochs}
        trained = resume_agent(Path(folder), reporter or SilentReporter(), limits, environment)
        agent = _from_config(trained.task.config, environment)._take(trained)
        agent.curve = read_curve(Path(folder))
        return _check_class(cls, agent, folder)

    def _take(self: A, trained: TrainedAgent) -> A:
        self.model, self.test = trained.task.model.eval(), trained.test
        self._observations, self._actions = trained.task.environment.observations, trained.task.environment.actions
        self._policy = None
        return self

    # --- acting -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin an episode: forget the previous one. Needed by agents with frames or a recurrent network."""
        self._policy = self.policy()
        self._policy.begin(1)

    def act(self, observation: Any) -> int:
        """The best action for an observation of the environment, which follows the previous one of the episode."""
        values = self.q_values(observation)
        assert self._actions is not None
        return int(values.argmax()) + self._actions.start

    def q_values(self, observation: Any) -> np.ndarray:
        """The value of each action for an observation, which follows the previous one of the episode."""
        if self._policy is None:
            self.begin()
        assert self._policy is not None
        assert self._observations is not None
        return self._policy.q_values(self._observations.encode(observation)[None])[0]

    def policy(self) -> Policy:
        """A new greedy policy with the weights of this agent."""
        if self.model is None:
            raise DataError("The agent is not trained. Call fit() first, or load a trained agent.")
        if isinstance(self.model, QTable):
            return TablePolicy(self.model.q.detach().numpy())
        return NetworkPolicy(cast(QNetwork, self.model), self.config.environment.frames)

    def make_environment(self, render_mode: str | None = None) -> PlayEnvironment:
        """A new environment of the kind that the agent was trained in."""
        return make_environment(self.config.environment, self.factory, render_mode)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, episodes: int = 100, *, first: int = 0) -> PlayEvaluation:
        """Play test episodes without exploration (epsilon 0).

        Args:
            episodes: the number of episodes.
            first: the number of the first test episode; episode i always has the same seed.
        """
        if episodes < 1:
            raise ConfigError(f"episodes must be at least 1, got {episodes}. Use 100, for example.")
        seeds = [episode_seed("test", i) for i in range(first, first + episodes)]
        return play_episodes(self.make_environment, self.policy(), seeds)

    def record(self, path: str | PathLike[str], episode: int = 0) -> Episode:
        """Play a test episode and write it as a GIF or MP4 file.

        Args:
            path: the file.
            episode: the number of the test episode.
        """
        check_recording(Path(path))
        policy = self.policy()
        environment = self.make_environment("rgb_array")
        try:
            return record_episode(environment, policy, episode_seed("test", episode), Path(path))
        finally:
            environment.close()

    def show(self, episode: int = 0) -> Episode:
        """Play a test episode in a window, if the environment has one.

        Args:
            episode: the number of the test episode.
        """
        seeds = [episode_seed("test", episode)]
        return play_episodes(lambda: self.make_environment("human"), self.policy(), seeds).episodes[0]

    def plot(self) -> Picture:
        """The returns of evaluation and of training over environment steps."""
        return draw_returns(self.curve)

    def describe(self, top: int = 10) -> list[str]:
        """Lines about the agent: its environment, its Q-function, and its last ``top`` evaluations."""
        config, model = self.config, self.model
        size = "" if model is None else f", {sum(p.numel() for p in model.parameters()):,} parameters"
        kind = config.model.kind if isinstance(config.model, QTableConfig) else config.model.network.kind
        lines = [f"agent in {config.environment.name}: {kind}{size}"]
        for row in self.curve[-top:]:
            lines.append(
                f"  {row['environment_steps']:>9,} steps: return {row['return']:.2f}, training episodes "
                f"{row['training_return']:.2f}"
            )
        return lines

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the trained agent to a folder that :meth:`load` and ``catena.load`` read."""
        self.policy()  # raises if it is not trained
        model, observations, actions = self.model, self._observations, self._actions
        assert model is not None
        assert observations is not None
        assert actions is not None

        def write(unfinished: Path) -> None:
            write_spaces(unfinished, self.config, observations, actions)

        return write_checkpoint(Path(folder), model.state_dict(), write).folder

    @classmethod
    def load(
        cls: type[A],
        folder: str | PathLike[str],
        device: str = "auto",
        environment: EnvironmentFactory | None = None,
    ) -> A:
        """Load a trained agent from a run or checkpoint folder. Its environment is made when it is needed.

        Args:
            folder: a run folder, or a folder that :meth:`save` wrote.
            device: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.
            environment: makes the environment, if the agent was trained with a function.
        """
        loaded = load_model(Path(folder), device)
        agent = _from_config(loaded.config, environment)
        agent.model = loaded.model
        agent._observations, agent._actions = loaded.observations, loaded.actions
        agent.curve = read_curve(Path(folder))
        return _check_class(cls, agent, folder)


class DQN(Agent):
    """A deep Q-network (Mnih et al. 2015), by default with double Q-learning (van Hasselt et al. 2016).

    Args:
        environment: name of a Gymnasium environment, ``module:EnvId``, ``module:Class``, or a function that makes one.
        network: ``dense``, ``convolution`` for images, or ``recurrent`` for partial observations.
        sizes: units of the dense hidden layers; the default of the network if None.
        steps: environment steps of the training.
        epoch_steps: environment steps between evaluations.
        learning_rate: learning rate of Adam.
        discount: discount of the reward of the next step.
        double: whether the online network chooses the next action that the target network values.
        target: ``copy``, ``average`` or ``none``.
        target_every: updates between two copies of the target network.
        loss: ``huber`` or ``squared``.
        train_every: environment steps for each update.
        capacity: number of observations in the replay.
        batch_size: steps (or sequences) in a batch.
        warmup: random steps before training.
        epsilon_end: the last probability of a random action.
        epsilon_steps: environment steps in which epsilon falls from 1.
        stop_at: stop when the mean return of an evaluation reaches this value.
        environment_options: arguments of the environment.
        seed: seed of weights, exploration, replay and training episodes.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.
        settings: any other option by its dotted name, such as ``{"model.network.burn_in": 4}``.
    """

    def __init__(
        self,
        environment: str | EnvironmentFactory,
        *,
        network: Literal["dense", "convolution", "recurrent"] = "dense",
        sizes: Sequence[int] | None = None,
        steps: int = 100_000,
        epoch_steps: int = 5_000,
        learning_rate: float = 5e-4,
        discount: float = 0.99,
        double: bool = True,
        target: Literal["copy", "average", "none"] = "copy",
        target_every: int = 250,
        loss: Literal["huber", "squared"] = "huber",
        train_every: int = 2,
        capacity: int = 50_000,
        batch_size: int = 128,
        warmup: int = 1_000,
        epsilon_end: float = 0.05,
        epsilon_steps: int = 10_000,
        stop_at: float | None = None,
        environment_options: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        name, factory = _name_environment(environment)
        values = {
            "seed": seed,
            "epoch_steps": epoch_steps,
            "machine.device": device,
            "environment.name": name,
            "environment.options": format_options(environment_options or {}),
            "model.kind": "dqn",
            "model.discount": discount,
            "model.double": double,
            "model.target": target,
            "model.target_every": target_every,
            "model.loss": loss,
            "model.train_every": train_every,
            "model.network.kind": network,
            "model.replay.capacity": capacity,
            "model.replay.batch_size": batch_size,
            "model.replay.warmup": warmup,
            "exploration.epsilon_end": epsilon_end,
            "exploration.epsilon_steps": epsilon_steps,
            "training.learning_rate": learning_rate,
            "training.max_epochs": count_epochs(steps, epoch_steps, warmup),
            **({} if stop_at is None else {"training.stop_at": stop_at}),
            **({} if sizes is None else {"model.network.sizes": tuple(sizes)}),
            **(settings or {}),
        }
        super().__init__(parse(PlayConfig, _nest(values), source=type(self).__name__), factory)


class QLearning(Agent):
    """Tabular Q-learning for a finite number of states and actions (Watkins & Dayan 1992).

    Args:
        environment: name of a Gymnasium environment, ``module:EnvId``, ``module:Class``, or a function that makes one.
        steps: environment steps of the training.
        epoch_steps: environment steps between evaluations.
        learning_rate: the step size α of an update.
        discount: discount of the reward of the next step.
        initial: initial value of each entry; a high one makes the agent try every action.
        epsilon_end: the last probability of a random action.
        epsilon_steps: environment steps in which epsilon falls from 1.
        stop_at: stop when the mean return of an evaluation reaches this value.
        environment_options: arguments of the environment.
        seed: seed of exploration and training episodes.
        settings: any other option by its dotted name, such as ``{"evaluation.dev_episodes": 50}``.
    """

    def __init__(
        self,
        environment: str | EnvironmentFactory,
        *,
        steps: int = 100_000,
        epoch_steps: int = 5_000,
        learning_rate: float = 0.1,
        discount: float = 0.99,
        initial: float = 0.0,
        epsilon_end: float = 0.05,
        epsilon_steps: int = 10_000,
        stop_at: float | None = None,
        environment_options: Mapping[str, Any] | None = None,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        name, factory = _name_environment(environment)
        values = {
            "seed": seed,
            "epoch_steps": epoch_steps,
            "environment.name": name,
            "environment.options": format_options(environment_options or {}),
            "model.kind": "table",
            "model.discount": discount,
            "model.initial": initial,
            "exploration.epsilon_end": epsilon_end,
            "exploration.epsilon_steps": epsilon_steps,
            "training.learning_rate": learning_rate,
            "training.max_epochs": count_epochs(steps, epoch_steps),
            **({} if stop_at is None else {"training.stop_at": stop_at}),
            **(settings or {}),
        }
        super().__init__(parse(PlayConfig, _nest(values), source=type(self).__name__), factory)

    @property
    def table(self) -> np.ndarray:
        """The trained table; ``table[s, a]`` is the value of action ``a`` in state ``s``."""
        self.policy()  # raises if it is not trained
        return cast(QTable, self.model).q.detach().numpy()


def load_agent(folder: str | PathLike[str], device: str = "auto") -> DQN | QLearning:
    """Load a trained agent of either kind from a run or checkpoint folder.

    Args:
        folder: a run, or one of its checkpoints.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU if there is one.
    """
    return cast("DQN | QLearning", Agent.load(folder, device))


def read_curve(folder: Path) -> list[dict[str, float]]:
    """The evaluations of a run, from its metrics.jsonl; empty for a folder that is not a run."""
    if not is_run(folder):
        return []
    rows = [row for row in RunFolder(folder).metrics() if {"scores", "tokens"} <= row.keys()]
    evaluations = ({**row["scores"], "environment_steps": row["tokens"]} for row in rows)
    return [{name: math.nan if v is None else v for name, v in scores.items()} for scores in evaluations]


def draw_returns(rows: Sequence[Mapping[str, float]]) -> Picture:
    """Draw the returns of evaluation and of training over environment steps.

    Args:
        rows: the evaluations of a run, as :func:`read_curve` returns them.
    """
    if not rows:
        raise DataError("The agent has no curve: it was not trained here. Load the run folder, or call fit().")
    series = series_of_rows(rows, x="environment_steps")
    shown = {words: series[name] for name, words in _CURVES.items() if name in series}
    return draw_curves(shown, x_title="environment steps", y_title="mean return")


def _name_environment(environment: str | EnvironmentFactory) -> tuple[str, EnvironmentFactory | None]:
    """The name of an environment, and the function that makes it, if it is not a name."""
    if isinstance(environment, str):
        return environment, None
    if not callable(environment):
        raise ConfigError(
            f"environment must be a name or a function that makes an environment, got {environment!r:.60}. Pass "
            f"lambda: environment."
        )
    return f"{environment.__module__}:{getattr(environment, '__qualname__', 'environment')}", environment


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted names as nested sections."""
    nested: dict[str, Any] = {}
    for dotted, value in values.items():
        *sections, key = dotted.split(".")
        here = nested
        for section in sections:
            here = here.setdefault(section, {})
        here[key] = value
    return nested


def _from_config(config: PlayConfig, factory: EnvironmentFactory | None) -> Agent:
    """An agent of the class that fits the config."""
    kind = QLearning if config.model.kind == "table" else DQN
    agent = kind.__new__(kind)
    Agent.__init__(agent, config, factory)
    return agent


def _check_class(cls: type[A], agent: Agent, folder: str | PathLike[str]) -> A:
    if not isinstance(agent, cls):
        raise CheckpointError(
            f"{folder} must be an agent of class {cls.__name__}, got {type(agent).__name__}. Use "
            f"{type(agent).__name__}.load."
        )
    return agent
