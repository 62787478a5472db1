"""Options of the commands that train. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from catena.cli.common import CommandLine
from catena.cli.parser import Arg, CommandOptions
from catena.config import read_toml
from catena.recipes.catalog import find_config

COMMON_GROUPS = {
    "Training": ("max_time", "max_epochs", "batch_size", "learning_rate", "optimizer", "metric"),
    "Run": ("output", "config", "init_from", "overwrite", "seeds", "seed", "device", "threads", "quiet"),
}


class TrainingOptions(CommandOptions):
    """Options of commands that train, other than the config of the task."""

    config: Annotated[Path | None, Arg("FILE", "-c")] = None
    """Config file (see 'catena init') or the name of a recipe. Options override its values."""
    output: Annotated[Path | None, Arg("FOLDER", "-o")] = None
    """Run folder. Default: the next free runs/TASK-MODEL-NUMBER."""
    overwrite: bool = False
    """Replace the run folder if it contains an older run."""
    init_from: Annotated[Path | None, Arg("RUN")] = None
    """Fine-tune: start from the weights of this run or checkpoint, with its config unless options override it."""
    seeds: int = Field(1, ge=1)
    """Train N models with consecutive seeds and report the mean and a confidence interval of their scores."""
    track: Annotated[str | None, Arg("NAME")] = None
    """Also log the curves to: tensorboard."""
    quiet: Annotated[bool, Arg(short="-q")] = False
    """Print only the result."""


def starting_point(line: CommandLine) -> tuple[dict[str, Any], str, str]:
    """The values that options override, with their text and the name of their source."""
    config, old = line.value("config"), line.value("init_from")
    if config is not None:
        path = find_config(config)
        data, text = read_toml(path)
        return data, text, str(path)
    if old is not None:
        path = config_of_run(Path(old))
        data, _ = read_toml(path)
        data.pop("data", None)  # a new run has its own files
        return data, "", str(path)
    return {}, "", "the command line"


def config_of_run(run: Path) -> Path:
    """The config file of a run."""
    from catena.checkpoint import CONFIG, open_checkpoint

    return open_checkpoint(run, lambda words: None).folder / CONFIG
