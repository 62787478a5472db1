"""A run that is killed at any point, also within an episode, and resumed ends like an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from gymnasium import spaces

from catena.agents.agent import QLearning, read_curve
from catena.agents.runs import resume_agent, train_agent
from catena.checkpoint import open_checkpoint
from catena.errors import CheckpointError
from catena.training.report import SilentReporter
from catena.training.run import create_run
from tests.agents.tiny import Grid, Pixels, make_dqn, make_task
from tests.laws.resume_laws import Doomed, Killed, die, fresh_run, killed_anywhere_ends_the_same, same_tensors

KINDS: dict[str, Any] = {
    "double": lambda: make_dqn(),
    "average-target": lambda: make_dqn(target="average", loss="squared", double=False),
    "no-target": lambda: make_dqn(target="none", train_every=3),
    "frames": lambda: make_dqn(settings={"environment.frames": 3}),
    "recurrent": lambda: make_dqn(
        network="recurrent",
        settings={
            "environment.observe": (0, 2),
            "model.network.d": 4,
            "model.network.length": 4,
            "model.network.burn_in": 2,
        },
    ),
    "recurrent-from-zero": lambda: make_dqn(
        network="recurrent",
        settings={
            "model.normalize": True,
            "model.network.cell": "gru",
            "model.network.d": 4,
            "model.network.length": 4,
            "model.network.stored_state": False,
            "model.network.last_action": False,
        },
    ),
    "image": lambda: make_dqn(
        Pixels,
        network="convolution",
        settings={
            "model.network.channels": (4,),
            "model.network.windows": (3,),
            "model.network.strides": (1,),
            "environment.frames": 2,
        },
    ),
    "table": lambda: QLearning(
        Grid, environment_options={"slip": 0.2}, steps=600, epoch_steps=300, settings={"evaluation.dev_episodes": 3}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_run_killed_within_episode_resumes_exactly(kind: str, tmp_path: Path) -> None:
    agent = KINDS[kind]()
    step = agent.config.model.train_every if kind != "table" else 100
    per_epoch = agent.config.epoch_steps // step
    settings = agent.config.training.model_copy(update={"save_every": max(1, per_epoch // 3)})
    kills = [per_epoch // 2 + 1, 2 * per_epoch]
    killed_anywhere_ends_the_same(lambda: make_task(agent), settings, tmp_path, kills)


def test_checkpoint_lies_within_an_episode(tmp_path: Path) -> None:
    """Otherwise the law above would not test the repetition of actions."""
    agent = make_dqn()
    train_agent(agent.config, tmp_path / "run", SilentReporter())
    saved = open_checkpoint(tmp_path / "run" / "last").training()
    assert len(saved["task:collector/actions"]) > 0
    assert "task:collector/observation" in saved


def test_run_resumed_for_longer_equals_one_long_run(tmp_path: Path) -> None:
    short, whole = make_dqn(steps=160), make_dqn(steps=360)
    train_agent(short.config, tmp_path / "short", SilentReporter())
    resumed = resume_agent(tmp_path / "short", SilentReporter(), {"max_epochs": 3})
    straight = train_agent(whole.config, tmp_path / "whole", SilentReporter())
    assert resumed.outcome.steps == straight.outcome.steps
    for name in ("last", "best"):
        one, two = (open_checkpoint(tmp_path / run / name) for run in ("short", "whole"))
        same_tensors(one.weights(), two.weights())
        same_tensors(one.training(), two.training())


class Clock(gymnasium.Env[Any, Any]):
    """An environment that is not deterministic: a counter that no seed resets."""

    ticks = 0

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 1e9, (1,)), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._see(), 0.0, False, Clock.ticks % 37 == 0, {}

    def _see(self) -> list[float]:
        Clock.ticks += 1
        return [float(Clock.ticks)]


def test_environment_that_is_not_deterministic_is_reported_or_begins_new_episode(tmp_path: Path) -> None:
    agent = make_dqn(Clock, settings={"evaluation.dev_episodes": 2, "environment.max_episode_steps": 50})
    folder = tmp_path / "run"
    train_agent(agent.config, folder, SilentReporter(), factory=Clock)
    with pytest.raises(CheckpointError, match=r"Clock is not deterministic: repeating the \d+ actions of episode"):
        resume_agent(folder, SilentReporter(), {"max_epochs": 3}, Clock)
    path = folder / "config.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("replay_actions = true", "replay_actions = false"), encoding="utf-8")
    assert resume_agent(folder, SilentReporter(), {"max_epochs": 3}, Clock).outcome.steps == 150


def test_changed_environment_is_reported(tmp_path: Path) -> None:
    train_agent(make_dqn().config, tmp_path / "run", SilentReporter())
    path = tmp_path / "run" / "config.toml"
    path.write_text(path.read_text().replace('name = "CartPole-v1"', 'name = "Acrobot-v1"'), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r'environment\.name must be "CartPole-v1", got "Acrobot-v1"'):
        resume_agent(tmp_path / "run", SilentReporter(), {"max_epochs": 9})


def test_weights_of_older_run_start_online_and_target_network(tmp_path: Path) -> None:
    first = make_dqn(target="average")
    train_agent(first.config, tmp_path / "old", SilentReporter())
    second = make_dqn(target="average", seed=7)
    task = make_task(second)
    open_checkpoint(tmp_path / "old").load_into(task.model)
    task.before_step(0)
    for target, online in zip(task.target.parameters(), task.network.parameters(), strict=True):  # type: ignore[attr-defined]
        assert torch.equal(target, online)
    run = fresh_run(tmp_path / "new")
    from catena.randomness import Randomness
    from catena.training.loop import train

    with pytest.raises(Killed):
        train(Doomed(task, 2, die), second.config.training, run, Randomness(5), SilentReporter(), save_start=True)
    assert open_checkpoint(run.path / "last").state()["training"]["step"] == 0


def test_curve_of_damaged_metrics_is_an_error(tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", "", seed=0)
    run.append_metrics({"step": 1, "tokens": 5, "scores": {"return": 1.0}})
    assert read_curve(run.path) == [{"return": 1.0, "environment_steps": 5}]
    (run.path / "metrics.jsonl").write_text("NaN\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl:1 is damaged"):
        read_curve(run.path)
