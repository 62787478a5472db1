"""The parse of a command line: typed options and positional arguments, in one pass.

A command declares its options as a :class:`CommandOptions` config. A task adds sections: its config for ``train``, the
options of ``predict`` and how files are read for commands on a run. The names of all of them form one table, so that
everything wrong is reported at the same time with the nearest valid name. :class:`CommandLine` reads what is needed to
find the task. Tested in tests/cli/test_parser.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import KIND, Config, ConfigKey, flag_table, keys, override, parse, read_toml
from catena.config.text import next_value
from catena.errors import CatenaError, ConfigError, InvalidValuesError
from catena.recipes.catalog import find_config
from catena.registry import nearest

O = TypeVar("O", bound="CommandOptions")  # noqa: E741
S = TypeVar("S", bound=Config)

_SYNONYMS = {
    "samples": "n", "num_samples": "n", "count": "n", "batch": "batch_size", "beam": "beam_size", "lr": "learning_rate",
    "epochs": "max_epochs", "steps": "max_steps", "max_tokens": "max_length", "out": "output", "nbest": "n_best",
    "n": "n_best", "n_best": "n",
}  # fmt: skip
"""Options by the names they have in other programs, for suggestions."""


class UsageError(CatenaError):
    """The command line is invalid: an unknown option or a missing argument. The exit code is 2."""

    exit_code = 2


@dataclass(frozen=True)
class Arg:
    """How a field of :class:`CommandOptions` appears on the command line, as metadata of its annotation.

    Args:
        metavar: placeholder of the value in help texts, such as ``FILE``.
        short: a short name, such as ``-o``.
        positional: whether it is given without a name; the last one may take any number of values.
        repeat: whether the option is repeated for several values, which may contain commas.
    """

    metavar: str = ""
    short: str = ""
    positional: bool = False
    repeat: bool = False


class CommandOptions(Config):
    """Base of the options of a command."""

    usage: ClassVar[str]
    """The form of the command line, such as ``catena resume RUN``."""
    example: ClassVar[str] = ""
    """A complete command line for the help text."""


@dataclass(frozen=True)
class Section:
    """Options that a task adds to those of a command.

    Args:
        schema: the config class that has them.
        data: values that the options override; they select the kinds of nested sections.
        only: the names of the top-level keys that are options; all if None.
        title: the heading in help texts.
    """

    schema: type[Config]
    data: Mapping[str, Any] = field(default_factory=dict)
    only: Collection[str] | None = None
    title: str = ""

    def options(self) -> Iterator[ConfigKey]:
        """The keys that are options."""
        return (key for key in keys(self.schema) if self.only is None or key.path[0] in self.only)

    def table(self, data: Mapping[str, Any]) -> dict[str, ConfigKey]:
        """The keys by the names of their options, for the kinds that ``data`` selects."""
        table = flag_table(self.schema, data)
        return {name: key for name, key in table.items() if self.only is None or key.path[0] in self.only}


_Given = tuple[ConfigKey, str]
"""One option of a command line: its key, and the text of its value."""


@dataclass
class _Words:
    """A command line, split into options of each section, positional arguments and problems."""

    given: list[list[_Given]]
    positional: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def parse_command(
    schema: type[O], argv: Sequence[str], sections: Sequence[Section] = ()
) -> tuple[O, list[dict[str, Any]]]:
    """The options of a command, and the values of each section: its data, overridden by options.

    Raises:
        UsageError: lists everything that is wrong with the command line.
    """
    every = [Section(schema), *sections]
    words = _split(every, argv)
    if words.problems:
        raise UsageError(" ".join(dict.fromkeys(words.problems)))
    values = override({}, [(key, text) for key, text in words.given[0] if not get_arg(key).repeat])
    for key, text in words.given[0]:
        if get_arg(key).repeat:
            values.setdefault(key.path[-1], []).append(text)
    values |= _assign(schema, words.positional)
    options = parse_values(schema, values)
    return options, [override(part.data, given) for part, given in zip(sections, words.given[1:], strict=True)]


def parse_values(schema: type[S], values: Mapping[str, Any]) -> S:
    """The options with these values. Raise UsageError with the names of the options if they do not fit."""

    arguments = {key.path: get_arg(key).metavar for key in keys(schema) if get_arg(key).positional}

    def show(path: Sequence[str]) -> str:
        return arguments.get(tuple(path)) or f"--{'.'.join(path).replace('_', '-')}"

    try:
        return parse(schema, values, source="the command line", show=show)
    except InvalidValuesError as error:
        first = error.problems[0]
        message = first if len(error.problems) == 1 else str(error)
        has_cure = message.endswith("?") or ". " in message
        raise UsageError(message if has_cure else f"{message} See --help.") from None


# --- splitting --------------------------------------------------------------------------------------------------------


def _split(sections: Sequence[Section], argv: Sequence[str]) -> _Words:
    """Split a command line by the tables of all sections.

    An option may select a kind, and a kind has its own options, so the tables are made again until they do not change.
    """
    data = [section.data for section in sections]
    tables = [section.table(values) for section, values in zip(sections, data, strict=True)]
    for _ in range(len(argv) + 1):
        words = _split_once(sections, tables, argv)
        chosen = [[(key, text) for key, text in some if key.path[-1] == KIND] for some in words.given]
        data = [override(part.data, some) for part, some in zip(sections, chosen, strict=True)]
        before, tables = tables, [part.table(values) for part, values in zip(sections, data, strict=True)]
        if [table.keys() for table in tables] == [table.keys() for table in before]:
            break
    return words


def _split_once(sections: Sequence[Section], tables: Sequence[Mapping[str, ConfigKey]], argv: Sequence[str]) -> _Words:
    found = _Words([[] for _ in sections])
    shorts = short_options(sections[0].schema)
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            found.positional += words
            break
        if word in shorts:
            found.given[0].append((shorts[word], _value(word, shorts[word], words, found)))
        elif word in ("-s", "--set"):
            _take_setting(word, words, tables, found)
        elif word.startswith("--"):
            _take_option(word, words, sections, tables, found)
        elif re.match(r"-[A-Za-z]", word):
            found.problems.append(f"Unknown option {word}. {_suggestion(word[1:], sections, tables)}")
        else:
            found.positional.append(word)
    return found


def _take_option(
    word: str, words: list[str], sections: Sequence[Section], tables: Sequence[Mapping[str, ConfigKey]], found: _Words
) -> None:
    name, has_value, value = word[2:].partition("=")
    name = name.replace("-", "_")
    for table, given in zip(tables, found.given, strict=True):
        if key := table.get(name):
            given.append((key, value if has_value else _value(word, key, words, found)))
            return
        if (key := table.get(name.removeprefix("no_"))) and key.is_switch and name.startswith("no_"):
            if has_value:
                found.problems.append(f"--{name.replace('_', '-')} takes no value, got {value!r}. Remove it.")
            given.append((key, "false"))
            return
    if words and not has_value and not words[0].startswith("-"):
        words.pop(0)  # probably its value
    found.problems.append(f"Unknown option --{name.replace('_', '-')}. {_suggestion(name, sections, tables)}")


def _value(word: str, key: ConfigKey, words: list[str], found: _Words) -> str:
    try:
        return next_value(key, words)
    except ConfigError as error:
        found.problems.append(str(error))
        return ""


def _take_setting(word: str, words: list[str], tables: Sequence[Mapping[str, ConfigKey]], found: _Words) -> None:
    """The ``key=value`` after ``-s``."""
    setting = words.pop(0) if words else ""
    name, equals, value = setting.partition("=")
    name = name.replace("-", "_")
    if not equals:
        got = repr(setting) if setting else "nothing"
        found.problems.append(f"{word} must be followed by key=value, got {got}. Write {word} seed=3, for example.")
        return
    for table, given in zip(tables[1:], found.given[1:], strict=True):
        if key := table.get(name):
            given.append((key, value))
            return
    known = [key for table in tables[1:] for key in table]
    near = nearest(name, known)
    hint = f"Did you mean {' or '.join(near[:3])}?" if near else "See --help-all."
    found.problems.append(f"Unknown config key {name}. {hint}")


def _suggestion(name: str, sections: Sequence[Section], tables: Sequence[Mapping[str, ConfigKey]]) -> str:
    """The nearest names, or the full names of keys whose short name is ambiguous or of another kind."""
    leaf = name.split(".")[-1]
    full = list(dict.fromkeys(key.dotted for part in sections for key in part.options() if key.path[-1] == leaf))
    if name in ("json", "jsonl") and (format := tables[0].get("format")):
        known = [one for one in (name, "json", "jsonl") if one in (format.choices or ("jsonl",))]
        if known:
            return f"Did you mean --format {known[0]}?"
    other = _SYNONYMS.get(name, name)
    if any(other in table for table in tables):
        full = [other]
    near = full[:3] or nearest(name, {name for table in tables for name in table})[:3]
    shown = [f"--{one.replace('_', '-')}" for one in near]
    return f"Did you mean {' or '.join(shown)}?" if shown else "See --help."


# --- fields of commands -----------------------------------------------------------------------------------------------


def get_arg(key: ConfigKey) -> Arg:
    """The command line form of a key."""
    return next((one for one in key.field.metadata if isinstance(one, Arg)), Arg())


def short_options(schema: type[Config]) -> dict[str, ConfigKey]:
    """The options with a short name, by that name."""
    return {get_arg(key).short: key for key in keys(schema) if get_arg(key).short}


def _assign(schema: type[CommandOptions], words: Sequence[str]) -> dict[str, Any]:
    """The positional arguments by the names of their fields."""
    values: dict[str, Any] = {}
    left = list(words)
    for key in keys(schema):
        if not get_arg(key).positional:
            continue
        if key.is_list:
            values[key.path[-1]] = left
            left = []
        elif left:
            values[key.path[-1]] = left.pop(0)
        if key.field.is_required() and not values.get(key.path[-1]):
            raise UsageError(f"{get_arg(key).metavar} is missing. Usage: {schema.usage}.")
    if left:
        raise UsageError(f"Unexpected argument {left[0]!r}. Usage: {schema.usage}.")
    return values


# --- before the task is known -----------------------------------------------------------------------------------------


HELP = ("-h", "--help", "--help-all")


class CommandLine:
    """A command line before its task is known: the options that decide the task, and the arguments.

    A word after an option that only the task knows may be its value or an argument, so it counts as the first argument
    only if nothing else is left.

    Args:
        schema: the options of the command.
        argv: the words after the name of the command.
    """

    def __init__(self, schema: type[CommandOptions], argv: Sequence[str]) -> None:
        self.schema, self.argv = schema, tuple(argv)
        self.words = [word for word in argv if word not in HELP]
        self.help = "full" if "--help-all" in argv else "short" if len(self.words) < len(argv) else ""
        """Which help is requested, if any."""
        self.arguments: list[str] = []
        """The positional arguments, except those that may be values of options."""
        self.candidates: list[str] = []
        """The words after options that only the task knows."""
        self._values: dict[str, str | None] = {}
        shorts, table = short_options(schema), flag_table(schema)
        left = list(self.words)
        while left:
            word = left.pop(0)
            if not word.startswith("-") or word == "-":
                self.arguments.append(word)
                continue
            option, equals, value = word.partition("=")
            name = option.removeprefix("--").replace("-", "_")
            key = shorts.get(word) or (table.get(name) if word.startswith("--") else None)
            name = name.removeprefix("data.") if key is None else key.path[-1]
            self._values.setdefault(name, value if equals else next(iter(left), None))
            if not equals and left and key is not None and not key.is_switch:
                left.pop(0)
            elif not equals and left and key is None and not left[0].startswith("-"):
                self.candidates.append(left.pop(0))

    @property
    def first(self) -> str | None:
        """The first argument."""
        return next(iter(self.arguments or self.candidates), None)

    def value(self, *names: str) -> str | None:
        """The text of the first of these options that is set, by their names in Python."""
        return next((self._values[name] for name in names if name in self._values), None)

    def parse(self, sections: Sequence[Section] = ()) -> tuple[Any, list[dict[str, Any]]]:
        """The options of the command, and the values of each section that the task adds."""
        return parse_command(self.schema, self.words, sections)


def is_file(name: str) -> bool:
    """Whether an argument is the name of an existing file."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # too long for a file name, or contains NUL
        return False


def starting_point(line: CommandLine) -> tuple[dict[str, Any], str, str]:
    """The values that options override, with their text and the name of their source."""
    config, old = line.value("config"), line.value("init_from")
    if config is not None:
        path = find_config(config)
        data, text = read_toml(path)
        return data, text, str(path)
    if old is not None:
        path = config_of_run(Path(old))
        data, _ = read_toml(path)
        data.pop("data", None)  # a new run has its own files
        return data, "", str(path)
    return {}, "", "the command line"


def config_of_run(run: Path) -> Path:
    """The config file of a run."""
    return open_checkpoint(run, lambda words: None).folder / CONFIG
