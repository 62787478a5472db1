"""Environments by name: custom ones, wrong names and spaces, limits and seeds. Every problem is one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from catena.agents.config import EnvironmentConfig
from catena.agents.environment import (
    MAX_EPISODE_STEPS,
    episode_seed,
    make_environment,
)
from catena.agents.spaces import ObservationFormat, action_format, observation_format
from catena.errors import CatenaError, ConfigError, DataError, MissingExtraError, UnknownNameError
from tests.agents.tiny import Chain, Grid, Recall


def make(name: str | None = "CartPole-v1", factory: Any = None, **values: Any) -> Any:
    return make_environment(EnvironmentConfig(name=name, **values), factory)


def test_environment_by_name_plays_an_episode() -> None:
    environment = make()
    first = environment.reset(3)
    assert first.shape == (4,)
    assert first.dtype == np.float32
    assert np.array_equal(first, environment.reset(3))
    assert not np.array_equal(first, environment.reset(4))
    result = environment.step(1)
    assert (result.reward, result.terminated, result.truncated, result.ended) == (1.0, False, False, False)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("CartPole-v9", r"^Unknown environment 'CartPole-v9': did you mean 'CartPole-v1'"),
        ("Cartpole", r"did you mean 'CartPole-v1'"),
        ("tests.agents.tiny:Gird", r"^The module tests.agents.tiny has no environment 'Gird': did you mean 'Grid'"),
        ("no_such_module:Grid", r"^The environment .* needs the module 'no_such_module', which cannot be imported"),
        (None, r"^environment.name is missing. Set it to the name of an environment"),
        ("Pendulum-v1", r"^The action space of Pendulum-v1 must be Discrete for Q-learning, got Box"),
        ("Blackjack-v1", r"^The observation space of Blackjack-v1 must be Box, Discrete or MultiBinary, got Tuple"),
    ],
)
def test_wrong_environment_is_one_sentence(name: str | None, sentence: str) -> None:
    with pytest.raises(CatenaError, match=sentence) as caught:
        make(name)
    assert "\n" not in str(caught.value)


def test_module_and_class_need_no_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_games.py").write_text("from tests.agents.tiny import Grid as Maze\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    environment = make("my_games:Maze", options=("slip=0.5",))
    assert environment.env.unwrapped.slip == 0.5
    assert environment.observations.n_states == 16


def test_module_may_register_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "import gymnasium\ngymnasium.register('test/Maze-v0', 'tests.agents.tiny:Grid', max_episode_steps=9)\n"
    (tmp_path / "registers_maze.py").write_text(lines, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    environment = make("registers_maze:test/Maze-v0")
    assert environment.env.spec.max_episode_steps == 9


def test_missing_gymnasium_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"playing needs .*gymnasium.*Install it: pip install"):
        make()


def test_missing_package_of_an_environment_names_it() -> None:
    def needs_more() -> Any:
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed, run `pip install gymnasium[box2d]`")

    with pytest.raises(MissingExtraError, match=r"needs another package: Box2D is not installed, run `pip install"):
        make("LunarLander-v3", needs_more)


def test_wrong_option_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"could not be made: TypeError: .*'lenght'.*Check environment.options"):
        make(options=("lenght=3",))
    with pytest.raises(ConfigError, match=r"must be written as key=value, got 'slippery'"):
        make(options=("slippery",))


# --- limits -----------------------------------------------------------------------------------------------------------


def steps_of_episode(environment: Any) -> int:
    environment.reset(0)
    steps, ended = 0, False
    while not ended:
        result = environment.step(0)
        steps, ended = steps + 1, result.ended
    assert result.truncated
    assert not result.terminated
    return steps


def test_limit_truncates_and_does_not_terminate() -> None:
    assert steps_of_episode(make("x", Chain, max_episode_steps=7)) == 7
    assert steps_of_episode(make("x", Chain)) == MAX_EPISODE_STEPS


def test_limit_above_that_of_the_environment_raises_error() -> None:
    with pytest.raises(ConfigError, match=r"max_episode_steps must be at most 500, .* got 501"):
        make(max_episode_steps=501)


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_seeds_of_training_dev_and_test_are_disjoint() -> None:
    found = {use: {episode_seed(use, i) for i in range(5_000)} for use in ("train", "dev", "test")}  # type: ignore[arg-type]
    assert all(len(seeds) > 4_990 for seeds in found.values())
    assert 0 <= min(found["dev"]) <= max(found["dev"]) < 2**29
    assert 2**29 <= min(found["test"]) <= max(found["test"]) < 2**30
    assert 2**30 <= min(found["train"]) <= max(found["train"]) < 2**31


def test_training_seeds_depend_on_seed_of_run() -> None:
    assert episode_seed("train", 3, seed=1) != episode_seed("train", 3, seed=2)


# --- spaces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        (spaces.Box(-1, 1, (3,), np.float64), ObservationFormat((3,), "float32")),
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), ObservationFormat((84, 84, 3), "uint8")),
        (spaces.Box(0, 1, (10, 10, 4), np.bool_), ObservationFormat((10, 10, 4), "bool")),
        (spaces.Box(0, 9, (2,), np.int32), ObservationFormat((2,), "float32")),
        (spaces.MultiBinary(5), ObservationFormat((5,), "bool")),
        (spaces.Discrete(7, start=2), ObservationFormat((), "int64", 7, 2)),
    ],
)
def test_observation_format_of_each_space(space: Any, wanted: ObservationFormat) -> None:
    found = observation_format(space, "x")
    assert found == wanted
    assert found == ObservationFormat.from_dict(found.to_dict())
    sampled = space.sample()
    encoded = found.encode(sampled)
    assert encoded.shape == found.shape
    assert encoded.dtype == np.dtype(found.dtype)
    assert encoded.nbytes == found.n_bytes
    assert np.array_equal(encoded, np.asarray(sampled, np.float32) - found.start)


def test_observe_selects_entries_of_vector() -> None:
    environment, whole = make(observe=(0, 2)), make()
    assert environment.reset(1).tolist() == whole.reset(1)[[0, 2]].tolist()
    assert environment.observations.n_features == 2
    with pytest.raises(DataError, match=r"environment.observe must be indices of a vector, got 0, 4 for .* \(4,\)"):
        make(observe=(0, 4))
    with pytest.raises(DataError, match=r"must be indices of a vector, got 0 for observations of shape \(\)"):
        make("x", Grid, observe=(0,))


def test_actions_may_start_above_zero() -> None:
    environment = make("x", Chain)
    assert (environment.actions.n, environment.actions.start) == (2, 5)
    environment.reset(0)
    assert environment.step(1).reward == 1.0
    assert action_format(spaces.Discrete(3), "x").n == 3


class Broken(Recall):
    """Returns a wrong observation or reward, or raises, at the first step."""

    def __init__(self, fault: str = "raise") -> None:
        super().__init__()
        self.fault = fault

    def step(self, action: Any) -> Any:
        if self.fault == "raise":
            raise ZeroDivisionError("division\nby zero")
        values = {"shape": ([0.0] * 3, 0.0), "not finite": ([0.0, np.nan], 0.0), "reward": ([0.0, 0.0], np.inf)}
        return *values[self.fault], False, False, {}


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (
            "raise",
            r"^step\(\) of the environment x raised ZeroDivisionError: division by zero. Correct the environment",
        ),
        ("shape", r"^An observation must have shape \(2,\), got \(3,\). Make it agree"),
        ("not finite", r"^An observation must be finite, got \[0.0, nan\]. Correct"),
        ("reward", r"^A reward of x must be finite, got inf. Correct"),
    ],
)
def test_broken_environment_is_one_sentence(fault: str, sentence: str) -> None:
    environment = make("x", Broken, options=(f"fault={fault}",))
    environment.reset(0)
    with pytest.raises(DataError, match=sentence):
        environment.step(0)


def test_unknown_name_error_is_a_key_error() -> None:
    with pytest.raises(UnknownNameError):
        make("CartPole-v9")
