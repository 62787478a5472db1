"""The Python objects DQN and QLearning: fit, act, evaluate, record, plot, save and load."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

import catena
from catena.agents import DQN, Agent, QLearning, load_agent
from catena.agents.config import count_epochs
from catena.agents.dqn import check_replay_fits, format_bytes
from catena.agents.environment import episode_seed
from catena.agents.recording import check_recording, find_ffmpeg, write_mp4
from catena.errors import CheckpointError, ConfigError, DataError, MissingExtraError
from catena.training.report import LinesReporter
from tests.agents.tiny import Chain, Grid, make_dqn

SHORT = {"environment.max_episode_steps": 30, "evaluation.dev_episodes": 3, "evaluation.test_episodes": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent") / "run"
    make_dqn().fit(folder)
    return folder


def test_fit_without_folder_equals_fit_with_folder(run: Path) -> None:
    agent = make_dqn().fit()
    loaded = DQN.load(run, "cpu")
    assert agent.evaluate(5) == loaded.evaluate(5)
    assert agent.curve == loaded.curve
    assert agent.test is not None
    assert [episode.seed for episode in agent.test.episodes] == [episode_seed("test", i) for i in range(3)]


def test_act_plays_an_episode_like_evaluate(run: Path) -> None:
    agent = load_agent(run, "cpu")
    episode = agent.evaluate(1).episodes[0]
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=episode.seed)
    agent.begin()
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(agent.act(observation))
        total, ended = total + float(reward), terminated or truncated
    assert total == episode.total


def test_act_returns_actions_as_the_environment_numbers_them() -> None:
    agent = QLearning(Chain, steps=100, epoch_steps=100, settings=SHORT).fit()
    assert agent.act(0) in (5, 6)


def test_save_and_load_is_the_identity(run: Path, tmp_path: Path) -> None:
    agent = load_agent(run, "cpu")
    saved = agent.save(tmp_path / "saved")
    again = catena.load(saved, device="cpu")
    assert isinstance(again, DQN)
    assert again.config == agent.config
    observations = np.random.default_rng(0).normal(size=(20, 4))
    for observation in observations:
        assert np.array_equal(agent.q_values(observation), again.q_values(observation))


def test_trained_run_is_loaded_as_its_class(run: Path, tmp_path: Path) -> None:
    assert isinstance(catena.load(run, device="cpu"), DQN)
    with pytest.raises(CheckpointError, match=r"must be an agent of class QLearning, got DQN. Use DQN.load"):
        QLearning.load(run)
    table = QLearning(Grid, steps=500, epoch_steps=500, settings=SHORT)
    table.fit(tmp_path / "table")
    loaded = QLearning.load(tmp_path / "table", environment=Grid)
    assert np.array_equal(loaded.table, table.table)
    assert loaded.evaluate(3) == table.evaluate(3)


def test_class_of_a_module_is_found_by_its_name_after_loading(tmp_path: Path) -> None:
    QLearning(Grid, steps=500, epoch_steps=500, settings=SHORT).fit(tmp_path / "run")
    assert load_agent(tmp_path / "run").config.environment.name == "tests.agents.tiny:Grid"
    assert len(load_agent(tmp_path / "run").evaluate(2).episodes) == 2


def test_resume_trains_for_longer(run: Path, tmp_path: Path) -> None:
    make_dqn().fit(tmp_path / "run")
    agent = DQN.resume(tmp_path / "run", max_epochs=3)
    assert agent.config.training.max_epochs == 3
    assert [row["environment_steps"] for row in agent.curve] == [160, 260, 360]
    whole = make_dqn(steps=360).fit()
    assert agent.curve == whole.curve
    assert agent.evaluate(3) == whole.evaluate(3)


def test_untrained_agent_raises_error(tmp_path: Path) -> None:
    agent = make_dqn()
    assert repr(agent) == "DQN('CartPole-v1', not trained)"
    for use in (lambda: agent.act([0.0] * 4), agent.evaluate, lambda: agent.save(tmp_path / "x"), agent.begin):
        with pytest.raises(DataError, match=r"The agent is not trained. Call fit\(\) first"):
            use()  # type: ignore[operator]
    with pytest.raises(DataError, match="has no curve"):
        agent.plot()


def test_evaluation_plays_fixed_test_episodes(run: Path) -> None:
    agent = load_agent(run, "cpu")
    assert agent.evaluate(4).episodes[1:] == agent.evaluate(3, first=1).episodes
    with pytest.raises(ConfigError, match="episodes must be at least 1, got 0"):
        agent.evaluate(0)


def test_dev_and_test_episodes_differ_and_test_is_stored_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_dqn().fit(folder)
    DQN.resume(folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    tests = [row for row in rows if row.get("part") == "test"]
    assert len(tests) == 1
    assert tests[0]["return_low"] <= tests[0]["return"] <= tests[0]["return_high"]
    assert [set(row["scores"]) for row in rows if "scores" in row] == [
        {"return", "length", "training_return", "epsilon"}
    ] * 2


def test_report_states_memory_and_steps(tmp_path: Path) -> None:
    lines: list[str] = []
    make_dqn(capacity=100_000, steps=160).fit(reporter=LinesReporter(lines.append))
    assert "replay: 100,000 observations, 3.1 MB in memory and in each checkpoint" in lines
    assert "environment: CartPole-v1, observations float32 of shape (4,), 2 actions" in lines
    assert any("steps/s" in line for line in lines)


def test_replay_that_does_not_fit_is_reported_before_training() -> None:
    with pytest.raises(ConfigError, match=r"replay.capacity must fit into the memory .* got 1,000,000,000,000"):
        make_dqn(capacity=10**12).fit()
    check_replay_fits(1000, 10)
    assert [format_bytes(n) for n in (1_500, 2_350_000, 7_056_000_000)] == ["1.5 kB", "2.4 MB", "7.1 GB"]


def test_plot_has_evaluation_and_training_returns(run: Path) -> None:
    svg = load_agent(run, "cpu").plot().svg
    assert "evaluation (epsilon 0)" in svg
    assert "training episodes" in svg


def test_stop_at_ends_training_when_return_is_reached() -> None:
    agent = make_dqn(steps=460, stop_at=1.0).fit()
    assert len(agent.curve) == 1


def test_settings_and_wrong_options() -> None:
    assert make_dqn(settings={"exploration.epsilon_start": 0.5}).config.exploration.epsilon_start == 0.5
    with pytest.raises(ConfigError, match=r"model.network.sises"):
        make_dqn(settings={"model.network.sises": 3})
    with pytest.raises(ConfigError, match=r"steps must be at least 6000, the warm-up and one epoch, got 10"):
        DQN("CartPole-v1", steps=10)
    assert count_epochs(101_000, 5_000, 1_000) == 20


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"training.optimizer": "adam"}, r"training.optimizer must be 'sgd' for model.kind = 'table', got 'adam'"),
        ({"training.weight_decay": 0.1}, r"training.weight_decay must be 0.0 for model.kind = 'table', got 0.1"),
        ({"environment.frames": 2}, r"environment.frames do not apply to model.kind = 'table'"),
    ],
)
def test_table_rejects_options_that_change_its_update(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        QLearning(Grid, settings=settings)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"network": "recurrent", "settings": {"environment.frames": 2}}, r"environment.frames must be 1 for a recurr"),
        ({"capacity": 100}, r"replay.capacity must be at least 120, twice the warm-up"),
        ({"epoch_steps": 1, "steps": 200}, r"epoch_steps must be at least train_every = 2, got 1"),
        ({"network": "convolution", "settings": {"model.network.windows": (3,)}}, r"one value for each convolution"),
    ],
)
def test_network_options_that_do_not_fit_are_reported(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make_dqn(**options)


def test_convolution_of_a_vector_and_table_of_vectors_are_reported() -> None:
    with pytest.raises(ConfigError, match=r"network.kind must be 'dense' for observations of shape \(4,\)"):
        make_dqn(network="convolution").fit()
    with pytest.raises(ConfigError, match=r"model.kind must be 'dqn' for CartPole-v1, .* got 'table'"):
        QLearning("CartPole-v1").fit()


# --- recordings -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def player() -> Agent:
    return QLearning(Grid, steps=5_000, settings=SHORT).fit()


def test_gif_has_a_picture_for_each_step(player: Agent, tmp_path: Path) -> None:
    episode = player.record(tmp_path / "episode.gif", episode=1)
    assert episode == player.evaluate(1, first=1).episodes[0]
    with Image.open(tmp_path / "episode.gif") as image:
        assert (image.n_frames, image.size) == (episode.length + 1, (32, 32))
        assert image.info["duration"] == 100
    assert [path.name for path in tmp_path.iterdir()] == ["episode.gif"]


def test_fast_environment_skips_pictures_and_keeps_the_last(run: Path, tmp_path: Path) -> None:
    episode = load_agent(run, "cpu").record(tmp_path / "episode.gif")
    with Image.open(tmp_path / "episode.gif") as image:
        wanted = len(range(0, episode.length + 1, 2)) + (episode.length % 2)
        assert image.n_frames <= wanted  # equal neighbors are merged
        assert image.info["duration"] == 40


def test_wrong_recordings_are_one_sentence(player: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"A recording must end in .gif or .mp4, got 'x.avi'"):
        player.record(tmp_path / "x.avi")
    with pytest.raises(ConfigError, match=r"The folder of .* does not exist"):
        check_recording(tmp_path / "none" / "x.gif")
    monkeypatch.setattr("catena.agents.recording.find_ffmpeg", lambda: None)
    with pytest.raises(MissingExtraError, match=r"Writing MP4 needs ffmpeg.*or write a .gif"):
        player.record(tmp_path / "x.mp4")


def test_environment_without_pictures_is_reported(tmp_path: Path) -> None:
    agent = QLearning(Chain, steps=100, epoch_steps=100, settings=SHORT).fit()
    with pytest.raises(ConfigError, match=r"could not be made: TypeError.*render_mode"):
        agent.record(tmp_path / "x.gif")


def fake_ffmpeg(folder: Path, script: str) -> None:
    path = folder / "ffmpeg"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


def test_mp4_is_written_by_ffmpeg(player: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the program stores its arguments and its input."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    fake_ffmpeg(tmp_path, f'echo "$@" > {tmp_path}/arguments; for last; do :; done; cat > "$last"')
    assert find_ffmpeg() == str(tmp_path / "ffmpeg")
    episode = player.record(tmp_path / "x.mp4")
    assert "-s 32x32 -r 10" in (tmp_path / "arguments").read_text()
    assert (tmp_path / "x.mp4").stat().st_size == (episode.length + 1) * 32 * 32 * 3
    fake_ffmpeg(tmp_path, "cat > /dev/null; echo no such codec >&2; exit 1")
    with pytest.raises(DataError, match=r"ffmpeg could not write .*: no such codec. Write a .gif instead"):
        write_mp4([np.zeros((3, 5, 3), np.uint8)], 10.0, tmp_path / "y.mp4")
    assert not (tmp_path / "y.mp4").exists()
