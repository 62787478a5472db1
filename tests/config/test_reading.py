"""Values become a config, filled from the defaults, or one error that lists everything that is wrong."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from catena.config import Config, load, override, parse, read_toml, split_flags
from catena.errors import ConfigError
from tests.config.examples import Convolution, Early, Gru, House, Lstm, Optimizer, Plain, Recurrent, message


def test_a_section_given_in_part_keeps_the_rest_of_its_default() -> None:
    config = parse(House, {"optimizer": {"momentum": 0.5}, "model": {"dropout": 0.1}})
    assert config.optimizer == Optimizer(rate=0.1, momentum=0.5)
    assert config.model == Convolution(windows=(2, 3), dropout=0.1)


def test_a_section_of_another_kind_takes_nothing_from_the_default() -> None:
    assert parse(House, {"model": {"kind": "recurrent"}}).model == Recurrent()


def test_defaults_of_sections_inside_sections_are_kept_too() -> None:
    class Inner(Config):
        model: Recurrent = Recurrent(cell=Gru(d_hidden=5, reset="before"), dropout=0.3)

    config = parse(Inner, {"model": {"cell": {"d_hidden": 6}}})
    assert config.model == Recurrent(cell=Gru(d_hidden=6, reset="before"), dropout=0.3)
    changed = parse(Inner, {"model": {"cell": {"kind": "lstm"}}})
    assert changed.model == Recurrent(cell=Lstm(), dropout=0.3)


def test_a_default_made_by_a_factory_gives_its_kind_alone() -> None:
    class Made(Config):
        model: Annotated[Recurrent | Convolution, Field(discriminator="kind")] = Field(
            default_factory=lambda: Convolution(windows=(9,))
        )
        optimizer: Optimizer = Field(default_factory=lambda: Optimizer(rate=7.0))

    config = parse(Made, {"model": {"dropout": 0.1}, "optimizer": {"momentum": 0.5}})
    assert config.model == Convolution(dropout=0.1)
    assert config.optimizer == Optimizer(momentum=0.5)
    assert parse(Made, {}).optimizer.rate == 7.0


def test_parsing_leaves_the_given_values_alone() -> None:
    data = {"optimizer": {"momentum": 0.5}, "early": "none"}
    parse(House, data)
    assert data == {"optimizer": {"momentum": 0.5}, "early": "none"}


def test_an_optional_section_can_be_turned_off() -> None:
    assert parse(House, {"early": "none"}).early is None
    assert parse(House, {}).early == Early()


def test_all_problems_are_reported_at_once_with_their_lines() -> None:
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
        "the config has 7 values that cannot be used:",
        "  - seed (line 2) is 'many': must be a whole number",
        "  - model.dropout (line 7) is 2: must be less than 1",
        "  - model.windos (line 8) is not a known key: did you mean 'windows'?",
        "  - model.cell (line 9) is a key of 'recurrent', not of 'convolution': change model.kind or leave it out",
        "  - momentum is 7.0, but must not exceed 1: lower optimizer.momentum (line 11)",
        "  - sed (line 3) is not a known key: did you mean 'seed'?",
        "  - optimizr (line 14) is not a known key: did you mean 'optimizer'?",
    ]


def test_one_problem_is_counted_as_one() -> None:
    assert message(House, {"seed": 0.5}).startswith("the config has a value that cannot be used: seed is 0.5: ")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"model": {"kind": "recurent"}}, "model.kind is 'recurent': did you mean 'recurrent'?"),
        ({"model": {"kind": "xyz"}}, "model.kind is 'xyz': known are 'convolution', 'recurrent'"),
        (
            {"model": {"kind": "recurrent", "cell": {"kind": "gruu"}}},
            "model.cell.kind is 'gruu': did you mean 'gru'?",
        ),
        (
            {"model": {"kind": "recurrent", "cell": {"kind": "gru", "peepholes": True}}},
            "model.cell.peepholes is a key of 'lstm', not of 'gru': change model.cell.kind or leave it out",
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
            "model.cell.d_hidden is 0: must be greater than 0",
        ),
        ({"model": 3}, "model is 3: must be a section, written [model]"),
        ({"optimizer": 3}, "optimizer is 3: must be a section, written [optimizer]"),
        ({"optimizer": {"x": 1}}, "optimizer.x is not a known key: known are 'momentum', 'rate', 'steps'"),
        ({"optimizer": {"patience": 1}}, "optimizer.patience is not a known key: did you mean 'early.patience'?"),
    ],
)
def test_problems_inside_sections(data: dict[str, Any], sentence: str) -> None:
    assert message(House, data) == f"the config has a value that cannot be used: {sentence}"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"pooling": "maxx"}, "pooling is 'maxx': did you mean 'max'?"),
        ({"depth": 3}, "depth is 3: known are '1', '2', '4'"),
        ({"parts": ["dev", "tset"]}, "parts[1] is 'tset': did you mean 'test'?"),
        ({"windows": [3, "x"]}, "windows[1] is 'x': must be a whole number"),
        ({"weights": {"a": "b"}}, "weights['a'] is 'b': must be a number"),
        (
            {"length": "atuo"},
            "length is 'atuo': must be a whole number, or did",
        ),
        ({"share": float("nan")}, "share is nan: must be a finite number"),
        ({"name": "x" * 200, "count": "y" * 200}, f"count is '{'y' * 78}…: must be a whole number"),
        ({"count": 0}, "count is 0: must be greater than 0"),
    ],
)
def test_problems_of_plain_keys(data: dict[str, Any], sentence: str) -> None:
    said = message(Plain, data)
    assert said.startswith(f"the config has a value that cannot be used: {sentence}")
    assert "\n" not in said


def test_a_required_key_must_be_given_and_a_required_kind_listed() -> None:
    class Inside(Config):
        size: int

    class Required(Config):
        train: str
        inside: Inside
        model: Annotated[Recurrent | Convolution, Field(discriminator="kind")]

    text = "[inside]\n\n[model]\ndropout = 0.1\n"
    assert message(Required, tomllib.loads(text), text).splitlines()[1:] == [
        "  - train must be given",
        "  - inside.size (line 1) must be given",
        "  - model (line 3) must have a kind, one of 'recurrent', 'convolution'",
    ]


def test_what_a_flag_set_carries_no_line_of_the_file() -> None:
    text = "seed = 3\n[optimizer]\nrate = 0.5\n"
    taken, _ = split_flags(House, ["--seed", "x", "--model.dropout", "7"])
    said = message(House, override(tomllib.loads(text), taken), text)
    assert "seed is 'x'" in said
    assert "model.dropout is 7" in said
    assert "line" not in said


def test_lines_are_found_in_inline_tables_dotted_and_quoted_keys_and_odd_texts() -> None:
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


def test_the_source_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\ufeffseed = 1.5\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))} has a value .*: seed \(line 1\) is 1.5: must be"):
        load(House, path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder, not a config file: name the file, such as .*config\.toml"):
        read_toml(tmp_path)
    with pytest.raises(
        ConfigError, match=r"there is no config file .*x\.toml: 'catena init TASK -o .*x\.toml' writes one"
    ):
        read_toml(tmp_path / "x.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'\n")
    with pytest.raises(ConfigError, match=r"latin\.toml cannot be read: .*0xe9.*; save it as UTF-8"):
        read_toml(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("x = \n")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML: .*line 1"):
        read_toml(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match=r"the config file .* cannot be read: "):
        read_toml(tmp_path / "bad.toml" / "inside")


class Fixed(Config):
    kind: Literal["fixed"] = "fixed"
    norm: Literal["pre", "post"] = "pre"


class WithOne(Config):
    """A part that is always of one kind."""

    kind: Literal["one"] = "one"
    part: Fixed = Fixed()


class WithTwo(Config):
    kind: Literal["two"] = "two"
    part: Annotated[Lstm | Gru, Field(discriminator="kind")] = Lstm()


class Either(Config):
    model: Annotated[WithOne | WithTwo, Field(discriminator="kind")] = WithOne()


def test_the_values_of_a_key_are_those_of_the_kinds_around_it() -> None:
    start = "the config has a value that cannot be used: "
    wrong = {"model": {"kind": "one", "part": {"kind": "gru"}}}
    assert message(Either, wrong) == f"{start}model.part.kind is 'gru': known are 'fixed'"
    wrong = {"model": {"kind": "one", "part": {"norm": "after"}}}
    assert message(Either, wrong) == f"{start}model.part.norm is 'after': known are 'post', 'pre'"
    wrong = {"model": {"kind": "two", "part": {"kind": "fixed"}}}
    assert message(Either, wrong) == f"{start}model.part.kind is 'fixed': known are 'gru', 'lstm'"
