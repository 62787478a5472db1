"""Small environments whose optimal values are known, and tasks that train in seconds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from catena.agents.agent import DQN, QLearning
from catena.agents.base import AgentTask
from catena.agents.runs import build_task

N = 4
GOAL = N * N - 1


class Grid(gymnasium.Env[Any, Any]):
    """A 4 x 4 grid. Each move costs 1, the lower right corner ends the episode; actions are up, right, down, left.

    ``slip`` is the probability that a random move is made instead.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, slip: float = 0.0, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Discrete(N * N)
        self.action_space = spaces.Discrete(4)
        self.slip, self.render_mode = slip, render_mode
        self.cell = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(GOAL))
        return self.cell, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.np_random.random() < self.slip:
            action = self.np_random.integers(4)
        self.cell = move(self.cell, int(action))
        return self.cell, -1.0, self.cell == GOAL, False, {}

    def render(self) -> np.ndarray:
        picture = np.zeros((N * 8, N * 8, 3), np.uint8)
        row, column = divmod(self.cell, N)
        picture[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 255
        return picture


def move(cell: int, action: int) -> int:
    """The cell after a move; walls stop it."""
    row, column = divmod(cell, N)
    down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[action]
    return min(max(row + down, 0), N - 1) * N + min(max(column + right, 0), N - 1)


class Chain(gymnasium.Env[Any, Any]):
    """Two states that alternate with reward 1, without an end: only a limit truncates an episode.

    With discount γ every value is 1 / (1 - γ).
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Discrete(2)
        self.action_space = spaces.Discrete(2, start=5)
        self.state = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = 0
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (5, 6)
        self.state = 1 - self.state
        return self.state, 1.0, False, False, {}


class Recall(gymnasium.Env[Any, Any]):
    """A cue at the first step decides which action is right at the last one; the observations between are equal."""

    def __init__(self, length: int = 3) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length = length
        self.time = self.cue = 0

    def _see(self) -> np.ndarray:
        cue = 2.0 * self.cue - 1.0 if self.time == 0 else 0.0
        return np.array([cue, float(self.time == self.length - 1)], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.cue = 0, int(self.np_random.integers(2))
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ends = self.time == self.length - 1
        reward = (1.0 if action == self.cue else -1.0) if ends else 0.0
        self.time += 1
        return self._see(), reward, ends, False, {}


class Pixels(gymnasium.Env[Any, Any]):
    """A bright pixel in an image of bytes: the action must name its half. Ends after five steps."""

    def __init__(self, dtype: str = "uint8") -> None:
        high = 255 if dtype == "uint8" else 1
        self.observation_space = spaces.Box(0, high, (6, 8, 2), np.dtype(dtype).type)
        self.action_space = spaces.Discrete(2)
        self.high, self.time, self.column = high, 0, 0

    def _see(self) -> np.ndarray:
        self.column = int(self.np_random.integers(8))
        picture = np.zeros((6, 8, 2), self.observation_space.dtype)
        picture[int(self.np_random.integers(6)), self.column, int(self.np_random.integers(2))] = self.high
        return picture

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.column // 4)
        self.time += 1
        return self._see(), reward, self.time == 5, False, {}


def make_dqn(environment: Any = "CartPole-v1", settings: dict[str, Any] | None = None, **options: Any) -> DQN:
    """A deep Q-network that trains in about a second."""
    small = {"steps": 260, "epoch_steps": 100, "warmup": 60, "sizes": (8,), "batch_size": 8, "capacity": 200}
    fixed = {"evaluation.dev_episodes": 3, "evaluation.test_episodes": 3}
    return DQN(environment, **{**small, "device": "cpu", **options}, settings={**fixed, **(settings or {})})


def make_task(agent: DQN | QLearning) -> AgentTask:
    """The training task of an agent, as a new process would build it."""
    return build_task(agent.config, agent.factory)
