"""``catena tune RUN|CONFIG --over KEY=VALUES…``, which searches for the best values of config options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from catena.cli.common import parse_plain
from catena.cli.parser import Arg, CommandOptions, UsageError, config_of_run


class TuneCommand(CommandOptions):
    """Search for the best values of config options, starting from the config of a run or a config file."""

    usage = "catena tune RUN|CONFIG --over KEY=VALUES… [--max-time TIME]"
    example = "catena tune runs/first --over learning_rate=0.0003..0.01 --over dropout_hidden=0.2,0.5 --max-time 10m"

    start: Annotated[Path, Arg("RUN|CONFIG", positional=True)]
    """Run folder, config file or name of a recipe, whose other options are kept. It must name its data files."""
    over: Annotated[tuple[str, ...], Arg("KEY=VALUES", repeat=True)] = ()
    """Option to vary, as KEY=A,B,C or KEY=LOW..HIGH (logarithmic). Repeat it for several options."""
    trials: int = Field(12, ge=1)
    """Maximum number of combinations. If all options are lists and fewer combinations exist, all are tried."""
    max_time: Annotated[str, Arg("TIME")] = "10m"
    """Time limit of the whole search, such as 10m."""
    seed: int = Field(0, ge=0)
    """Seed of the combinations."""
    output: Annotated[Path | None, Arg("FOLDER", "-o")] = None
    """Run folder of the best model. Default: the next free runs/TASK-tune-NUMBER."""
    overwrite: bool = False
    """Replace the run folder if it contains an older run."""
    quiet: Annotated[bool, Arg(short="-q")] = False
    """Print only the result."""


def run(argv: Sequence[str]) -> int:
    """Train the candidates and keep the best one as a run."""
    options = parse_plain(TuneCommand, argv)
    if not options.over:
        raise UsageError(f"--over is missing. Usage: {options.usage}.")

    from catena.cli.training import TrainRequest, run_search
    from catena.config import parse
    from catena.tasks.auto.ranges import combine, parse_range
    from catena.tasks.spec import read_spec

    path = _config_path(options.start)
    spec = read_spec(path)
    values = _values(path)
    values["training"] = {**values.get("training", {}), "max_time": options.max_time}
    config: Any = parse(spec.config_class(), values, source=str(path))
    ranges = [parse_range(text, spec.config_class(), values) for text in options.over]
    candidates = combine(spec, values, ranges, options.trials, options.seed)
    request = TrainRequest(spec, config, options, ("catena", "tune", *argv))
    return run_search(request, values, str(path), candidates)


def _config_path(start: Path) -> Path:
    from catena.recipes.catalog import find_config

    return config_of_run(start) if start.is_dir() else find_config(str(start))


def _values(path: Path) -> dict[str, Any]:
    """The values of a config file, without limits of the run that it belongs to."""
    from catena.config import read_toml

    values = read_toml(path)[0]
    training = {name: value for name, value in values.get("training", {}).items() if name != "max_time"}
    return {**values, "training": training}
