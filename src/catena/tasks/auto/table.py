"""The candidates of each task, read from ``candidates/TASK.toml``, and the default model for the size of the data.

    [[candidate]]
    name = "cnn"
    about = "convolutional network with 50 filters of each width"
    examples = [200, 100000]      # tried if the number of training examples is in this range; default: always
    words = [2, 1000]             # … and the mean number of words of an example is in this range
    characters = [0, 40]          # … and that of characters in this one
    kind = "span"                 # … and the data implies this kind of model, as trees do, or has this kind
    min_time = 30                 # … and the time limit is at least this many seconds
    default = [2000, 20000]       # numbers of examples for which it is trained if there is no time limit
    [candidate.config]            # options of the task's config
    model.kind = "cnn"
    model.convolution.filters = 50
    [candidate.vary]              # options to vary if the candidate is the best and there is time left
    "model.dropout_hidden" = "0.3..0.7"

A range includes its first value and excludes its last one. The first candidate of a file is the simplest model of the
task. ``rank_by`` at the top of a file names the score that compares candidates, if it is not the metric of the task.
A search sets the number of epochs and the learning rate schedule of networks itself.
Tested in tests/tasks/auto/test_table.py and test_default.py.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.config import parse
from catena.errors import CatenaError, ConfigError
from catena.tasks.spec import TaskSpec, get_spec

if TYPE_CHECKING:
    from catena.tasks.base import BaseTask

TABLES = Path(__file__).parent / "candidates"


Range = tuple[float, float]
_ALL: Range = (0.0, math.inf)
_SEARCHED: Mapping[str, Any] = {"max_epochs": 1000, "schedule": "constant"}
"""Training options of networks in a search, in which the time is the limit and the last steps decay the rate."""


@dataclass(frozen=True)
class DataSize:
    """The number of examples of train, dev and test, the words and characters of train, and whether a GPU is used."""

    n_train: int
    n_dev: int = 0
    n_words: int = 0
    has_gpu: bool = False
    n_test: int = 0
    n_characters: int = 0


@dataclass(frozen=True)
class Candidate:
    """A model to try.

    Args:
        name: its name in reports.
        about: what it is, in a few words.
        config: the options that differ from the defaults of the task, as nested values.
        examples: the range of the number of training examples for which it is tried.
        words: the range of the mean number of words of an example.
        characters: the range of the mean number of characters of an example.
        kind: the kind of model that the data must imply; empty for any.
        min_time: the smallest time limit in seconds.
        default: the range of the number of examples for which it is the default of the task.
        vary: options to vary if there is time left, with their values as in ``catena tune --over KEY=VALUES``.
    """

    name: str
    about: str
    config: Mapping[str, Any] = field(default_factory=dict)
    examples: Range = _ALL
    words: Range = _ALL
    characters: Range = _ALL
    kind: str = ""
    min_time: float = 0.0
    default: Range = (0.0, 0.0)
    vary: Mapping[str, str] = field(default_factory=dict)

    def suits(self, size: DataSize, kind: str, seconds: float) -> bool:
        """Whether it is tried for data of this size that implies a kind of model, and for this time limit."""
        return self._fits(size, kind) and _contains(self.examples, size.n_train) and seconds >= self.min_time

    def is_default(self, size: DataSize, kind: str) -> bool:
        """Whether it is the default for data of this size that implies a kind of model."""
        return self._fits(size, kind) and _contains(self.default, size.n_train)

    def _fits(self, size: DataSize, kind: str) -> bool:
        words, characters = (n / max(size.n_train, 1) for n in (size.n_words, size.n_characters))
        return _contains(self.words, words) and _contains(self.characters, characters) and self.kind in ("", kind)


def _contains(range: Range, value: float | int) -> bool:
    return range[0] <= value < range[1]


@cache
def _read_table(task: str) -> dict[str, Any]:
    path = TABLES / f"{task}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@cache
def read_candidates(task: str) -> tuple[Candidate, ...]:
    """All candidates of a task; empty if it has no table."""
    return tuple(_candidate(row) for row in _read_table(task).get("candidate", ()))


def read_ranking(task: str) -> str:
    """The score (higher is better) that compares candidates of a task; empty for its metric."""
    return str(_read_table(task).get("rank_by", ""))


def _candidate(row: Mapping[str, Any]) -> Candidate:
    ranges = {
        name: tuple(map(float, row[name])) for name in ("examples", "words", "characters", "default") if name in row
    }
    return Candidate(**{"config": {}, **row, **ranges, "min_time": float(row.get("min_time", 0))})


def suitable(
    spec: TaskSpec, values: Mapping[str, Any], size: DataSize, seconds: float, source: str = "the command line"
) -> list[tuple[Candidate, dict[str, Any]]]:
    """The candidates for the data and the time, with the config values of each, in which the user's values win.

    Args:
        spec: the task.
        values: the config values that the user set.
        size: the size of the data.
        seconds: the time limit.
        source: where the user's values come from, for errors.

    Raises:
        ConfigError: if the user's values fit none of them.
    """
    found: list[tuple[Candidate, dict[str, Any]]] = []
    configs: list[Any] = []
    problem: ConfigError | None = None
    kind = implied_kind(spec, values)
    for candidate in read_candidates(spec.name):
        if not candidate.suits(size, kind, seconds):
            continue
        merged = merge(_searched(candidate.config), values)
        try:
            config = parse(spec.config_class(), merged, source=source)
        except ConfigError as error:
            problem = problem or error
            continue
        if config not in configs:  # options of the user may make two candidates equal
            configs.append(config)
            found.append((candidate, merged))
    if not found and problem is not None:
        raise problem
    return found


def _searched(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return merge(config, {"training": _SEARCHED}) if "training" in config else config


def default_candidate(spec: TaskSpec, values: Mapping[str, Any], size: DataSize) -> Candidate | None:
    """The candidate that is the default of a task for the size of the data, or None."""
    kind = implied_kind(spec, values)
    return next((one for one in read_candidates(spec.name) if one.is_default(size, kind)), None)


def simplest_values(spec: TaskSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the simplest model that they fit, for data of any size; unchanged if they name or fit none."""
    kind = implied_kind(spec, values)
    for candidate in read_candidates(spec.name) if "model" not in values else ():
        merged = merge(candidate.config, values)
        with suppress(ConfigError):
            parse(spec.config_class(), merged)
            if candidate.kind in ("", kind):
                return merged
    return dict(values)


