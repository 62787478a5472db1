"""Flags from typed values: each verb has a frozen dataclass whose docstrings are its help; tyro reads it.

Flags that set a key of a task's config are taken out first (:func:`take_keys`), so that a mistake in any flag is
answered with the nearest name among all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import tyro

from catena.cli.help import config_help
from catena.cli.usage import UsageError
from catena.config import Config, ConfigKey, flag_table, keys, split_flags
from catena.errors import ConfigError
from catena.registry import nearest

F = TypeVar("F")


def arg(metavar: str | None = None, *aliases: str, name: str | None = None, shown: str = "") -> Any:
    """How a flag is written in the help: what it takes, its short names, and what it is if it is not given."""
    return tyro.conf.arg(metavar=metavar, aliases=list(aliases) or None, name=name, help_behavior_hint=shown)


@dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """Flags of every verb that runs a model."""

    device: Annotated[str, arg("DEVICE", shown="(default: auto)")] = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""
    threads: Annotated[int | None, arg("N", shown="(default: all cores)")] = None
    """CPU threads."""
    seed: Annotated[int, arg("N", shown="(default: 0)")] = 0
    """The seed of everything that is drawn at random."""

    def __post_init__(self) -> None:
        check_minimum("--threads", self.threads, 1)
        check_minimum("--seed", self.seed, 0)


def check_minimum(flag: str, value: int | float | None, least: int) -> None:
    """Refuse a number that is too small, or none at all."""
    if value is not None and not least <= value < math.inf:
        raise UsageError(f"{flag} must be {least} or more, and is {value}")


# --- reading ----------------------------------------------------------------------------------------------------------


def take_keys(
    schema: type[Config], flags: type, words: Sequence[str], data: Mapping[str, Any] | None = None
) -> tuple[list[tuple[ConfigKey, str]], list[str]]:
    """Take the flags that set config keys out of a command line: (key, text) pairs, and what remains.

    A short name of a key that only other kinds of a section have is spelled out, so that the config can say why it
    does not fit.
    """
    own = flag_names(flags)
    try:
        taken, rest = split_flags(schema, words, data)
        lost = {name: full[0] for name in _unknown(rest, own) if len(full := _spelled_out(schema, name)) == 1}
        if lost:
            words = [_renamed(word, lost) for word in words]
            taken, rest = split_flags(schema, words, data)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    return taken, rest


def parse_flags(
    flags: type[F],
    words: Sequence[str],
    usage: str,
    description: str,
    config: type[Config] | None = None,
    data: Mapping[str, Any] | None = None,
) -> F:
    """Read a verb's flags, or raise :class:`UsageError`; ``--help`` prints the help and leaves by SystemExit.

    Args:
        flags: the verb's dataclass.
        words: the command line behind the verb, without flags that set config keys.
        usage: the shape of the command, such as "catena evaluate RUN FILE".
        description: what the verb does.
        config: the config whose keys are flags too, for the help and for the nearest names.
        data: the values that those flags were put over.
    """
    prog = " ".join(word for word in usage.split(" or ")[0].split() if word.islower() and word.isalpha())
    if "--help" in words or "-h" in words:
        with contextlib.suppress(SystemExit):
            tyro.cli(flags, args=["--help"], prog=prog, description=description, config=_STYLE)
        if config is not None:
            sys.stdout.write("\n".join(config_help(config, data or {})) + "\n")
        raise SystemExit(0)
    words = [word.replace("_", "-") if word.startswith("--") and "=" not in word else word for word in words]
    _check_names(flags, words, prog, config, data)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return tyro.cli(flags, args=words, prog=prog, description=description, config=_STYLE)
    except SystemExit:
        raise UsageError(_sentence(said.getvalue(), usage)) from None


_STYLE = (tyro.conf.FlagCreatePairsOff,)


def flag_names(flags: type) -> set[str]:
    """The names of a verb's own flags, without the leading hyphens; underscores inside."""
    renamed = getattr(flags, "RENAMED", {})
    return {renamed.get(field.name, field.name) for field in _options(flags)} | _aliases(flags).keys()


