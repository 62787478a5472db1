"""Play of the training environment: epsilon-greedy steps, one after another, that can be resumed within an episode.

A checkpoint holds the number of the episode, its actions so far, the current observation and the generator. The
environment itself cannot be saved: on resume, the episode is repeated from its seed with the same actions, and the
observation that follows must be the saved one.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.agents.config import ExplorationConfig
from catena.agents.environment import PlayEnvironment, episode_seed
from catena.agents.policy import Policy
from catena.errors import CheckpointError
from catena.randomness import Randomness

_RECENT = 100
"""Number of finished training episodes whose mean return is reported."""


class CollectedStep(NamedTuple):
    """One step of training play. ``begins`` is True for the first step of an episode.

    ``memory`` is what a recurrent agent remembered before the observation.
    """

    begins: bool
    observation: np.ndarray
    action: int
    reward: float
    terminated: bool
    next_observation: np.ndarray
    memory: np.ndarray | None


class Collector:
    """Plays episode after episode in one environment.

    Args:
        environment: the training environment.
        policy: the policy that is trained.
        exploration: the schedule of epsilon.
        seed: seed of the run, which determines the episodes and the exploration.
        warmup: the number of steps with random actions at the beginning.
        replay_actions: whether to repeat an interrupted episode on resume; otherwise a new one begins.
    """

    def __init__(
        self,
        environment: PlayEnvironment,
        policy: Policy,
        exploration: ExplorationConfig,
        *,
        seed: int,
        warmup: int = 0,
        replay_actions: bool = True,
    ) -> None:
        self.environment, self.policy, self.exploration = environment, policy, exploration
        self.seed, self.warmup, self.replay_actions = seed, warmup, replay_actions
        self.rng = Randomness(seed).numpy("exploration")
        self.steps = 0
        self.episode = 0
        """The number of episodes that began."""
        self.actions: list[int] = []
        """The actions of the current episode."""
        self.observation: np.ndarray | None = None
        """The current observation; None between episodes."""
        self.total = 0.0
        self.returns: deque[float] = deque(maxlen=_RECENT)

    @property
    def epsilon(self) -> float:
        """The probability of a random action at the next step."""
        if self.steps < self.warmup:
            return 1.0
        start, end = self.exploration.epsilon_start, self.exploration.epsilon_end
        progress = min(1.0, (self.steps - self.warmup) / self.exploration.epsilon_steps)
        return start + (end - start) * progress

    @property
    def mean_return(self) -> float:
        """The mean return of the last training episodes; nan before the first has ended."""
        return float(np.mean(self.returns)) if self.returns else float("nan")

    def step(self) -> CollectedStep:
        """Take one step; after the end of an episode, the first step of the next one."""
        before = self.observation
        begins = before is None
        if before is None:
            before = self._begin()
        memory = self.policy.memory()
        action = self._choose(before)
        result = self.environment.step(action)
        self.actions.append(action)
        self.steps += 1
        self.total += result.reward
        self.observation = result.observation
        if result.ended:
            self.returns.append(self.total)
            self.observation = None
        return CollectedStep(begins, before, action, result.reward, result.terminated, result.observation, memory)

    def _begin(self) -> np.ndarray:
        observation = self.environment.reset(episode_seed("train", self.episode, self.seed))
        self.policy.begin(1)
        self.episode += 1
        self.actions = []
        self.total = 0.0
        return observation

    def _choose(self, observation: np.ndarray) -> int:
        explores = self.rng.random() < self.epsilon
        if explores and not self.policy.has_memory:
            return int(self.rng.integers(self.environment.actions.n))
        best = int(self.policy.act(observation[None])[0])  # a policy with memory reads every observation
        if not explores:
            return best
        action = int(self.rng.integers(self.environment.actions.n))
        self.policy.took(np.array([action]))
        return action

    # --- saving -------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Everything that the next step depends on, except the weights of the policy."""
        found = {
            "counts": torch.tensor([self.steps, self.episode]),
            "actions": torch.tensor(self.actions, dtype=torch.int64),
            "total": torch.tensor(self.total, dtype=torch.float64),
            "returns": torch.tensor(list(self.returns), dtype=torch.float64),
            "generator": generator_tensor(self.rng),
        }
        if self.observation is not None:
            found["observation"] = torch.from_numpy(np.asarray(self.observation))
            found |= {f"policy/{name}": tensor for name, tensor in self.policy.tensors().items()}
        return found

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`tensors` returned, and bring the environment to the same point of the episode."""
        self.steps, self.episode = (int(count) for count in tensors["counts"])
        restore_generator(self.rng, tensors["generator"])
        self.returns = deque(tensors["returns"].tolist(), maxlen=_RECENT)
        self.observation = None
        if "observation" not in tensors or not self.replay_actions:
            return
        self.total = float(tensors["total"])
        self.actions = tensors["actions"].tolist()
        self.policy.restore({n.removeprefix("policy/"): t for n, t in tensors.items() if n.startswith("policy/")})
        self.observation = self._repeat(tensors["observation"].numpy())

    def _repeat(self, saved: np.ndarray) -> np.ndarray:
        """Repeat the current episode and return its last observation. Raise CheckpointError if it is another one."""
        observation = self.environment.reset(episode_seed("train", self.episode - 1, self.seed))
        for action in self.actions:
            observation = self.environment.step(action).observation
        if not np.array_equal(observation, saved):
            raise CheckpointError(
                f"The environment {self.environment.name} is not deterministic: repeating the {len(self.actions)} "
                f"actions of episode {self.episode} gave another observation, so the run cannot be resumed exactly. "
                f"Set environment.replay_actions = false in its config.toml to continue with a new episode."
            )
        return observation


def generator_tensor(rng: np.random.Generator) -> Tensor:
    """The state of a numpy generator as bytes."""
    return torch.tensor(list(json.dumps(rng.bit_generator.state).encode()), dtype=torch.uint8)


def restore_generator(rng: np.random.Generator, state: Tensor) -> None:
    """Restore the state that :func:`generator_tensor` returned."""
    rng.bit_generator.state = json.loads(bytes(state.tolist()))
