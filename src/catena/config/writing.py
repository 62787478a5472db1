"""From a config to a commented TOML file."""

from __future__ import annotations

import re
import textwrap
from enum import Enum
from pathlib import PurePath
from typing import Any

from catena.config.schema import KIND, NONE, Config, ConfigKey, get_kind, section_classes

_WIDTH = 110


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
