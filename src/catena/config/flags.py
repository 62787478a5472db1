"""Command line options that set the keys of a config."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from catena.config.schema import KIND, NONE, Config, ConfigKey, chosen_paths, is_sequence, keys, plain_types
from catena.errors import ConfigError
from catena.registry import did_you_mean


def flag_table(schema: type[Config], data: Mapping[str, Any] | None = None) -> dict[str, ConfigKey]:
    """Every command line option that sets a key, by name.

    A key can be set by its dotted name and, if that is unambiguous, by the last part of it. The kind of a section can
    be set by the name of the section. The last part is unambiguous if only one key of the selected kinds ends in it, or
    if one such key is at a higher level than all others. ``data`` selects the kinds; otherwise the defaults do.
    """
    table: dict[str, ConfigKey] = {}
    for key in keys(schema):
        table[key.dotted] = key
        if key.path[-1] == KIND and key.path[:-1]:  # --model cnn is --model.kind cnn
            table.setdefault(".".join(key.path[:-1]), key)
    by_leaf: dict[str, list[ConfigKey]] = {}
    for path in chosen_paths(schema, data or {}):
        leaf = path[-2] if path[-1] == KIND and len(path) > 1 else path[-1]
        by_leaf.setdefault(leaf, []).append(table[".".join(path)])
    for leaf, found in by_leaf.items():
        highest = min(len(key.path) for key in found)
        at_top = [key for key in found if len(key.path) == highest]
        if len(at_top) == 1 and leaf not in table:
            table[leaf] = at_top[0]
    return table


def split_flags(
    schema: type[Config], argv: Sequence[str], data: Mapping[str, Any] | None = None
) -> tuple[list[tuple[ConfigKey, str]], list[str]]:
    """Separate the options that set config keys from the rest of a command line.

    Accepts ``--a.b value``, ``--a.b=value``, hyphens for underscores, ``--switch`` and ``--no-switch`` for true and
    false, and ``-s key=value``. A value that begins with a hyphen and a letter needs the ``=`` form.

    Args:
        schema: the config class.
        argv: the command line.
        data: the values that the options override. Together with the options, they select the kinds.

    Returns:
        The (key, text) pairs of config options, and the remaining words.
    """
    table = flag_table(schema, data)
    for _ in argv:  # a kind may add a section whose short name sets the next kind
        kinds = {name: key for name, key in table.items() if key.path[-1] == KIND}
        before, table = table, flag_table(schema, override(data or {}, _split(kinds, argv, only_these=False)[0]))
        if table.keys() == before.keys():
            break
    return _split(table, argv)


def _split(
    table: Mapping[str, ConfigKey], argv: Sequence[str], only_these: bool = True
) -> tuple[list[tuple[ConfigKey, str]], list[str]]:
    """The options in a table, and the rest. ``only_these`` rejects other names after ``-s``."""
    taken: list[tuple[ConfigKey, str]] = []
    rest: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        if word in ("-s", "--set"):
            word = "--" + _setting(word, words, table if only_these else None)
        name, has_value, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            rest.append(word)
        elif key := table.get(name):
            taken.append((key, value if has_value else _next_value(key, words)))
        elif (key := table.get(name.removeprefix("no_"))) and key.is_switch:
            if has_value:
                raise ConfigError(f"--no-{key.dotted} takes no value, got {value!r}. Remove it.")
            taken.append((key, "false"))
        else:
            rest.append(word)
    return taken, rest


def _setting(flag: str, words: list[str], table: Mapping[str, ConfigKey] | None) -> str:
    """The ``key=value`` after ``-s``, checked against the table if there is one."""
    setting = words.pop(0) if words else ""
    name, equals, value = setting.partition("=")
    name = name.replace("-", "_")
    if not equals:
        raise ConfigError(
            f"{flag} must be followed by key=value, got {repr(setting) if setting else 'nothing'}. Write {flag} "
            f"seed=3, for example."
        )
    if table is not None and name not in table:
        same_name = [key for key in table if "." in key and key.split(".")[-1] == name.split(".")[-1]]
        raise ConfigError(f"{name} is not a known key: {did_you_mean(name, same_name or table)}")
    return f"{name}={value}"


def _next_value(key: ConfigKey, words: list[str]) -> str:
    """Remove and return the word after an option if it can be the option's value."""
    if key.is_switch:
        may_follow = {"true", "false", *key.choices, *([NONE] if key.is_optional else [])}
        return words.pop(0) if words and words[0].lower() in may_follow else "true"
    if not words or re.match(r"--|-[A-Za-z]", words[0]):
        raise ConfigError(f"--{key.dotted} requires a value: {what_it_takes(key)}. Add one.")
    return words.pop(0)


