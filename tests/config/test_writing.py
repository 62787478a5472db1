"""A config becomes a commented file, and the file becomes the same config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from catena.config import Config, load, parse, to_toml
from tests.config.examples import (
    Color,
    Convolution,
    Early,
    Gru,
    House,
    Lstm,
    Optimizer,
    Plain,
    Point,
    Recurrent,
    read,
)

# No lone surrogates: they have no UTF-8. No "none": it means None in a file for an optional key.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
POINTS = st.builds(Point, x=st.integers(), y=FINITE)
PLAINS = st.builds(
    Plain,
    count=st.integers(min_value=1),
    share=FINITE,
    name=TEXTS,
    shuffle=st.booleans(),
    path=TEXTS.filter(lambda text: "\0" not in text).map(Path),
    color=st.sampled_from(Color),
    pooling=st.sampled_from(["max", "mean", "none"]),
    depth=st.sampled_from([1, 2, 4]),
    limit=st.none() | st.integers(),
    note=st.none() | TEXTS.filter(lambda text: text != "none"),
    length=st.integers() | st.just("auto"),
    amp=st.booleans() | st.just("auto"),
    windows=st.lists(st.integers(), max_size=4).map(tuple),
    rates=st.lists(FINITE, max_size=4),
    words=st.lists(TEXTS, max_size=4).map(tuple),
    files=st.lists(TEXTS.filter(lambda text: "\0" not in text).map(Path), max_size=2).map(tuple),
    unordered=st.frozensets(TEXTS, max_size=3),
    parts=st.lists(st.sampled_from(["dev", "test"]), max_size=2).map(tuple),
    sizes=st.integers() | st.lists(st.integers(), max_size=2).map(tuple),
    weights=st.dictionaries(TEXTS, FINITE, max_size=3),
    corner=st.lists(POINTS, max_size=2).map(tuple),
)


@given(config=PLAINS)
def test_every_type_of_field_round_trips(config: Plain, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_text(to_toml(config), encoding="utf-8", newline="\n")
    assert load(Plain, path) == config


@given(
    config=st.builds(
        House,
        seed=st.integers(),
        model=st.one_of(
            st.builds(Convolution, dropout=st.floats(0, 0.9)),
            st.builds(Recurrent, cell=st.builds(Lstm, peepholes=st.booleans()) | st.builds(Gru)),
        ),
        optimizer=st.builds(Optimizer, rate=FINITE, steps=st.none() | st.integers()),
        early=st.none() | st.builds(Early, patience=st.integers()),
    )
)
def test_sections_and_kinds_round_trip(config: House) -> None:
    text = to_toml(config)
    again = read(House, text)
    assert again == config
    assert to_toml(again) == text


def test_none_is_written_if_default_is_another_value() -> None:
    text = to_toml(Plain(limit=None))
    assert 'limit = "none"' in text
    assert read(Plain, text).limit is None


def test_none_is_a_plain_word_for_choices_and_strings() -> None:
    assert parse(Plain, {"pooling": "none", "name": "none"}).pooling == "none"
    assert parse(Plain, {"name": "none"}).name == "none"


def test_file_has_comment_for_each_key() -> None:
    lines = to_toml(House(), heading="A heading\n\nof two parts").splitlines()
    assert lines[:4] == ["# A heading", "#", "# of two parts", ""]
    assert lines[4:6] == ["# The one number that everything random depends on.", "seed = 0"]
    model = lines.index("[model]")
    assert lines[model - 3 : model + 2] == [
        "",
        "# What makes vectors of words.",
        "# Other kinds: recurrent.",
        "[model]",
        'kind = "convolution"',
    ]
    assert "# How weights move." in lines  # a section without a description takes its class's
    assert all(len(line) <= 110 for line in lines)


def test_choices_are_listed_in_comment() -> None:
    assert "# What becomes of the states. One of: max, mean, none.\npooling = " in to_toml(Plain())


def test_long_comments_are_wrapped() -> None:
    class Wordy(Config):
        x: int = Field(0, description="many words " * 40)

    lines = to_toml(Wordy()).splitlines()
    assert len(lines) > 3
    assert all(len(line) <= 110 for line in lines)


def test_value_without_toml_type_raises_error() -> None:
    class Odd(Config):
        x: Any = None

    with pytest.raises(TypeError, match=r"A config value must be a plain value, got 1j \(complex\)"):
        to_toml(Odd(x=1j))


def test_configs_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        House().seed = 3  # type: ignore[misc]
