"""Command line options from dataclasses, whose docstrings are the help texts (read by tyro).

Options that set a config key are removed first (:func:`take_keys`), so that a typo in any option is reported with the
nearest name among all of them.
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
    """Annotation of an option for its help text.

    Args:
        metavar: placeholder of the value, such as "FILE".
        aliases: other names of the option, such as "-o".
        name: name of the option if it differs from the field.
        shown: text for the default value.
    """
    return tyro.conf.arg(metavar=metavar, aliases=list(aliases) or None, name=name, help_behavior_hint=shown)


@dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """Options of every command that runs a model."""

    device: Annotated[str, arg("DEVICE", shown="(default: auto)")] = "auto"
    """Device: auto, cpu, cuda, cuda:1 or mps."""
    threads: Annotated[int | None, arg("N", shown="(default: all cores)")] = None
    """Number of CPU threads."""
    seed: Annotated[int, arg("N", shown="(default: 0)")] = 0
    """Seed of the random number generators."""

    def __post_init__(self) -> None:
        check_minimum("--threads", self.threads, 1)
        check_minimum("--seed", self.seed, 0)


def check_minimum(flag: str, value: int | float | None, least: int) -> None:
    """Raise UsageError if a value is below its minimum, infinite or nan."""
    if value is not None and not least <= value < math.inf:
        raise UsageError(f"{flag} must be {least} or more, got {value}. Pass {least} or more.")


# --- reading ----------------------------------------------------------------------------------------------------------


def take_keys(
    schema: type[Config], flags: type, words: Sequence[str], data: Mapping[str, Any] | None = None
) -> tuple[list[tuple[ConfigKey, str]], list[str]]:
    """Separate the options that set config keys from the rest of a command line.

    If the short name of an option belongs only to kinds that are not selected, it is expanded to its full name, so that
    the config can report why it does not apply.

    Returns:
        The (key, text) pairs of config options, and the remaining words.
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
    """Parse the options of a command into its dataclass.

    Raises :class:`UsageError` for invalid options. ``--help`` prints the help and raises SystemExit.

    Args:
        flags: the dataclass of the command.
        words: the command line after the command, without options that set config keys.
        usage: the usage line, such as "catena evaluate RUN FILE".
        description: what the command does.
        config: the config whose keys are options too, for the help and for suggestions.
        data: the config values that the options override.
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
    """The names of a command's own options, with underscores and without leading hyphens."""
    renamed = getattr(flags, "RENAMED", {})
    return {renamed.get(field.name, field.name) for field in _options(flags)} | _aliases(flags).keys()


def _aliases(flags: type) -> dict[str, str]:
    """The long aliases of a command's options, with underscores, mapped to their fields."""
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
    """The long options of a command line, each with its name with underscores."""
    for word in words:
        if word == "--":
            return
        if word.startswith("--"):
            yield word, word[2:].partition("=")[0].replace("-", "_")


def _unknown(words: Sequence[str], own: set[str]) -> list[str]:
    return [name for _, name in _given(words) if name not in own]


def _spelled_out(schema: type[Config], name: str) -> list[str]:
    """The full names of all config keys, of any kind, that end in ``name`` or in its last part."""
    return list(dict.fromkeys(key.dotted for key in keys(schema) if key.path[-1] == name.split(".")[-1]))


def _renamed(word: str, names: Mapping[str, str]) -> str:
    name, equals, value = word[2:].partition("=")
    full = names.get(name.replace("-", "_")) if word.startswith("--") and "." not in name else None
    return f"--{full}{equals}{value}" if full else word


def _check_names(
    flags: type, words: Sequence[str], prog: str, config: type[Config] | None, data: Mapping[str, Any] | None
) -> None:
    """Raise UsageError that lists all unknown options, each with the nearest known one, and all flags with a value."""
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
            hint = f"Did you mean {' or '.join(near)}?" if near else f"See '{prog} --help'."
            problems.append(f"Unknown option {word.partition('=')[0]}. {hint}")
        elif name in switches and "=" in word:
            problems.append(f"--{name} takes no value. Remove {word[word.index('=') :]}.")
    if problems:
        raise UsageError(" ".join(problems))


def _forms(flags: type) -> tuple[str, ...]:
    """The values that --format may have. If it accepts any string, those of all tasks."""
    parts = typing.get_args(typing.get_type_hints(flags)["format"])
    return ("jsonl",) if str in parts else tuple(map(str, parts))


def _sentence(said: str, usage: str) -> str:
    """tyro's framed message as one sentence in Catena's form."""
    text = " ".join(line.strip("│╭╮╰╯─ ") for line in said.splitlines())
    if found := re.search(r"invalid choice '(.*?)' for argument '(\S+?)'. +Expected one of \((.*?)\)", text):
        choices = " or ".join(name for name in re.findall(r"'(.*?)'", found[3]) if name != "None")
        return f"{_usual(found[2])} must be {choices}, got {found[1]!r}. Pass one of them."
    for sign, what in (
        ("invalid literal for int", "an integer"),
        ("could not convert string to float", "a number"),
    ):
        if found := re.search(rf"Error parsing (\S+?): .*?{sign}.*?: ('.*?')", text):
            return f"{_usual(found[1])} must be {what}, got {found[2]}. Pass {what}."
    if found := re.search(r"Error parsing (\S+?): (.*?)(Argument helptext|For full helptext|$)", text):
        return f"{_usual(found[1])} is invalid: {found[2].strip()}"
    if found := re.search(r"Missing value for argument '(-.*?)'", text):
        return f"{found[1].split('/')[-1]} requires a value. Add one."
    if found := re.search(r"Unrecognized options: (-[^\s,]+)", text):
        return f"Unknown option {found[1]}. Usage: {usage}."
    if found := re.search(r"Unrecognized options: ([^\s,]+)", text):
        return f"Unexpected argument {found[1]!r}. Usage: {usage}."
    return f"An argument is missing. Usage: {usage}."


def _usual(names: str) -> str:
    """The main name of an option with several names, which tyro lists last."""
    return names.split("/")[-1]
