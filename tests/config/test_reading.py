"""Values become a config, completed by defaults, or one error that lists all problems."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from catena.config import Config, load, override, parse, read_toml
from catena.errors import ConfigError
from tests.config.examples import (
    Convolution,
    Early,
    Gru,
    House,
    Lstm,
    Optimizer,
    Plain,
    Recurrent,
    message,
    split_flags,
)


def test_partial_section_keeps_default_values() -> None:
    config = parse(House, {"optimizer": {"momentum": 0.5}, "model": {"dropout": 0.1}})
    assert config.optimizer == Optimizer(rate=0.1, momentum=0.5)
    assert config.model == Convolution(windows=(2, 3), dropout=0.1)


def test_section_of_another_kind_takes_no_default_values() -> None:
    assert parse(House, {"model": {"kind": "recurrent"}}).model == Recurrent()


def test_defaults_of_nested_sections_are_kept() -> None:
    class Inner(Config):
        model: Recurrent = Recurrent(cell=Gru(d_hidden=5, reset="before"), dropout=0.3)

    config = parse(Inner, {"model": {"cell": {"d_hidden": 6}}})
    assert config.model == Recurrent(cell=Gru(d_hidden=6, reset="before"), dropout=0.3)
    changed = parse(Inner, {"model": {"cell": {"kind": "lstm"}}})
    assert changed.model == Recurrent(cell=Lstm(), dropout=0.3)


def test_default_factory_gives_only_its_kind() -> None:
    class Made(Config):
        model: Annotated[Recurrent | Convolution, Field(discriminator="kind")] = Field(
            default_factory=lambda: Convolution(windows=(9,))
        )
        optimizer: Optimizer = Field(default_factory=lambda: Optimizer(rate=7.0))

    config = parse(Made, {"model": {"dropout": 0.1}, "optimizer": {"momentum": 0.5}})
    assert config.model == Convolution(dropout=0.1)
    assert config.optimizer == Optimizer(momentum=0.5)
    assert parse(Made, {}).optimizer.rate == 7.0


def test_parse_does_not_change_its_input() -> None:
    data = {"optimizer": {"momentum": 0.5}, "early": "none"}
    parse(House, data)
    assert data == {"optimizer": {"momentum": 0.5}, "early": "none"}


def test_optional_section_can_be_none() -> None:
    assert parse(House, {"early": "none"}).early is None
    assert parse(House, {}).early == Early()


def test_all_problems_are_reported_with_lines() -> None:
    text = """
seed = "many"
sed = 4

[model]
kind = "convolution"
dropout = 2
windos = [3]
cell = 3

[optimizer]
momentum = 7

