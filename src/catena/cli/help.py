"""The config section of ``--help``: the keys of the selected kinds as options, with their defaults."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from catena.config import KIND, Config, ConfigKey, flag_table, get_kind, get_sections, parse
from catena.errors import ConfigError

_WIDTH = 100
_HEAD = (
    "Config options. Where it is unambiguous, the last part of the name is enough. To see the options of another kind, "
    "select it, for example: --model recurrent --help."
)


def config_help(schema: type[Config], data: Mapping[str, Any]) -> Iterator[str]:
    """The lines of help for every key: section, choices, default and meaning."""
    kinds = _kinds_in(data)
    try:
        config = parse(schema, kinds, source="--help")
    except ConfigError:
        config = parse(schema, {}, source="--help")
    table = flag_table(schema, kinds)
    yield from ("", *textwrap.wrap(_HEAD, _WIDTH))
    for path, section, kinds_there in _sections(config, ()):
        lines = [line for key in _keys_of(section, path, kinds_there) for line in _key_help(key, section, table)]
        if lines:
            yield from ("", f"[{'.'.join(path)}]" if path else "[top]", *lines)


def _kinds_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds that nested values select, without the other values."""
    inner = {key: _kinds_in(value) for key, value in data.items() if isinstance(value, Mapping)}
    return {key: value for key, value in inner.items() if value} | ({KIND: data[KIND]} if KIND in data else {})


def _sections(
    config: Config, path: tuple[str, ...], kinds: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Config, tuple[str, ...]]]:
    """Every section with its path and the kinds that its parent allows for it.

    A section of the same name may allow other kinds under another kind of parent.
    """
    yield path, config, kinds
    for name, classes in get_sections(type(config)).items():
        if isinstance(inner := getattr(config, name), Config):
            yield from _sections(inner, (*path, name), tuple(map(get_kind, classes)))


def _keys_of(section: Config, path: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[ConfigKey]:
    fields = type(section).model_fields
    for name in sorted(fields, key=lambda name: name != KIND):  # the kind first because it selects the other keys
        if isinstance(getattr(section, name), Config):
            continue
        several = kinds if name == KIND and len(kinds) > 1 else ()
        key = ConfigKey((*path, name), fields[name], several)
        if len(key.values) != 1:  # a key with one possible value is not an option
            yield key


def _key_help(key: ConfigKey, section: Config, table: Mapping[str, ConfigKey]) -> Iterator[str]:
    short = ".".join(key.path[:-1]) if key.path[-1] == KIND else key.path[-1]
    known = table.get(short)
    name = short if known is not None and known.path == key.path else key.dotted
    choices, words = "|".join(key.choices), " ".join((key.field.description or "").split())
    if len(choices) > _WIDTH * 2 // 3:
        words, choices = f"{words} One of: {', '.join(key.choices)}.", ""
    value = _shown(getattr(section, key.path[-1]))
    yield f"  --{name.replace('_', '-')} {choices}".rstrip() + f" (default: {value})"
    yield from textwrap.wrap(words, _WIDTH - 4, initial_indent="      ", subsequent_indent="      ")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
