"""Agents as tasks of the training loop.

The batches of an ordinary task depend only on the seed and their number. Here a batch depends on everything played so
far, and the play on the weights. So :meth:`PlayPlan.batch` must be called once for each batch, in order, as the loop
does. What the next batch depends on is part of the checkpoint, and a resumed run ends with the same weights; the tests
kill runs within episodes to check it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from torch import Tensor

from catena.agents.collector import Collector
from catena.agents.config import PlayConfig
from catena.agents.environment import PlayEnvironment, episode_seed
from catena.agents.evaluation import PlayEvaluation, play_episodes
from catena.agents.policy import Policy
from catena.agents.spaces import ActionFormat, ObservationFormat
from catena.checkpoint import CONFIG
from catena.config import to_toml
from catena.randomness import Randomness
from catena.training.task import Batch, EpochPlan, Evaluation, Task

SPACES = "spaces.json"
"""The file of a checkpoint with the forms of observations and actions."""

MakeEnvironment = Callable[[], PlayEnvironment]


class PlayPlan(EpochPlan):
    """The batches of an epoch, which must be requested once each, in order."""

    def __init__(self, n: int, collect: Callable[[int], Batch]) -> None:
        self.n, self.collect = n, collect

    def __len__(self) -> int:
        return self.n

    def batch(self, i: int) -> Batch:
        return self.collect(i)


class AgentTask(Task):
    """An agent that learns in an environment and is evaluated in others of the same kind.

    Args:
        config: the config of the run.
        make: makes an environment.
    """

    what_next = ("play RUN", "play RUN --record episode.gif")
    unit = "steps"

    def __init__(self, config: PlayConfig, make: MakeEnvironment) -> None:
        self.config, self.make = config, make
        self.environment = make()
        self.curve: list[dict[str, float]] = []
        """The scores of each evaluation, with the number of environment steps before it."""
        self.randomness = Randomness(config.seed)

    @property
    @abstractmethod
    def collector(self) -> Collector:
        """The play of the training environment."""

    @abstractmethod
    def policy(self) -> Policy:
        """A new greedy policy with the current weights."""

    @property
    def metric(self) -> str:
        return "return"

    def higher_is_better(self, metric: str) -> bool:
        return True

    def make_collector(self, policy: Policy, warmup: int = 0) -> Collector:
        """The collector that the config describes."""
        return Collector(
            self.environment,
            policy,
            self.config.exploration,
            seed=self.config.seed,
            warmup=warmup,
            replay_actions=self.config.environment.replay_actions,
        )

    def evaluate(self) -> Evaluation:
        """Play the dev episodes. Returns of training, with exploration, are reported apart."""
        result = self._play("dev", self.config.evaluation.dev_episodes)
        collector = self.collector
        training = {"training_return": collector.mean_return, "epsilon": collector.epsilon}
        scores = {**result.scores(), **training}
        self.curve.append({**scores, "environment_steps": collector.steps})
        return Evaluation(scores)

    def test(self) -> PlayEvaluation:
        """Play the test episodes, whose seeds neither training nor the choice of the checkpoint has used."""
        return self._play("test", self.config.evaluation.test_episodes)

    def _play(self, use: Literal["dev", "test"], n: int) -> PlayEvaluation:
        return play_episodes(self.make, self.policy(), [episode_seed(use, i) for i in range(n)])

    def save(self, folder: Path) -> None:
        write_spaces(folder, self.config, self.environment.observations, self.environment.actions)

    def summary(self) -> list[str]:
        environment = self.environment
        seen, config = environment.observations, self.config
        what = f"{seen.n_states} states" if seen.n_states else f"{seen.dtype} of shape {seen.shape}"
        return [
            f"environment: {environment.name}, observations {what}, {environment.actions.n} actions",
            f"epoch: {config.epoch_steps:,} environment steps, then {config.evaluation.dev_episodes} dev episodes with "
            f"epsilon 0",
        ]


def write_spaces(folder: Path, config: PlayConfig, observations: ObservationFormat, actions: ActionFormat) -> None:
    """Write config.toml and spaces.json into a checkpoint folder."""
    (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
    values = {"observations": observations.to_dict(), "n_actions": actions.n, "start": actions.start}
    (folder / SPACES).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def read_spaces(folder: Path) -> tuple[ObservationFormat, ActionFormat]:
    """The forms of observations and actions that :func:`write_spaces` wrote."""
    values = json.loads((folder / SPACES).read_text(encoding="utf-8"))
    return ObservationFormat.from_dict(values["observations"]), ActionFormat(values["n_actions"], values["start"])


def select_group(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors whose names begin with ``name/``, without this prefix."""
    return {key.removeprefix(f"{name}/"): tensor for key, tensor in tensors.items() if key.startswith(f"{name}/")}
