"""``catena play``: training and showing an agent, and ``resume``, ``evaluate`` and ``inspect`` for its runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from catena.agents import load_agent
from tests.cli.conftest import Catena

GAME = """
from tests.agents.tiny import Grid as Maze
"""
SHORT = (
    *("--sizes", "8", "--batch-size", "8", "--capacity", "400", "--warmup", "50", "--epoch-steps", "100"),
    *("--dev-episodes", "2", "--test-episodes", "3", "--max-episode-steps", "20", "--device", "cpu"),
)


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "maze.py").write_text(GAME, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_play_trains_and_records_and_run_can_be_used(game: Path, catena: Catena) -> None:
    trained = catena("play", "maze:Maze", *SHORT, "--steps", "250", "-o", "run", "--record", "first.gif")
    assert trained.code == 0, trained.err
    assert "environment: maze:Maze, observations 16 states, 4 actions" in trained.out
    assert re.search(r"^test: return -\d+\.\d+, length \d+", trained.out, re.M)
    assert "recorded: first.gif, an episode of" in trained.out
    assert {"curves.svg", "config.toml", "metrics.jsonl"} <= {path.name for path in Path("run").iterdir()}

    shown = catena("play", "run", "--episodes", "2", "--record", "second.gif")
    assert shown.code == 0, shown.err
    assert re.match(r"episode 1: return -\d+, \d+ steps, (terminated|truncated)\nepisode 2: ", shown.out)
    assert Path("first.gif").read_bytes() == Path("second.gif").read_bytes()

    scored = catena("evaluate", "run", "--format", "json")
    assert len(json.loads(scored.out)["episodes"]) == 3
    assert catena("evaluate", "run").out.startswith("3 episodes, epsilon 0\nreturn -")
    assert "agent in maze:Maze: dense" in catena("inspect", "run").out

    longer = catena("resume", "run", "--max-epochs", "3")
    assert longer.code == 0, longer.err
    assert "resumed after step 100" in longer.out


def test_play_trains_a_table_for_several_seeds(game: Path, catena: Catena) -> None:
    words = ("--model", "table", "--epoch-steps", "300", "--steps", "600", "--max-episode-steps", "20")
    done = catena("play", "maze:Maze", *words, "--test-episodes", "3", "--seeds", "2", "-o", "runs", "-q")
    assert done.code == 0, done.err
    assert "test return: " in done.out
    assert set(json.loads(Path("runs/summary.json").read_text())["runs"]) == {"seed-0", "seed-1"}
    assert "contains 2 runs. Pass one of them, such as runs/seed-0" in catena("play", "runs").err


def test_train_play_is_the_same_command(game: Path, catena: Catena) -> None:
    done = catena("train", "-q", "play", "maze:Maze", *SHORT, "--steps", "150", "-o", "run")
    assert done.code == 0, done.err
    assert Path("run/best").exists()


def test_config_file_names_the_environment(game: Path, catena: Catena) -> None:
    assert catena("init", "play", "-o", "play.toml").code == 0
    text = Path("play.toml").read_text(encoding="utf-8")
    Path("play.toml").write_text(text.replace('name = "none"', 'name = "maze:Maze"'), encoding="utf-8")
    done = catena("play", "-c", "play.toml", *SHORT, "--steps", "150", "-q", "-o", "run")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("CartPole-v9",), 1, "Unknown environment 'CartPole-v9': did you mean 'CartPole-v1'"),
        ((), 2, "ENVIRONMENT is missing. Usage: catena play ENVIRONMENT"),
        (("Pendulum-v1",), 1, "The action space of Pendulum-v1 must be Discrete for Q-learning, got Box"),
        (("CartPole-v1", "--netwrk", "dense"), 2, "Unknown option --netwrk. Did you mean --network?"),
        (("CartPole-v1", "--steps", "10"), 1, "steps must be at least 6000, the warm-up and one epoch, got 10"),
        (("CartPole-v1", "--record", "x.avi"), 1, "A recording must end in .gif or .mp4, got 'x.avi'"),
        (("CartPole-v1", "--seeds", "2", "--record", "x.gif"), 2, "--record is for one agent. Remove --seeds"),
        (("CartPole-v1", "--discount", "2"), 1, "model.discount"),
    ],
)
def test_wrong_usage_is_one_sentence(
    game: Path, catena: Catena, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = catena("play", *words)
    assert done.code == code
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (game / "runs").exists()


def test_agents_are_not_predictors(game: Path, catena: Catena, tmp_path: Path) -> None:
    catena("play", "maze:Maze", *SHORT, "--steps", "150", "-q", "-o", "run")
    Path("x").write_text("x\n", encoding="utf-8")
    sentence = "run holds an agent, which acts in an environment. Use 'catena play run' or 'catena evaluate run'."
    for words in (("predict", "run"), ("evaluate", "run", "x"), ("draw", "run", "x"), ("generate", "run")):
        assert catena(*words).sentence == sentence
    assert catena("predict", "run", "--quantization", "int8").sentence == sentence


def test_training_starts_from_weights_and_config_of_a_run(game: Path, catena: Catena) -> None:
    catena("play", "maze:Maze", *SHORT, "--steps", "150", "-q", "-o", "first")
    words = ("--learning-rate", "1e-12", "--seed", "1", "-q", "-o", "second")
    done = catena("play", "--init-from", "first", *words)
    assert done.code == 0, done.err
    first, second = load_agent("first", "cpu"), load_agent("second", "cpu")
    assert second.config.environment == first.config.environment
    assert second.model is not None
    for name, weight in second.model.state_dict().items():
        torch.testing.assert_close(weight, first.model.state_dict()[name])  # type: ignore[union-attr]


def test_help_lists_options_of_the_model(catena: Catena) -> None:
    short = catena("play", "--help").out
    assert short == catena("train", "play", "--help").out == catena("train", "--help", "play").out
    assert len(short.splitlines()) <= 40
    assert "--network dense|convolution|recurrent" in short
    assert "--epsilon-steps N (default: 10000)" in catena("play", "--help-all").out


def test_evaluate_without_file_needs_an_agent(game: Path, catena: Catena) -> None:
    train = game / "train.tsv"
    train.write_text("a\tx\nb\ty\n" * 20, encoding="utf-8")
    assert catena("train", "classify", "train.tsv", "--model", "loglinear", "--max-epochs", "1", "-o", "run").code == 0
    done = catena("evaluate", "run")
    assert (done.code, done.sentence) == (2, "FILE is missing. Usage: catena evaluate RUN FILE [--options].")
    assert "must be a run of the task play, got a model of the task classify" in catena("play", "run").err
