"""Help texts: an example, then the options by group.

``--help`` has at most 40 lines; ``--help-all`` lists every option with its default. Tested in tests/cli/test_help.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catena.cli.parser import CommandOptions, Section, get_arg
from catena.config import KIND, Config, ConfigKey, get_kind, get_sections, keys, parse
from catena.config.schema import get_default
from catena.errors import ConfigError

_WIDTH = 110
_MOST_LINES = 40
_LAST = ("device", "threads", "seed", "quantization")
_COLUMN = 34
"""Width of the column of names."""


def short_help(
    schema: type[CommandOptions], sections: Sequence[Section] = (), groups: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The help of a command: what it does, an example, and its options, at most 40 lines.

    Args:
        schema: the options of the command.
        sections: the options that the task adds.
        groups: the names of the most important options by group, for commands with many options; all options if None.
    """
    lines = [*_wrapped(_summary(schema)), f"usage: {schema.usage}"]
    if schema.example:
        lines.append(f"example: {schema.example}")
    lines.append("")
    if groups is not None:
        lines += [line for group, names in groups.items() for line in _group(group, names, schema, sections)]
        lines += ["", "Every option with its default: --help-all"]
        return "\n".join(lines[:_MOST_LINES])
    rows = [line for key in _all_keys(schema, sections) for line in _option_line(key)]
    return "\n".join([*lines, *rows])


def full_help(schema: type[CommandOptions], sections: Sequence[Section] = ()) -> str:
    """Every option with its meaning and default."""
    lines = [*_wrapped(_summary(schema)), f"usage: {schema.usage}", ""]
    for key in keys(schema):
        lines += _full_option(_name(key), key, _default(schema, key))
    for section in sections:
        lines += _config_help(section)
    return "\n".join(lines)


def _summary(schema: type[CommandOptions]) -> str:
    return " ".join((schema.__doc__ or "").split())


def _all_keys(schema: type[CommandOptions], sections: Sequence[Section]) -> Iterator[ConfigKey]:
    """The options, positional arguments first and those of the machine last."""
    yield from sorted(keys(schema), key=lambda key: (not get_arg(key).positional, key.path[0] in _LAST))
    for section in sections:
        yield from section.options()


def _name(key: ConfigKey) -> str:
    """The option as it is written: ``FILE``, ``-o/--output FILE`` or ``--quiet``."""
    arg = get_arg(key)
    if arg.positional:
        return arg.metavar
    name = f"--{_short_path(key).replace('_', '-')}"
    value = "" if key.is_switch else f" {arg.metavar or _metavar(key)}"
    return f"{arg.short}, {name}{value}" if arg.short else f"{name}{value}"


def _short_path(key: ConfigKey) -> str:
    return key.path[-2] if key.path[-1] == KIND and len(key.path) > 1 else key.path[-1]


def _metavar(key: ConfigKey) -> str:
    choices = "|".join(key.choices)
    if choices and len(choices) <= 40:
        return choices
    names = {int: "N", float: "X"}
    return next((names[t] for t in key.types if t in names), "NAME" if choices or key.is_text else "VALUE")


def _option_line(key: ConfigKey) -> Iterator[str]:
    name, text = _name(key), " ".join((key.field.description or "").split())
    first = text.split(". ")[0].rstrip(".")
    first = first if len(first) <= _WIDTH - _COLUMN - 2 else first[: _WIDTH - _COLUMN - 5] + "..."
    if len(name) > _COLUMN - 3:
        yield f"  {name}"
        yield f"{'':<{_COLUMN}}{first}"
    else:
        yield f"  {name:<{_COLUMN - 2}}{first}"


def _group(group: str, names: Sequence[str], schema: type[Config], sections: Sequence[Section]) -> Iterator[str]:
    """One group of options on as few lines as possible."""
    table: dict[str, ConfigKey] = {key.path[-1]: key for key in keys(schema)}
    for section in sections:
        table |= section.table(section.data)
    shown = []
    for name in names:
        if key := table.get(name):
            value = "" if key.is_switch else f" {get_arg(key).metavar or _metavar(key)}"
            shown.append(get_arg(key).metavar if get_arg(key).positional else f"--{name.replace('_', '-')}{value}")
    if shown:
        body = textwrap.wrap("  ".join(shown), _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
        yield from (f"{group if i == 0 else '':<10}  {line}" for i, line in enumerate(body))


def _full_option(name: str, key: ConfigKey, default: str) -> Iterator[str]:
    yield f"  {name}" + (f" (default: {default})" if default else "")
    text = " ".join((key.field.description or "").split())
    choices = "|".join(key.choices)
    if len(choices) > 40:
        text = f"{text} One of: {', '.join(key.choices)}."
    yield from textwrap.wrap(text, _WIDTH - 6, initial_indent="      ", subsequent_indent="      ")


def _default(schema: type[Config], key: ConfigKey) -> str:
    if key.field.is_required() or get_arg(key).positional or key.is_switch:
        return ""
    value = get_default(key.field)
    return "" if value is None or value == () else _shown(value)


def _config_help(section: Section) -> Iterator[str]:
    """The keys of the selected kinds, section by section."""
    kinds = _kinds_in(section.data)
    try:
        config = parse(section.schema, kinds, source="--help")
    except ConfigError:
        config = parse(section.schema, {}, source="--help")
    table = section.table(kinds)
    names = {key.path: name for name, key in reversed(table.items()) if "." not in name}
    if section.title:
        yield from ("", section.title)
    for path, part, kinds_there in _parts(config, ()):
        rows: list[Any] = []
        for key in _keys_of(part, path, kinds_there):
            if section.only is None or key.path[0] in section.only:
                name = names.get(key.path, key.dotted)
                value = "" if key.is_switch else f" {_metavar(key)}"
                option = f"--{name.replace('_', '-')}{value}"
                rows += _full_option(option, key, _shown(getattr(part, key.path[-1])))
        if rows:
            yield from ("", f"[{'.'.join(path)}]" if path else "[top]", *rows)


def _kinds_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds that nested values select, without the other values."""
    inner = {key: _kinds_in(value) for key, value in data.items() if isinstance(value, Mapping)}
    return {key: value for key, value in inner.items() if value} | ({KIND: data[KIND]} if KIND in data else {})


def _parts(
    config: Config, path: tuple[str, ...], kinds: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Config, tuple[str, ...]]]:
    """Every section with its path and the kinds that its parent allows for it."""
    yield path, config, kinds
    for name, classes in get_sections(type(config)).items():
        if isinstance(inner := getattr(config, name), Config):
            yield from _parts(inner, (*path, name), tuple(map(get_kind, classes)))


def _keys_of(section: Config, path: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[ConfigKey]:
    fields = type(section).model_fields
    for name in sorted(fields, key=lambda name: name != KIND):  # the kind first because it selects the other keys
        if isinstance(getattr(section, name), Config):
            continue
        several = kinds if name == KIND and len(kinds) > 1 else ()
        key = ConfigKey((*path, name), fields[name], several)
        if len(key.values) != 1:  # a key with one possible value is not an option
            yield key


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)