def _aliases(flags: type) -> dict[str, str]:
    """The other long names of a verb's flags, underscores inside, with the fields that they stand for."""
    found = {}
    hints = typing.get_type_hints(flags, include_extras=True)
    for field in _options(flags):
        for part in typing.get_args(hints[field.name]):
            for alias in getattr(part, "aliases", None) or ():
                if alias.startswith("--"):
                    found[alias[2:].replace("-", "_")] = field.name
    return found


def _options(flags: type) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(flags) if "Positional" not in str(field.type)]


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The long flags of a command line: each with its name, underscores inside."""
    for word in words:
        if word == "--":
            return
        if word.startswith("--"):
            yield word, word[2:].partition("=")[0].replace("-", "_")


def _unknown(words: Sequence[str], own: set[str]) -> list[str]:
    return [name for _, name in _given(words) if name not in own]


def _spelled_out(schema: type[Config], name: str) -> list[str]:
    """The whole names of the keys, of any kind of section, that end in a name, or in the last part of it."""
    return list(dict.fromkeys(key.dotted for key in keys(schema) if key.path[-1] == name.split(".")[-1]))


def _renamed(word: str, names: Mapping[str, str]) -> str:
    name, equals, value = word[2:].partition("=")
    full = names.get(name.replace("-", "_")) if word.startswith("--") and "." not in name else None
    return f"--{full}{equals}{value}" if full else word


def _check_names(
    flags: type, words: Sequence[str], prog: str, config: type[Config] | None, data: Mapping[str, Any] | None
) -> None:
    """Refuse unknown flags, all at once, each with the nearest known one; and a value for a switch."""
    own = flag_names(flags)
    switches = {field.name for field in _options(flags) if "bool" in str(field.type)}
    names = own | set(flag_table(config, data) if config else ())
    problems = []
    for word, name in _given(words):
        if name not in own:
            same = _spelled_out(config, name) if config else []
            near = [f"--{n.replace('_', '-')}" for n in (same or nearest(name, names))[:3]]
            if name in ("json", "jsonl") and not same and "format" in own:
                near = [f"--format {form}" for form in (name, "json", "jsonl") if form in _forms(flags)][:1] or near
            hint = f"did you mean {' or '.join(near)}?" if near else f"see '{prog} --help'"
            problems.append(f"there is no flag {word.partition('=')[0]}: {hint}")
        elif name in switches and "=" in word:
            problems.append(f"--{name} is a switch and takes no value: leave {word[word.index('=') :]} out")
    if problems:
        raise UsageError("; ".join(problems))


def _forms(flags: type) -> tuple[str, ...]:
    """The values that a verb's --format may have; those of every task where the flag takes any name."""
    parts = typing.get_args(typing.get_type_hints(flags)["format"])
    return ("jsonl",) if str in parts else tuple(map(str, parts))


def _sentence(said: str, usage: str) -> str:
    """tyro's framed message in the words of the house."""
    text = " ".join(line.strip("│╭╮╰╯─ ") for line in said.splitlines())
    if found := re.search(r"invalid choice '(.*?)' for argument '(\S+?)'. +Expected one of \((.*?)\)", text):
        choices = " or ".join(name for name in re.findall(r"'(.*?)'", found[3]) if name != "None")
        return f"{_usual(found[2])} is {found[1]!r}, and must be {choices}"
    for sign, what in (
        ("invalid literal for int", "a whole number"),
        ("could not convert string to float", "a number"),
    ):
        if found := re.search(rf"Error parsing (\S+?): .*?{sign}.*?: ('.*?')", text):
            return f"{_usual(found[1])} must be {what}, and is {found[2]}"
    if found := re.search(r"Error parsing (\S+?): (.*?)(Argument helptext|For full helptext|$)", text):
        return f"{_usual(found[1])} cannot be read: {found[2].strip()}"
    if found := re.search(r"Missing value for argument '(-.*?)'", text):
        return f"{found[1].split('/')[-1]} needs a value"
    if found := re.search(r"Unrecognized options: (-[^\s,]+)", text):
        return f"there is no flag {found[1]}: {usage}"
    if found := re.search(r"Unrecognized options: ([^\s,]+)", text):
        return f"{found[1]!r} is one word too many: {usage}"
    return f"something is missing: {usage}"


def _usual(names: str) -> str:
    """The name of a flag by which its help begins, where it has several: tyro lists it last."""
    return names.split("/")[-1]
