"""One parse of a command line by the tables of all its sections."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from catena.cli.parser import Arg, CommandLine, CommandOptions, Section, UsageError, parse_command
from catena.config import Config


class Small(Config):
    """A small model."""

    kind: Literal["small"] = "small"
    """The model."""
    width: int = Field(3, gt=0)
    """Its width."""


class Large(Config):
    """A large model."""

    kind: Literal["large"] = "large"
    """The model."""
    depth: int = 2
    """Its depth."""
    width: int = 9
    """Its width."""


class Task(Config):
    """A task."""

    rate: float = 0.1
    """The rate."""
    names: tuple[str, ...] = ()
    """Names."""
    fast: bool = False
    """Whether it is fast."""
    model: Annotated[Small | Large, Field(discriminator="kind")] = Small()
    """The model."""
    decoder: Small = Small()
    """The decoder."""


class Command(CommandOptions):
    """A command."""

    usage = "catena test RUN [FILES…]"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """The run."""
    files: Annotated[tuple[str, ...], Arg("[FILES…]", positional=True)] = ()
    """The files."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """The output."""
    text: Annotated[tuple[str, ...], Arg("TEXT", repeat=True)] = ()
    """Texts."""
    n: int = Field(1, ge=1)
    """A number."""
    quiet: Annotated[bool, Arg(short="-q")] = False
    """Whether it is quiet."""


def parse(*argv: str) -> tuple[Command, dict]:
    options, (values,) = parse_command(Command, argv, [Section(Task)])
    return options, values


def test_options_of_command_and_task_mix_in_any_order() -> None:
    options, values = parse("run", "--rate", "0.5", "a.txt", "-o", "x", "--fast", "b.txt", "--n=3", "-q")
    assert (options.run, options.files, options.output, options.n) == (Path("run"), ("a.txt", "b.txt"), Path("x"), 3)
    assert options.quiet
    assert values == {"rate": 0.5, "fast": True}


def test_option_of_a_kind_is_known_once_the_kind_is_chosen() -> None:
    assert parse("run", "--depth", "4", "--model", "large")[1] == {"model": {"kind": "large", "depth": 4}}
    with pytest.raises(UsageError, match=r"Unknown option --depth. Did you mean --model.depth\?"):
        parse("run", "--depth", "4")


def test_number_of_results_is_suggested_by_its_other_name() -> None:
    with pytest.raises(UsageError, match=r"Unknown option --n-best. Did you mean --n\?"):
        parse("run", "--n-best", "4")


def test_ambiguous_option_is_set_by_the_end_of_its_path() -> None:
    values = parse("run", "--decoder-width", "5", "--model-width", "6", "--decoder.width", "7")[1]
    assert values == {"decoder": {"width": 7}, "model": {"width": 6}}


def test_repeated_option_keeps_commas_and_list_option_is_split_at_them() -> None:
    options, values = parse("run", "--text", "a, b", "--text", "c", "--names", "x,y", "--names", "z")
    assert options.text == ("a, b", "c")
    assert values == {"names": ["x", "y", "z"]}


def test_switch_is_turned_off_by_no() -> None:
    assert parse("run", "--no-fast")[1] == {"fast": False}
    with pytest.raises(UsageError, match=r"--no-fast takes no value, got 'true'. Remove it."):
        parse("run", "--no-fast=true")


def test_words_after_two_hyphens_are_positional() -> None:
    assert parse("run", "--", "--fast", "-x")[0].files == ("--fast", "-x")


def test_set_takes_a_config_key() -> None:
    assert parse("run", "-s", "model.width=4")[1] == {"model": {"width": 4}}
    with pytest.raises(UsageError, match=r"Unknown config key raet. Did you mean rate\?"):
        parse("run", "-s", "raet=4")
    with pytest.raises(UsageError, match=r"-s must be followed by key=value, got nothing. Write -s seed=3"):
        parse("run", "-s")


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(UsageError) as error:
        parse("run", "--raet", "3", "--outptu", "y", "-z")
    assert str(error.value) == (
        "Unknown option --raet. Did you mean --rate? Unknown option --outptu. Did you mean --output? "
        "Unknown option -z. See --help."
    )


def test_unknown_option_given_twice_is_reported_once() -> None:
    with pytest.raises(UsageError) as error:
        parse("run", "-z", "-z")
    assert str(error.value) == "Unknown option -z. See --help."


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "RUN is missing. Usage: catena test RUN [FILES…]."),
        (("run", "--n", "0"), "--n must be 1 or more, got 0. See --help."),
        (("run", "--n", "x"), "--n must be an integer, got 'x'. See --help."),
        (("run", "--rate"), "--rate requires a value: float. Add one."),
    ],
)
def test_invalid_value_is_named_as_the_user_wrote_it(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(*argv)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        (("a", "b"), "a"),
        (("-o", "x", "a"), "a"),
        (("--n", "3", "-q", "a"), "a"),
        (("--n=3", "a"), "a"),
        (("--unknown", "x", "a"), "a"),
        (("--unknown", "a"), "a"),
        (("--quiet",), None),
    ],
)
def test_first_argument_is_found_before_the_options_of_the_task_are_known(
    argv: tuple[str, ...], first: str | None
) -> None:
    assert CommandLine(Command, argv).first == first