def override(data: Mapping[str, Any], flags: Iterable[tuple[ConfigKey, str]]) -> dict[str, Any]:
    """A copy of nested values, overridden by options.

    An option that changes the kind of a section removes the old values of the section. The other options apply to the
    new kind, in any order. Of two options for one key the last one counts, except for lists of strings, such as files,
    which are concatenated.
    """
    result = _deep_copy(data)
    seen: set[tuple[str, ...]] = set()
    for key, text in sorted(flags, key=lambda flag: _kinds_first(flag[0])):
        here = result
        for depth, part in enumerate(key.path[:-1], start=1):
            if here.get(part) in (None, NONE):
                here[part] = {}
            here = here[part]
            if not isinstance(here, dict):
                section = ".".join(key.path[:depth])
                raise ConfigError(
                    f"{section} must be a section [{section}] to set --{key.dotted}, got {here!r}. Write it as a "
                    f"section."
                )
        value = _value_of(key, text)
        if key.path[-1] == KIND and here.get(KIND) not in (None, value):
            here.clear()  # the other keys belong to the kind that is replaced
        if key.is_text and key.path in seen and isinstance(value, list):
            value = [*here.get(key.path[-1], ()), *value]
        seen.add(key.path)
        here[key.path[-1]] = value
    return result


def _kinds_first(key: ConfigKey) -> tuple[bool, int]:
    is_kind = key.path[-1] == KIND
    return (not is_kind, len(key.path) if is_kind else 0)


def _deep_copy(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _deep_copy(v) if isinstance(v, Mapping) else v for k, v in data.items()}


def _value_of(key: ConfigKey, text: str) -> Any:
    """The value of an option's text. Text that fits no type is returned as it is; validation rejects it."""
    if key.is_optional and text.lower() in (NONE, ""):
        return None
    if not key.is_list:
        return _item_of(key, text)
    text = text.strip()
    if text.startswith("["):
        if isinstance(listed := toml_value(text), list):
            return listed
        text = text.removeprefix("[").removesuffix("]")  # [a, b] without the quotes that TOML requires
    elif "," not in text and not all(is_sequence(t) for t in key.types if t is not type(None)):
        return _item_of(key, text)  # 3 for a key that takes a number or a list of numbers
    return [_item_of(key, part.strip()) for part in text.split(",") if part.strip()]


def _item_of(key: ConfigKey, text: str) -> Any:
    for value in key.values:
        if str(value) == text:
            return value
    value = toml_value(text)
    return text if key.is_text and type(value) not in key.types else value


def toml_value(text: str) -> Any:
    """The text parsed as a TOML value, or the text itself if it is not valid TOML."""
    if "\n" in text:
        return text
    try:
        return tomllib.loads(f"x = {text.lower() if text.lower() in ('true', 'false') else text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def what_it_takes(key: ConfigKey) -> str:
    """What an option accepts, in words: "one of cnn, rnn", "float or none", "a list of int"."""
    if key.path[-1] == KIND and key.kinds:
        return f"one of {', '.join(key.kinds)}"
    return " or ".join(_type_name(t) for t in key.types)


def _type_name(annotation: Any) -> str:
    if annotation is type(None):
        return NONE
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(annotation)))}"
    if is_sequence(annotation):
        items = [t for item in get_args(annotation) if item is not Ellipsis for t in plain_types(item)]
        return f"a list of {' or '.join(dict.fromkeys(map(_type_name, items)))}"
    return annotation.__name__
