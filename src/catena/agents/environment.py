"""Environments by name, with every problem as one sentence: unknown names, missing packages, wrong spaces.

An episode is determined by its seed and its actions: each one begins with ``reset(seed=…)``. So an interrupted episode
can be repeated. The seeds of training, dev and test episodes come from disjoint ranges.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from catena.agents.config import EnvironmentConfig
from catena.agents.spaces import ActionFormat, ObservationFormat, action_format, observation_format
from catena.config.text import parse_options
from catena.errors import ConfigError, DataError, MissingExtraError, UnknownNameError
from catena.extras import import_local, require
from catena.randomness import Randomness
from catena.registry import did_you_mean

MAX_EPISODE_STEPS = 10_000
"""Steps after which an episode is truncated if the environment sets no limit, because a bad policy may never end it."""

_RANGE = 2**29
_SEED_RANGES = {"dev": 0, "test": _RANGE, "train": 2 * _RANGE}
"""The lowest seed of each use; the ranges have ``_RANGE`` seeds and do not overlap."""

EnvironmentFactory = Callable[..., Any]
"""A class or function that returns a ``gymnasium.Env``; ``render_mode`` may be passed to it."""


def episode_seed(use: Literal["train", "dev", "test"], number: int, seed: int = 0) -> int:
    """The seed of an episode. Dev and test episodes are the same for all runs; training ones depend on the run's seed.

    >>> episode_seed("dev", 3) == episode_seed("dev", 3, seed=0) != episode_seed("test", 3)
    True
    """
    return _SEED_RANGES[use] + Randomness(seed).number(use, number) % _RANGE


class StepResult(NamedTuple):
    """The result of one step. ``terminated`` means that no rewards follow; ``truncated`` that a limit cut the episode.

    The value of the state after a truncation is not 0, so only ``terminated`` stops bootstrapping.
    """

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


class PlayEnvironment:
    """A Gymnasium environment with observations and actions in the form that agents use.

    Args:
        env: the environment.
        name: its name, for error messages.
        indices: the entries of the observation vector that the agent sees; all if empty.
    """

    def __init__(self, env: Any, name: str, indices: Sequence[int] = ()) -> None:
        self.env = env
        self.name = name
        self.observations: ObservationFormat = observation_format(env.observation_space, name, indices)
        self.actions: ActionFormat = action_format(env.action_space, name)

    def reset(self, seed: int) -> np.ndarray:
        """Begin an episode and return its first observation."""
        try:
            observation, _ = self.env.reset(seed=seed)
        except Exception as error:
            raise self._failed("reset", error) from error
        return self.observations.encode(observation)

    def step(self, action: int) -> StepResult:
        """Take the action with this index."""
        try:
            observation, reward, terminated, truncated, _ = self.env.step(action + self.actions.start)
        except Exception as error:
            raise self._failed("step", error) from error
        reward = float(reward)
        if not math.isfinite(reward):
            raise DataError(f"A reward of {self.name} must be finite, got {reward}. Correct the environment.")
        return StepResult(self.observations.encode(observation), reward, bool(terminated), bool(truncated))

    def render(self) -> Any:
        """The current picture or text, as the environment's render mode returns it."""
        return self.env.render()

    @property
    def frames_per_second(self) -> float:
        """The speed at which the environment is meant to be watched."""
        return float(self.env.metadata.get("render_fps") or 30)

    def close(self) -> None:
        """Release windows and other resources."""
        self.env.close()

    def _failed(self, method: str, error: Exception) -> DataError:
        words = " ".join(str(error).split())[:200]
        return DataError(
            f"{method}() of the environment {self.name} raised {type(error).__name__}: {words}. Correct the "
            f"environment."
        )


def make_environment(
    config: EnvironmentConfig, factory: EnvironmentFactory | None = None, render_mode: str | None = None
) -> PlayEnvironment:
    """Make an environment.

    Args:
        config: name, arguments, time limit, and what the agent sees.
        factory: makes the environment instead of the name in ``config``.
        render_mode: ``rgb_array``, ``human`` or ``ansi``, to watch it.
    """
    gymnasium = require("gymnasium", "agents", "playing")
    options = parse_options(config.options, "environment.options", "is_slippery=false")
    if render_mode is not None:
        options["render_mode"] = render_mode
    make = factory or _find_factory(gymnasium, config.name)
    _silence_pygame(render_mode)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks of Gymnasium about newer versions of an environment
            env = make(**options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtraError(f"The environment {config.name} needs another package: {error}") from error
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"The environment {config.name} could not be made: {type(error).__name__}: {words}. Check "
            f"environment.options."
        ) from error
    return PlayEnvironment(_limited(gymnasium, env, config.max_episode_steps), str(config.name), config.observe)


def _silence_pygame(render_mode: str | None) -> None:
    """Without a display, pygame renders in memory; otherwise it would print an error about the missing display."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if render_mode == "rgb_array" and sys.platform == "linux" and "DISPLAY" not in os.environ:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _limited(gymnasium: Any, env: Any, max_steps: int | None) -> Any:
    """The environment with a limit on the length of episodes."""
    spec = getattr(env, "spec", None)
    own = spec.max_episode_steps if spec is not None else None
    if max_steps is None and own is not None:
        return env
    if own is not None and max_steps is not None and max_steps > own:
        raise ConfigError(
            f"environment.max_episode_steps must be at most {own}, the limit of the environment, got {max_steps}. "
            f"Reduce it."
        )
    return gymnasium.wrappers.TimeLimit(env, max_steps or MAX_EPISODE_STEPS)


def _find_factory(gymnasium: Any, name: str | None) -> EnvironmentFactory:
    """The function that makes the environment with this name."""
    if not name:
        raise ConfigError("environment.name is missing. Set it to the name of an environment, such as CartPole-v1.")
    module, colon, local = name.partition(":")
    found = import_local(module, f"The environment {name!r}") if colon else None
    known = local if colon else name
    if known in gymnasium.registry:
        return lambda **options: gymnasium.make(known, disable_env_checker=True, **options)
    if found is not None and callable(getattr(found, local, None)):
        return getattr(found, local)
    if found is not None:
        classes = [key for key, value in vars(found).items() if isinstance(value, type) and hasattr(value, "step")]
        raise UnknownNameError(
            f"The module {module} has no environment {local!r}: {did_you_mean(local, [*classes, *gymnasium.registry])}"
        )
    raise UnknownNameError(f"Unknown environment {name!r}: {did_you_mean(name, gymnasium.registry)}")