def implied_kind(spec: TaskSpec, values: Mapping[str, Any]) -> str:
    """The kind of the data, if the config of the task has one, or that of the task's default model for it."""
    config: Any = parse(spec.config_class(), values)
    return str(getattr(config, "data_kind", config.model.kind))


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values in which ``upper`` overrides ``lower``. A section of another kind replaces the whole section."""
    merged = dict(lower)
    for name, value in upper.items():
        below = lower.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and value.get("kind") in (None, below.get("kind")):
            merged[name] = merge(below, value)
        else:
            merged[name] = value
    return merged


# --- without a time limit ---------------------------------------------------------------------------------------------


def default_values(
    spec: TaskSpec, values: Mapping[str, Any], examples: Sequence[Any] | None = None
) -> tuple[dict[str, Any], str]:
    """The values with the default model for the size of the data, and a line that names it.

    Options that the user set win. The values are returned unchanged, with an empty line, if they name a model, if the
    task has no table, or if the data cannot be read twice.

    Args:
        spec: the task.
        values: the config values that the user set.
        examples: the training examples, instead of the files of the config.
    """
    unchanged = dict(values), ""
    if "model" in values or not any(candidate.default[1] for candidate in read_candidates(spec.name)):
        return unchanged
    try:
        config: Any = parse(spec.config_class(), values)
        if examples is not None:
            size = measure(spec.family(config), examples)
        elif all(path.is_file() for path in config.data.files().values()):
            size = count_examples(spec.name, values)
        else:
            return unchanged
        found = default_candidate(spec, values, size)
        if found is None or not size.n_train:
            return unchanged
        merged = merge(found.config, values)
        parse(spec.config_class(), merged)
    except CatenaError:  # training reports errors of the data; options of another model keep that model
        return unchanged
    n = f"{size.n_train:,} example{'s' * (size.n_train != 1)}"
    line = f"model: {found.name} ({found.about}), the default for {n}"
    return merged, line


def count_examples(task: str, values: Mapping[str, Any]) -> DataSize:
    """Count the examples of the files of a config, as the simplest candidate reads them, which may need no torch."""
    from catena.tasks.sources import Sources

    spec = get_spec(task)
    config: Any = parse(spec.config_class(), simplest_values(spec, values))
    family = spec.family(config)
    sources: Sources[Any] = Sources(family, config)
    size = measure(family, sources.read("train") if "train" in sources else ())
    n_dev, n_test = (sum(1 for _ in sources.read(part)) if part in sources else 0 for part in ("dev", "test"))
    return replace(size, n_dev=n_dev, n_test=n_test)


def measure(family: type[BaseTask[Any, Any, Any, Any]], examples: Iterable[Any]) -> DataSize:
    """The number of training examples, and of their words and characters."""
    n = n_words = n_characters = 0
    for text in map(family.split_key, examples):
        n, n_words, n_characters = n + 1, n_words + len(text.split()), n_characters + len(text)
    return DataSize(n, n_words=n_words, n_characters=n_characters)
