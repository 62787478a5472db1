"""Configs for the tests: one with every type of field, one with sections and kinds."""

from __future__ import annotations

import tomllib
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator

from catena.cli.parser import CommandOptions, Section, UsageError, _split
from catena.config import Config, ConfigKey, override, parse
from catena.errors import ConfigError


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(Config):
    """A point."""

    x: int = 0
    """Across."""
    y: float = 0.0


class Plain(Config):
    """A field of every type that a config may have."""

    count: int = Field(3, gt=0)
    """How many."""
    share: float = 0.5
    name: str = "word"
    shuffle: bool = True
    """Whether the order changes."""
    path: Path = Path("data/train.tsv")
    color: Color = Color.RED
    pooling: Literal["max", "mean", "none"] = "max"
    """What becomes of the states."""
    depth: Literal[1, 2, 4] = 1
    limit: int | None = 5
    note: str | None = None
    length: int | Literal["auto"] = "auto"
    amp: bool | Literal["auto"] = "auto"
    windows: tuple[int, ...] = (3, 4, 5)
    rates: list[float] = Field(default_factory=lambda: [0.1, 0.2])
    words: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    unordered: frozenset[str] = frozenset()
    parts: tuple[Literal["dev", "test"], ...] = ("dev",)
    sizes: int | tuple[int, ...] = 7
    weights: dict[str, float] = Field(default_factory=dict)
    corner: tuple[Point, ...] = ()


class Lstm(Config):
    kind: Literal["lstm"] = "lstm"
    d_hidden: int = Field(8, gt=0)
    peepholes: bool = False


class Gru(Config):
    kind: Literal["gru"] = "gru"
    d_hidden: int = Field(8, gt=0)
    reset: Literal["before", "after"] = "after"


class Recurrent(Config):
    """Reads from left to right."""

    kind: Literal["recurrent"] = "recurrent"
    cell: Annotated[Lstm | Gru, Field(discriminator="kind")] = Lstm()
    """What a step does."""
    dropout: float = Field(0.0, ge=0, lt=1)


class Convolution(Config):
    """Looks through windows."""

    kind: Literal["convolution"] = "convolution"
    windows: tuple[int, ...] = (3, 4, 5)
    dropout: float = Field(0.5, ge=0, lt=1)


class Optimizer(Config):
    """How weights move."""

    rate: float = 0.001
    momentum: float = 0.9
    steps: int | None = None

    @model_validator(mode="after")
    def _momentum_needs_a_rate(self) -> Optimizer:
        if self.momentum > 1:
            raise ValueError(f"momentum must be at most 1, got {self.momentum}. Lower optimizer.momentum.")
        return self


class Early(Config):
    patience: int = 3


class House(Config):
    """A whole config, with sections inside sections."""

    seed: int = 0
    """The one number that everything random depends on."""
    model: Annotated[Recurrent | Convolution, Field(discriminator="kind")] = Convolution(windows=(2, 3))
    """What makes vectors of words."""
    optimizer: Optimizer = Optimizer(rate=0.1)
    early: Early | None = Early()


def message(schema: type[Config], data: dict[str, Any], text: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        parse(schema, data, text=text)
    return str(caught.value)


def split_flags(
    schema: type[Config], argv: list[str], data: dict[str, Any] | None = None
) -> tuple[list[tuple[ConfigKey, str]], list[str]]:
    """The keys of options with their texts, and the other words."""
    found = _split([Section(CommandOptions), Section(schema, data or {})], argv)
    if found.problems:
        raise UsageError(" ".join(found.problems))
    return found.given[1], found.positional


def flagged(schema: type[Config], line: str, data: dict[str, Any] | None = None) -> Any:
    taken, rest = split_flags(schema, line.split())
    assert rest == []
    return parse(schema, override(data or {}, taken))


def read(schema: type[Config], text: str) -> Any:
    return parse(schema, tomllib.loads(text), text=text)
