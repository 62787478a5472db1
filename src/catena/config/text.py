"""From TOML files, nested plain values and command line options to a config, and from a config to a commented file.

Tested in tests/config/test_reading.py, test_writing.py and test_flags.py.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from catena.config.schema import (
    KIND,
    NONE,
    Config,
    ConfigKey,
    chosen_paths,
    get_default,
    get_kind,
    is_sequence,
    keys,
    plain_types,
    section_classes,
)
from catena.config.validation_errors import problems
from catena.errors import ConfigError, InvalidValuesError

C = TypeVar("C", bound=Config)
_WIDTH = 110


def parse(
    schema: type[C],
    data: Mapping[str, Any],
    *,
    source: str = "the config",
    text: str = "",
    show: Callable[[Sequence[str]], str] = ".".join,
) -> C:
    """Make a config from nested plain values.

    A partial section takes its other values from the default section if both have the same kind.

    Args:
        schema: the config class.
        data: the nested values.
        source: name of the source for error messages.
        text: the TOML text of the values, if any. Errors then have line numbers.
        show: the name of a key in errors, from its path.

    Raises:
        InvalidValuesError: lists all invalid values.
    """
    filled = _filled(schema, schema.implied(data))
    try:
        return schema.model_validate(filled)
    except ValidationError as error:
        listed = problems(schema, error, filled, text, show)
    if len(listed) == 1:
        raise InvalidValuesError(f"{source} has an invalid value: {listed[0]}", problems=listed)
    lines = "\n".join(f"  - {problem}" for problem in listed)
    raise InvalidValuesError(f"{source} has {len(listed)} invalid values:\n{lines}", problems=listed)


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The nested values of a TOML file, and its text."""
    if path.is_dir():
        raise ConfigError(f"The config must be a file, got the folder {path}. Use {path / 'config.toml'}, for example.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"Config file not found: {path}. Write one with 'catena init TASK -o {path}'.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"Cannot read the config file {path}: {error}. Save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read the config file {path}: {error}. Check its permissions.") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct that line.") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: its values are nested too deeply. Correct it.") from None


def load(schema: type[C], path: Path) -> C:
    """Read a config file."""
    data, text = read_toml(path)
    return parse(schema, data, source=str(path), text=text)


def _filled(schema: type[Config], data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the values, with sections completed by their defaults and "none" converted to None."""
    filled: dict[str, Any] = {}
    for name, value in data.items():
        field = schema.model_fields.get(name)
        if field and isinstance(value, Mapping) and (classes := section_classes(field.annotation)):
            value = _filled_section(field, classes, value)
        elif field and value == NONE and ConfigKey((name,), field).is_optional:
            value = None
        filled[name] = value
    return filled


def _filled_section(field: FieldInfo, classes: tuple[type[Config], ...], given: Mapping[str, Any]) -> dict[str, Any]:
    default = get_default(field)
    if isinstance(default, Config) and given.get(KIND, get_kind(type(default))) == get_kind(type(default)):
        below = _values_set(default)
        if field.default_factory is not None:  # it may derive values from others, so take only its kind
            below = {name: value for name, value in below.items() if name == KIND}
        given = _put_over(below, given)
    chosen = classes if len(classes) == 1 else [c for c in classes if get_kind(c) == given.get(KIND)]
    return _filled(chosen[0], given) if chosen else dict(given)


def _values_set(config: Config) -> dict[str, Any]:
    """The values that were set when the config was made, and the kinds of its sections, nested."""
    values = {name: getattr(config, name) for name in (*config.model_fields_set, KIND) if hasattr(config, name)}
    return {name: _values_set(value) if isinstance(value, Config) else value for name, value in values.items()}


def _put_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = {**below, **above}
    for name in set(below) & set(above):
        under, over = below[name], above[name]
        if isinstance(under, Mapping) and isinstance(over, Mapping) and over.get(KIND) in (None, under.get(KIND)):
            result[name] = _put_over(under, over)
    return result


# --- writing ----------------------------------------------------------------------------------------------------------


def to_toml(config: Config, *, heading: str = "") -> str:
    """The config as TOML, with a comment above every key. None is written as "none"."""
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    if lines:
        lines.append("")
    lines += _section_lines(config, ())
    return "\n".join(lines).strip() + "\n"


def _section_lines(config: Config, path: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    fields = type(config).model_fields
    inner = [name for name in fields if isinstance(getattr(config, name), Config)]
    for name in (n for n in fields if n not in inner):
        lines += _comment(ConfigKey((*path, name), fields[name]))
        lines.append(f"{name} = {toml_text(getattr(config, name))}")
    for name in inner:
        section = getattr(config, name)
        others = [
            get_kind(s) for s in section_classes(fields[name].annotation) if get_kind(s) and s is not type(section)
        ]
        lines += ["", *_wrapped(fields[name].description or type(section).__doc__ or "")]
        if others:
            lines += _wrapped(f"Other kinds: {', '.join(others)}.")
        lines.append(f"[{'.'.join((*path, name))}]")
        lines += _section_lines(section, (*path, name))
    return lines


def _comment(key: ConfigKey) -> list[str]:
    words = key.field.description or ""
    if key.choices and key.path[-1] != KIND:
        words = f"{words} One of: {', '.join(key.choices)}."
    return _wrapped(words)


def _wrapped(words: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(words.split()), width=_WIDTH - 2)]


def toml_text(value: Any) -> str:
    """A value as TOML on one line."""
    if value is None:
        return toml_text(NONE)
    if isinstance(value, Enum):
        return toml_text(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(toml_text(v) for v in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "[" + ", ".join(sorted(toml_text(v) for v in value)) + "]"
    if isinstance(value, Config):
        return toml_text({name: getattr(value, name) for name in type(value).model_fields})
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_text(str(k))} = {toml_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (str, PurePath)):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
    raise TypeError(f"A config value must be a plain value, got {value!r} ({type(value).__name__}). Use a TOML type.")


# --- command line options ---------------------------------------------------------------------------------------------


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


def parse_options(options: Sequence[str], name: str, example: str) -> dict[str, Any]:
    """Arguments of a call written as ``key=value``, with values as in TOML or else strings.

    Args:
        options: the arguments.
        name: the config key they come from, for the error.
        example: an argument as it should be, for the error.

    >>> parse_options(["is_slippery=false", "map_name=8x8"], "environment.options", "is_slippery=false")
    {'is_slippery': False, 'map_name': '8x8'}
    """
    parsed: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"{name} must be written as key=value, got {option!r}. Write {example}, for example.")
        parsed[key] = toml_value(value)
    return parsed


def format_options(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The inverse of :func:`parse_options`, for plain values."""
    return tuple(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items())


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
