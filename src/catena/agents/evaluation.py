"""Evaluation of a policy: episodes without exploration, in environments and with seeds that training never uses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from catena.agents.environment import PlayEnvironment
from catena.agents.policy import Policy
from catena.metrics.intervals import Interval, mean_interval

_TOGETHER = 16
"""Number of episodes that are played side by side, so that the network reads their observations together."""


@dataclass(frozen=True)
class Episode:
    """One episode: the seed of its start, the sum of its rewards, its length, and whether it terminated.

    An episode that did not terminate was truncated by a limit on its length.

    Args:
        seed: seed of its start.
        total: sum of its rewards.
        length: number of steps.
        terminated: False if a limit on its length truncated it.
    """

    seed: int
    total: float
    length: int
    terminated: bool


@dataclass(frozen=True)
class PlayEvaluation:
    """The episodes of an evaluation.

    Args:
        episodes: the episodes, one for each seed.
    """

    episodes: tuple[Episode, ...]

    @property
    def returns(self) -> np.ndarray:
        """The sum of rewards of each episode."""
        return np.array([episode.total for episode in self.episodes])

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def interval(self) -> Interval:
        """The mean return with its 95 % interval (Student's t), which needs two episodes or more."""
        return mean_interval(self.returns)

    @property
    def mean_length(self) -> float:
        """The mean number of steps."""
        return float(np.mean([episode.length for episode in self.episodes]))

    @property
    def n_truncated(self) -> int:
        """The number of episodes that a limit cut off."""
        return sum(not episode.terminated for episode in self.episodes)

    def scores(self) -> dict[str, float]:
        """The mean return and the mean length, by name."""
        return {"return": self.mean, "length": self.mean_length}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        ends = self.interval if len(self.episodes) > 1 else None
        return {
            "return": self.mean,
            "low": ends.low if ends else None,
            "high": ends.high if ends else None,
            "length": self.mean_length,
            "n_truncated": self.n_truncated,
            "episodes": [asdict(episode) for episode in self.episodes],
        }

    def lines(self) -> tuple[str, ...]:
        """The evaluation as lines of text."""
        values = self.returns
        count = len(values)
        ends = f" (95 % interval {self.interval.low:.2f} to {self.interval.high:.2f})" if count > 1 else ""
        deviation = f", standard deviation {values.std(ddof=1):.2f}" if count > 1 else ""
        return (
            f"{count} episodes, epsilon 0",
            f"return {self.mean:.2f}{ends}{deviation}, lowest {values.min():.2f}, highest {values.max():.2f}",
            f"length {self.mean_length:.1f}, {self.n_truncated} of {count} truncated",
        )


def play_episodes(
    make: Callable[[], PlayEnvironment], policy: Policy, seeds: Sequence[int], together: int = _TOGETHER
) -> PlayEvaluation:
    """Play one episode for each seed.

    Args:
        make: makes an environment; up to ``together`` of them are used and closed.
        policy: the policy, which acts without exploration.
        seeds: the seed of each episode.
        together: the number of episodes that are played side by side.
    """
    environments = [make() for _ in range(min(together, len(seeds)))]
    try:
        found: list[Episode] = []
        for start in range(0, len(seeds), together):
            found += _play_group(environments, policy, seeds[start : start + together])
        return PlayEvaluation(tuple(found))
    finally:
        for environment in environments:
            environment.close()


def _play_group(environments: Sequence[PlayEnvironment], policy: Policy, seeds: Sequence[int]) -> Iterator[Episode]:
    """Play episodes side by side, and return them in the order of their seeds."""
    observations = [environment.reset(seed) for environment, seed in zip(environments, seeds, strict=False)]
    running = list(range(len(seeds)))
    rewards: list[list[float]] = [[] for _ in seeds]
    terminated = [False] * len(seeds)
    policy.begin(len(seeds))
    while running:
        actions = policy.act(np.stack([observations[i] for i in running]))
        left = []
        for row, i in enumerate(running):
            result = environments[i].step(int(actions[row]))
            observations[i] = result.observation
            rewards[i].append(result.reward)
            terminated[i] = result.terminated
            if not result.ended:
                left.append(row)
        if len(left) < len(running):
            running = [running[row] for row in left]
            policy.keep(np.array(left, dtype=np.int64))
    for i, seed in enumerate(seeds):
        yield Episode(seed, math.fsum(rewards[i]), len(rewards[i]), terminated[i])
