"""From a TOML file, or nested plain values, to a config."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from catena.config.schema import KIND, NONE, Config, ConfigKey, get_default, get_kind, section_classes
from catena.config.validation_errors import problems
from catena.errors import ConfigError

C = TypeVar("C", bound=Config)


def parse(schema: type[C], data: Mapping[str, Any], *, source: str = "the config", text: str = "") -> C:
    """Make a config from nested plain values, or raise one :class:`ConfigError` that lists all that is wrong.

    A section that is given in part takes the rest from the section's default, if both are of one kind.
    ``text`` is the TOML the values came from, when there is one: problems then carry its line numbers.
    """
    filled = _filled(schema, schema.implied(data))
    try:
        return schema.model_validate(filled)
    except ValidationError as error:
        listed = problems(schema, error, filled, text)
    if len(listed) == 1:
        raise ConfigError(f"{source} has a value that cannot be used: {listed[0]}")
    told = "\n".join(f"  - {problem}" for problem in listed)
    raise ConfigError(f"{source} has {len(listed)} values that cannot be used:\n{told}")


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The nested values of a TOML file and its text."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, not a config file: name the file, such as {path / 'config.toml'}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"there is no config file {path}: 'catena init TASK -o {path}' writes one") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the config file {path} cannot be read: {error}; save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"the config file {path} cannot be read: {error}") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def load(schema: type[C], path: Path) -> C:
    """Read a config file."""
    data, text = read_toml(path)
    return parse(schema, data, source=str(path), text=text)


def _filled(schema: type[Config], data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the values, with sections filled from their defaults and "none" made None where it may be."""
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
        if field.default_factory is not None:  # it may fill in values that depend on others: take its kind alone
            below = {name: value for name, value in below.items() if name == KIND}
        given = _put_over(below, given)
    chosen = classes if len(classes) == 1 else [c for c in classes if get_kind(c) == given.get(KIND)]
    return _filled(chosen[0], given) if chosen else dict(given)


def _values_set(config: Config) -> dict[str, Any]:
    """The values that were given when the config was made, and the kinds of its sections, nested."""
    values = {name: getattr(config, name) for name in (*config.model_fields_set, KIND) if hasattr(config, name)}
    return {name: _values_set(value) if isinstance(value, Config) else value for name, value in values.items()}


def _put_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = {**below, **above}
    for name in set(below) & set(above):
        under, over = below[name], above[name]
        if isinstance(under, Mapping) and isinstance(over, Mapping) and over.get(KIND) in (None, under.get(KIND)):
            result[name] = _put_over(under, over)
    return result
