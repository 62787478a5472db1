"""Command line options that set the keys of a config."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

from catena.config.schema import KIND, NONE, Config, ConfigKey, chosen_paths, is_sequence, keys, plain_types
from catena.errors import ConfigError


def flag_table(schema: type[Config], data: Mapping[str, Any] | None = None) -> dict[str, ConfigKey]:
    """Every command line option that sets a key, by name.

    A key can be set by its dotted name, and by the shortest end of its path that is unambiguous, joined by underscores:
    ``training.max_epochs`` by ``max_epochs``, ``model.encoder.d`` by ``encoder_d``. The kind of a section can be set by
    the name of the section. Of several keys with the same last part, the one at the highest level has the short name.
    ``data`` selects the kinds; otherwise the defaults do.
    """
    table: dict[str, ConfigKey] = {}
    for key in keys(schema):
        table[key.dotted] = key
        if key.path[-1] == KIND and key.path[:-1]:  # --model cnn is --model.kind cnn
            table.setdefault(".".join(key.path[:-1]), key)
    for name, path in short_names(chosen_paths(schema, data or {})).items():
        table.setdefault(name, table[".".join(path)])
    return table


def short_names(paths: Iterable[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The paths of keys by all unambiguous ends of their paths, the shortest first."""
    by_name: dict[str, list[tuple[str, ...]]] = {}
    listed = list(paths)
    for size in range(1, max(map(len, listed), default=0) + 1):
        for path in listed:
            named = path[:-1] if path[-1] == KIND and len(path) > 1 else path
            if len(named) >= size:
                by_name.setdefault("_".join(named[-size:]), []).append(path)
    names = {}
    for name, same in by_name.items():
        highest = min(map(len, same))
        at_top = [path for path in same if len(path) == highest]
        if len(at_top) == 1:
            names[name] = at_top[0]
    return names


def next_value(key: ConfigKey, words: list[str]) -> str:
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
