"""``catena play ENVIRONMENT``, which trains an agent, and ``catena play RUN``, which shows a trained one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import (
    COMMON_GROUPS,
    MachineOptions,
    TrainingOptions,
    parse_or_help,
    parse_plain,
    resolve_run_folder,
)
from catena.cli.parser import Arg, CommandLine, Section, UsageError, starting_point
from catena.config import parse
from catena.tasks.spec import get_spec

if TYPE_CHECKING:
    from catena.agents import Agent, Episode, PlayConfig, PlayEvaluation


class PlayCommand(TrainingOptions):
    """Train an agent in a Gymnasium environment. Given a run folder, show the trained agent."""

    usage = "catena play ENVIRONMENT [--options] or catena play RUN [--options]"
    example = "catena play CartPole-v1 --steps 50000 -o runs/cartpole"

    environment: Annotated[str | None, Arg("ENVIRONMENT", positional=True)] = None
    """Gymnasium environment, such as CartPole-v1, or module:Class. Given a run folder, the trained agent plays."""
    steps: int | None = Field(None, ge=1)
    """Environment steps of the training, rounded down to whole epochs."""
    record: Annotated[Path | None, Arg("FILE")] = None
    """Write an episode of the trained agent to this .gif or .mp4 file."""


class WatchCommand(MachineOptions):
    """Play test episodes with a trained agent."""

    usage = "catena play RUN [--options]"
    example = "catena play runs/cartpole --record episode.gif"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of an agent."""
    episodes: int = Field(5, ge=1)
    """Number of test episodes to play, without exploration."""
    record: Annotated[Path | None, Arg("FILE")] = None
    """Write the first episode to this .gif or .mp4 file."""
    show: bool = False
    """Show the episodes in a window."""
    format: Literal["text", "json"] = "text"
    """Output format: readable text, or one JSON object."""


_GROUPS = {
    "Play": ("environment", "steps", "max_episode_steps", "observe", "frames", "record"),
    "Model": get_spec("play").main_options,
    "Learning": ("epsilon_end", "epsilon_steps", "capacity", "warmup", "epoch_steps", "dev_episodes", "test_episodes"),
    **COMMON_GROUPS,
}


def run(argv: Sequence[str]) -> int:
    """Train an agent, or show a trained one if the first argument is a folder."""
    line = CommandLine(PlayCommand, argv)
    if line.first is not None and Path(line.first).is_dir():
        return _watch(argv)
    data, text, source = starting_point(line)
    spec = get_spec("play")
    section = Section(spec.config_class(), data, title="Config of the task play")
    options, (values,) = parse_or_help(line, [section], _GROUPS)
    if options.environment is not None:
        values = {**values, "environment": {**values.get("environment", {}), "name": options.environment}}
    config: Any = _with_steps(parse(spec.config_class(), values, source=source, text=text), options.steps)
    _check(options, config)

    from catena.cli.training import TrainRequest, next_folder, run_training

    folder = options.output or next_folder(f"play-{config.model.kind}")
    options = options.model_copy(update={"output": folder})
    code = run_training(TrainRequest(spec, config, options, ("catena", "play", *argv)))
    if code == 0 and options.record is not None:
        _record(folder, options.record)
    return code


def _with_steps(config: Any, steps: int | None) -> PlayConfig:
    """The config with the number of epochs in this number of environment steps."""
    if steps is None:
        return config
    from catena.agents.config import count_epochs

    replay = getattr(config.model, "replay", None)
    epochs = count_epochs(steps, config.epoch_steps, replay.warmup if replay else 0)
    return config.model_copy(update={"training": config.training.model_copy(update={"max_epochs": epochs})})


def _check(options: PlayCommand, config: PlayConfig) -> None:
    """Raise an error for what training could not use, before it begins."""
    if not config.environment.name:
        raise UsageError(f"ENVIRONMENT is missing. Usage: {PlayCommand.usage}.")
    if options.record is None:
        return
    if options.seeds > 1:
        raise UsageError("--record is for one agent. Remove --seeds, and record a run with 'catena play RUN'.")
    from catena.agents.recording import check_recording

    check_recording(options.record)


def _record(folder: Path, path: Path) -> None:
    from catena.agents import load_agent
    from catena.cli.training import print_line

    episode = load_agent(folder, "cpu").record(path)
    print_line(f"recorded: {path}, an episode of {episode.length} steps with return {episode.total:g}")


# --- trained agents ---------------------------------------------------------------------------------------------------


def _watch(argv: Sequence[str]) -> int:
    """Play episodes with a trained agent and print each."""
    options = parse_plain(WatchCommand, argv)
    agent = _load(options)
    if options.show:
        for i in range(options.episodes):
            _write_episode(i, agent.show(i))
        return 0
    if options.record is not None:
        episode = agent.record(options.record)
        sys.stderr.write(f"recorded: {options.record}, an episode of {episode.length} steps\n")
    result = agent.evaluate(options.episodes)
    if options.format == "text":
        for i, episode in enumerate(result.episodes):
            _write_episode(i, episode)
    _write_evaluation(result, options.format)
    return 0


def evaluate_agent(options: Any) -> int:
    """Print the scores of a trained agent on its test episodes. ``options`` has the run, the device and the format."""
    agent = _load(options)
    _write_evaluation(agent.evaluate(agent.config.evaluation.test_episodes), options.format)
    return 0


def _load(options: Any) -> Agent:
    from catena.agents import load_agent
    from catena.tasks.load import task_of_model
    from catena.training.device import set_threads

    folder = resolve_run_folder(options.run)
    if (task := task_of_model(folder)) != "play":
        raise UsageError(
            f"{folder} must be a run of the task play, got a model of the task {task}. Choose another run."
        )
    set_threads(options.threads)
    return load_agent(folder, options.device)


def _write_episode(i: int, episode: Episode) -> None:
    end = "terminated" if episode.terminated else "truncated"
    sys.stdout.write(f"episode {i + 1}: return {episode.total:g}, {episode.length} steps, {end}\n")


def _write_evaluation(result: PlayEvaluation, format: str) -> None:
    from catena.tasks.writing import to_json

    lines = [to_json(result.to_dict())] if format == "json" else result.lines()
    sys.stdout.write("\n".join(lines) + "\n")