[optimizr]
rate = 3
"""
    said = message(House, tomllib.loads(text), text)
    assert said.splitlines() == [
        "the config has 7 invalid values:",
        "  - seed (line 2) must be an integer, got 'many'.",
        "  - model.dropout (line 7) must be less than 1, got 2.",
        "  - model.windos (line 8) is not a known key: did you mean 'windows'?",
        "  - model.cell (line 9) is an option of 'recurrent', not of 'convolution'. Change model.kind or remove it.",
        "  - momentum must be at most 1, got 7.0. Lower optimizer.momentum (line 11).",
        "  - sed (line 3) is not a known key: did you mean 'seed'?",
        "  - optimizr (line 14) is not a known key: did you mean 'optimizer'?",
    ]


def test_single_problem_is_reported_on_one_line() -> None:
    assert message(House, {"seed": 0.5}).startswith("the config has an invalid value: seed must be an integer, got 0.5")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"model": {"kind": "recurent"}}, "model.kind is 'recurent': did you mean 'recurrent'?"),
        ({"model": {"kind": "xyz"}}, "model.kind is 'xyz': known are 'convolution', 'recurrent'."),
        (
            {"model": {"kind": "recurrent", "cell": {"kind": "gruu"}}},
            "model.cell.kind is 'gruu': did you mean 'gru'?",
        ),
        (
            {"model": {"kind": "recurrent", "cell": {"kind": "gru", "peepholes": True}}},
            "model.cell.peepholes is an option of 'lstm', not of 'gru'. Change model.cell.kind or remove it.",
        ),
        (
            {"model": {"kind": "recurrent", "cell": {"kind": "gru", "rest": "after"}}},
            "model.cell.rest is not a known key: did you mean 'reset'?",
        ),
        (
            {"model": {"kind": "recurrent", "cell": {"kind": "gru", "reset": "befor"}}},
            "model.cell.reset is 'befor': did you mean 'before'?",
        ),
        (
            {"model": {"kind": "recurrent", "cell": {"d_hidden": 0}}},
            "model.cell.d_hidden must be greater than 0, got 0.",
        ),
        ({"model": 3}, "model must be a section [model], got 3."),
        ({"optimizer": 3}, "optimizer must be a section [optimizer], got 3."),
        ({"optimizer": {"x": 1}}, "optimizer.x is not a known key: known are 'momentum', 'rate', 'steps'."),
        ({"optimizer": {"patience": 1}}, "optimizer.patience is not a known key: did you mean 'early.patience'?"),
    ],
)
def test_problems_inside_sections(data: dict[str, Any], sentence: str) -> None:
    assert message(House, data) == f"the config has an invalid value: {sentence}"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"pooling": "maxx"}, "pooling is 'maxx': did you mean 'max'?"),
        ({"depth": 3}, "depth is 3: known are '1', '2', '4'"),
        ({"parts": ["dev", "tset"]}, "parts[1] is 'tset': did you mean 'test'?"),
        ({"windows": [3, "x"]}, "windows[1] must be an integer, got 'x'"),
        ({"weights": {"a": "b"}}, "weights['a'] must be a number, got 'b'"),
        (
            {"length": "atuo"},
            "length must be an integer, got 'atuo': did",
        ),
        ({"share": float("nan")}, "share must be a finite number, got nan"),
        ({"name": "x" * 200, "count": "y" * 200}, f"count must be an integer, got '{'y' * 78}…"),
        ({"count": 0}, "count must be greater than 0, got 0"),
    ],
)
def test_problems_of_plain_keys(data: dict[str, Any], sentence: str) -> None:
    said = message(Plain, data)
    assert said.startswith(f"the config has an invalid value: {sentence}")
    assert re.search(r"[^.]\.$|\?$", said), "one mark ends the sentence"
    assert "\n" not in said


def test_missing_required_key_and_kind_are_reported() -> None:
    class Inside(Config):
        size: int

    class Required(Config):
        train: str
        inside: Inside
        model: Annotated[Recurrent | Convolution, Field(discriminator="kind")]

    text = "[inside]\n\n[model]\ndropout = 0.1\n"
    assert message(Required, tomllib.loads(text), text).splitlines()[1:] == [
        "  - train is required.",
        "  - inside.size (line 1) is required.",
        "  - model (line 3) must have a kind, one of 'recurrent', 'convolution'.",
    ]


def test_values_of_options_have_no_line() -> None:
    text = "seed = 3\n[optimizer]\nrate = 0.5\n"
    taken, _ = split_flags(House, ["--seed", "x", "--model.dropout", "7"])
    said = message(House, override(tomllib.loads(text), taken), text)
    assert "seed must be an integer, got 'x'" in said
    assert "model.dropout must be less than 1, got 7" in said
    assert "line" not in said


def test_lines_of_inline_tables_dotted_and_quoted_keys() -> None:
    # U+2028 ends a line for str.splitlines, and not in TOML.
    text = 'note = "a\u2028b"\n"count" = 0\npooling = "x"\n'
    assert re.findall(r"(\w+) \(line (\d)\)", message(Plain, tomllib.loads(text), text)) == [
        ("count", "2"),
        ("pooling", "3"),
    ]
    text = 'seed = 1\nmodel = {kind = "convolution", dropout = 4}\noptimizer.rate = "x"\n'
    assert re.findall(r"([\w.]+) \(line (\d)\)", message(House, tomllib.loads(text), text)) == [
        ("model.dropout", "2"),
        ("optimizer.rate", "3"),
    ]


def test_error_names_the_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\ufeffseed = 1.5\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=rf"^{re.escape(str(path))} has an invalid value: seed \(line 1\) must be an integer, got 1.5"
    ):
        load(House, path)


def test_unreadable_files_raise_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be a file, got the folder .*\. Use .*config\.toml"):
        read_toml(tmp_path)
    with pytest.raises(
        ConfigError, match=r"Config file not found: .*x\.toml\. Write one with 'catena init TASK -o .*x\.toml'"
    ):
        read_toml(tmp_path / "x.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'\n")
    with pytest.raises(ConfigError, match=r"Cannot read .*latin\.toml: .*0xe9.*\. Save it as UTF-8"):
        read_toml(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("x = \n")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML: .*line 1"):
        read_toml(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match=r"Cannot read the config file .*: "):
        read_toml(tmp_path / "bad.toml" / "inside")


class Fixed(Config):
    kind: Literal["fixed"] = "fixed"
    norm: Literal["pre", "post"] = "pre"


class WithOne(Config):
    """A section that always has the same kind."""

    kind: Literal["one"] = "one"
    part: Fixed = Fixed()


class WithTwo(Config):
    kind: Literal["two"] = "two"
    part: Annotated[Lstm | Gru, Field(discriminator="kind")] = Lstm()


class Either(Config):
    model: Annotated[WithOne | WithTwo, Field(discriminator="kind")] = WithOne()


def test_known_values_depend_on_outer_kinds() -> None:
    start = "the config has an invalid value: "
    wrong = {"model": {"kind": "one", "part": {"kind": "gru"}}}
    assert message(Either, wrong) == f"{start}model.part.kind is 'gru': known are 'fixed'."
    wrong = {"model": {"kind": "one", "part": {"norm": "after"}}}
    assert message(Either, wrong) == f"{start}model.part.norm is 'after': known are 'post', 'pre'."
    wrong = {"model": {"kind": "two", "part": {"kind": "fixed"}}}
    assert message(Either, wrong) == f"{start}model.part.kind is 'fixed': known are 'gru', 'lstm'."
