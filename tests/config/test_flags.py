"""Command line options that set the keys of a config."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from catena.cli.parser import UsageError
from catena.config import Config, ConfigKey, flag_table, override, parse
from catena.config.text import format_options, parse_options
from catena.errors import ConfigError
from tests.config.examples import (
    Color,
    Convolution,
    Early,
    Gru,
    House,
    Lstm,
    Optimizer,
    Plain,
    Recurrent,
    flagged,
    split_flags,
)


def test_flag_table_has_short_names_that_are_unambiguous() -> None:
    table = flag_table(House)
    assert table["model"].dotted == "model.kind"  # --model cnn
    assert table["model.cell"].dotted == "model.cell.kind"
    assert table["rate"].dotted == "optimizer.rate"
    assert table["patience"].dotted == "early.patience"
    assert "kind" not in table  # model.kind or model.cell.kind?
    assert "" not in table

    class Twice(Config):
        rate: float = 1.0
        optimizer: Optimizer = Optimizer()

    assert flag_table(Twice)["rate"].dotted == "rate"
    assert flag_table(Lstm).keys() == {"kind", "d_hidden", "peepholes"}


def test_short_names_belong_to_selected_kinds() -> None:
    assert flag_table(House)["windows"].dotted == "model.windows"  # convolution is the default
    assert "peepholes" not in flag_table(House)
    chosen = flag_table(House, {"model": {"kind": "recurrent"}})
    assert chosen["cell"].dotted == "model.cell.kind"
    assert chosen["peepholes"].dotted == "model.cell.peepholes"
    assert "windows" not in chosen
    assert "reset" in flag_table(House, {"model": {"kind": "recurrent", "cell": {"kind": "gru"}}})


def test_short_name_belongs_to_highest_key() -> None:
    class Deep(Config):
        optimizer: Optimizer = Optimizer()
        inner: House = House()

    assert flag_table(Deep)["rate"].dotted == "optimizer.rate"
    assert flag_table(Deep)["seed"].dotted == "inner.seed"

    class Twins(Config):
        one: Optimizer = Optimizer()
        two: Optimizer = Optimizer()

    assert "rate" not in flag_table(Twins)


def test_short_names_follow_kinds_of_other_options() -> None:
    for line in ("--model recurrent --cell gru --reset before", "--reset before --cell gru --model recurrent"):
        assert flagged(House, line).model == Recurrent(cell=Gru(reset="before"))
    settings = "-s reset=before -s cell=gru -s model=recurrent"
    assert flagged(House, settings).model == Recurrent(cell=Gru(reset="before"))
    taken, rest = split_flags(House, ["--peepholes"], {"model": {"kind": "recurrent"}})
    assert [(key.dotted, text) for key, text in taken] == [("model.cell.peepholes", "true")]
    assert rest == []
    with pytest.raises(UsageError, match=r"Unknown option --peepholes\. Did you mean --model\.cell\.peepholes\?"):
        split_flags(House, ["--peepholes"])


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("--count 4", "count", 4),
        ("--count=4", "count", 4),
        ("-s count=4", "count", 4),
        ("--set count=4", "count", 4),
        ("--count 1_000", "count", 1000),
        ("--count 4 --count 5", "count", 5),
        ("--share -0.25", "share", -0.25),
        ("--share -1e-3", "share", -0.001),
        ("--share .5", "share", 0.5),
        ("--limit -5", "limit", -5),
        ("--limit none", "limit", None),
        ("--limit None", "limit", None),
        ("--limit=", "limit", None),
        ("--note none", "note", None),
        ("--note nine", "note", "nine"),
        ("--name none", "name", "none"),
        ("--name 3", "name", "3"),
        ("--name true", "name", "true"),
        ("--name=-x", "name", "-x"),
        ("--name=a=b", "name", "a=b"),
        ("--name -", "name", "-"),
        ("--name=", "name", ""),
        ("-s name=a-b", "name", "a-b"),
        ("--path 2024-01-01", "path", Path("2024-01-01")),
        ("--path 7", "path", Path("7")),
        ("--color blue", "color", Color.BLUE),
        ("--pooling none", "pooling", "none"),
        ("--depth 4", "depth", 4),
        ("--length 12", "length", 12),
        ("--length auto", "length", "auto"),
        ("--shuffle", "shuffle", True),
        ("--shuffle true", "shuffle", True),
        ("--shuffle False", "shuffle", False),
        ("--shuffle=false", "shuffle", False),
        ("--no-shuffle", "shuffle", False),
        ("--no_shuffle", "shuffle", False),
        ("-s shuffle=no", "shuffle", False),
        ("--amp", "amp", True),
        ("--amp auto", "amp", "auto"),
        ("--amp false", "amp", False),
        ("--no-amp", "amp", False),
        ("--windows 3,4,5", "windows", (3, 4, 5)),
        ("--windows 7", "windows", (7,)),
        ("--windows [3,4,5]", "windows", (3, 4, 5)),
        ("--windows -3,4", "windows", (-3, 4)),
        ("--windows=", "windows", ()),
        ("--windows []", "windows", ()),
        ("--rates 0.5,1", "rates", [0.5, 1.0]),
        ("--words a,b", "words", ("a", "b")),
        ("--words [a,b]", "words", ("a", "b")),
        ('--words ["a,b","c"]', "words", ("a,b", "c")),
        ("--words 1,2", "words", ("1", "2")),
        ("--files 1,b", "files", (Path("1"), Path("b"))),
        ("--unordered a,b", "unordered", frozenset({"a", "b"})),
        ("--parts dev,test", "parts", ("dev", "test")),
        ("--sizes 3", "sizes", 3),
        ("--sizes 3,4", "sizes", (3, 4)),
        ("--weights {a=1,b=2.5}", "weights", {"a": 1.0, "b": 2.5}),
    ],
)
def test_option_sets_value(line: str, name: str, value: object) -> None:
    got = getattr(flagged(Plain, line), name)
    assert got == value
    assert type(got) is type(value)


def test_lists_may_contain_blanks() -> None:
    taken, rest = split_flags(Plain, ["--windows", "[3, 4, 5]", "--words", "a, b"])
    assert rest == []
    assert parse(Plain, override({}, taken)).windows == (3, 4, 5)
    assert parse(Plain, override({}, taken)).words == ("a", "b")


def test_lists_of_strings_are_concatenated_and_others_replaced() -> None:
    words = ["--words", "a", "--windows", "3,4", "--words=b,c", "--windows", "5", "-s", "words=d"]
    read = parse(Plain, override({"words": ["old"]}, split_flags(Plain, words)[0]))
    assert read.words == ("a", "b", "c", "d")
    assert read.windows == (5,)


def test_value_with_line_break_is_rejected() -> None:
    taken, _ = split_flags(Plain, ["--count", "1\nname = 2"])
    with pytest.raises(ConfigError, match="count must be an integer, got '1\\\\nname = 2'"):
        parse(Plain, override({}, taken))


def test_hyphens_and_dots_in_names() -> None:
    config = flagged(
        House,
        "--model recurrent --model.cell.d-hidden 4 --peepholes --no-model.cell.peepholes --early.patience 9",
    )
    assert config == House(model=Recurrent(cell=Lstm(d_hidden=4, peepholes=False)), early=Early(patience=9))


def test_boolean_option_does_not_consume_next_word() -> None:
    taken, rest = split_flags(Plain, ["--shuffle", "train.tsv", "--amp", "dev.tsv"])
    assert [(key.dotted, text) for key, text in taken] == [("shuffle", "true"), ("amp", "true")]
    assert rest == ["train.tsv", "dev.tsv"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--count", "--count requires a value: int"),
        ("--count --share 3", "--count requires a value: int"),
        ("--count -o", "--count requires a value: int"),
        ("--count --", "--count requires a value: int"),
        ("--limit", "--limit requires a value: int or none"),
        ("--pooling", "--pooling requires a value: one of max, mean, none"),
        ("--no-shuffle=true", "--no-shuffle takes no value, got 'true'. Remove it."),
        ("-s", "-s must be followed by key=value, got nothing"),
        ("--set count", "--set must be followed by key=value, got 'count'"),
        ("-s cuont=3", "Unknown config key cuont. Did you mean count?"),
        ("-s no-shuffle=1", "Unknown config key no_shuffle. Did you mean shuffle?"),
    ],
)
def test_invalid_options_raise_error(line: str, sentence: str) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(sentence)):
        split_flags(Plain, line.split())


def test_key_of_another_section_is_suggested() -> None:
    with pytest.raises(UsageError, match=r"^Unknown config key optimizer\.patience\. Did you mean "):
        split_flags(House, ["-s", "optimizer.patience=3"])


def test_kind_without_value_raises_error() -> None:
    with pytest.raises(UsageError, match=r"--model\.kind requires a value: one of recurrent, convolution"):
        split_flags(House, ["--model"])


def test_new_kind_drops_old_values_in_any_order() -> None:
    file = {"model": {"kind": "convolution", "windows": [2]}}
    for line in ("--model recurrent --dropout 0.25", "--dropout 0.25 --model recurrent"):
        assert flagged(House, line, file).model == Recurrent(dropout=0.25)
    nested = "--model.cell.reset before --model.cell gru --model recurrent"
    assert flagged(House, nested, file).model == Recurrent(cell=Gru(reset="before"))


def test_same_kind_keeps_values() -> None:
    file = {"model": {"kind": "convolution", "windows": [2]}}
    assert flagged(House, "--model convolution", file).model == Convolution(windows=(2,))


def test_override_copies() -> None:
    data = {"optimizer": {"rate": 1.0}, "early": "none"}
    taken, _ = split_flags(House, ["--rate", "2", "--patience", "4"])
    assert override(data, taken) == {"optimizer": {"rate": 2}, "early": {"patience": 4}}
    assert data == {"optimizer": {"rate": 1.0}, "early": "none"}


def test_option_inside_plain_value_raises_error() -> None:
    taken, _ = split_flags(House, ["--rate", "2"])
    with pytest.raises(
        ConfigError,
        match=r"optimizer must be a section \[optimizer\] to set --optimizer\.rate, got 3",
    ):
        override({"optimizer": 3}, taken)


def test_config_key_from_path_and_field() -> None:
    key = ConfigKey(("a", "b"), Plain.model_fields["count"])
    assert key.dotted == "a.b"
    assert (key.is_text, key.is_list, key.is_switch, key.is_optional) == (False, False, False, False)


def test_options_of_calls_are_toml_values_or_strings() -> None:
    values = {"slip": 0.5, "n": 3, "flag": True, "map_name": "4x4"}
    assert parse_options(format_options(values), "options", "n=3") == values
