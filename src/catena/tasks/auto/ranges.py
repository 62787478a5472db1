"""Candidates from ranges of config options, for ``catena tune``.

    training.learning_rate=0.0003..0.01     a range: values are spread evenly on a logarithmic scale
    model.embedding.d=50,100,300            a list: all of its values occur equally often

Several options are combined as a Latin hypercube: each of them is spread evenly, in its own random order (McKay et al.
1979). If all are lists and their product is small enough, all combinations are candidates. Tested in
tests/tasks/auto/test_ranges.py.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.config import Config, parse
from catena.config.text import flag_table
from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.tasks.auto.table import Candidate, merge
from catena.tasks.spec import TaskSpec

_RANGE = re.compile(r"([^.].*?)\.\.(.+)")


@dataclass(frozen=True)
class OptionRange:
    """The values of a config option to try.

    Args:
        key: the dotted name of the option.
        choices: its values, or the two ends of a range.
        is_range: whether the values between the ends are tried too.
    """

    key: str
    choices: tuple[Any, ...]
    is_range: bool = False

    def spread(self, n: int, rng: np.random.Generator) -> list[Any]:
        """``n`` values that cover the range or the list evenly, in random order."""
        if not self.is_range:
            return [self.choices[i % len(self.choices)] for i in rng.permutation(n)]
        low, high = (math.log(end) for end in self.choices)
        points = np.exp(low + (high - low) * (rng.permutation(n) + rng.random(n)) / n)
        is_integer = all(isinstance(end, int) for end in self.choices)
        return [round(float(point)) if is_integer else float(f"{point:.3g}") for point in points]


def parse_range(text: str, schema: type[Config], config: Mapping[str, Any]) -> OptionRange:
    """The range in an option ``--over KEY=VALUES``.

    Args:
        text: the text ``KEY=A,B,C`` or ``KEY=LOW..HIGH``.
        schema: the class of the config, which has the key.
        config: the values of the config, whose kinds of models decide which short names it has.

    Raises:
        ConfigError: if the text has another form, or the key is unknown.
    """
    name, equals, values = text.partition("=")
    if not name or not equals or not values:
        raise ConfigError(f"--over must be KEY=VALUES, got {text!r}. Write learning_rate=0.001..0.01 or seed=0,1.")
    table = flag_table(schema, config)
    name = name.strip().replace("-", "_")
    if name not in table:
        raise ConfigError(f"Unknown config key {name} in --over. {did_you_mean(name, table)}")
    key = table[name].dotted
    if found := _RANGE.fullmatch(values):
        ends = (_value(found[1]), _value(found[2]))
        if not all(isinstance(end, int | float) and end > 0 for end in ends) or not ends[0] < ends[1]:
            raise ConfigError(f"--over {key} must be a range LOW..HIGH of positive numbers, got {values!r}. Use 1..10.")
        return OptionRange(key, ends, True)
    return OptionRange(key, tuple(map(_value, values.split(","))))


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text.strip()}")["x"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def combine(
    spec: TaskSpec, values: Mapping[str, Any], ranges: Sequence[OptionRange], n: int, seed: int
) -> list[tuple[Candidate, dict[str, Any]]]:
    """At most ``n`` candidates that differ in the options of the ranges, with their config values.

    Raises:
        ConfigError: if an option is unknown or a value is invalid.
    """
    rng = np.random.default_rng(seed)
    lists = [one.choices for one in ranges]
    if all(not one.is_range for one in ranges) and math.prod(map(len, lists)) <= n:
        rows = list(itertools.product(*lists))
    else:
        rows = list(dict.fromkeys(zip(*(one.spread(n, rng) for one in ranges), strict=True)))
    keys = [one.key for one in ranges]
    found = []
    for i, row in enumerate(rows):
        chosen: dict[str, Any] = {}
        for key, value in zip(keys, row, strict=True):
            chosen = merge(chosen, _nested(key, value))
        merged = merge(values, chosen)
        parse(spec.config_class(), merged, source="--over")
        about = ", ".join(f"{key} = {value}" for key, value in zip(keys, row, strict=True))
        found.append((Candidate(f"{i + 1:03d}", about, chosen), merged))
    return found


def _nested(key: str, value: Any) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    return value
