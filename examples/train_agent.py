"""Train two agents in an environment of your own: a table of Q-values and a deep Q-network."""

from __future__ import annotations

from typing import Any

import gymnasium

from catena.agents import DQN, QLearning


class Thermostat(gymnasium.Env[Any, Any]):
    """Keep a room between 19 and 22 degrees. The heater is off or on, and the night is cold."""  # style: a real room

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Discrete(31)  # degrees
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.degrees = int(self.np_random.integers(5, 30))
        return self.degrees, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        drift = 2 if action == 1 else -1
        self.degrees = min(max(self.degrees + drift + int(self.np_random.integers(-1, 2)), 0), 30)
        return self.degrees, float(19 <= self.degrees <= 22), False, False, {}


LIMIT = {"environment.max_episode_steps": 40}
table = QLearning(Thermostat, steps=20_000, discount=0.9, settings=LIMIT).fit()
assert table.test is not None
print("table:  ", table.test.lines()[1])
print("heater on at", [degrees for degrees in range(10, 30) if table.act(degrees) == 1])

network = DQN(
    Thermostat,
    sizes=(32,),
    steps=3_000,
    epoch_steps=1_000,
    learning_rate=0.003,
    discount=0.9,
    target_every=25,
    settings=LIMIT,
).fit()
assert network.test is not None
print("network:", network.test.lines()[1])
print("two runs of the same episodes:", table.evaluate(3).returns, network.evaluate(3).returns)
