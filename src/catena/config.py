"""Configs: frozen typed values, a commented TOML file, and command-line flags, all from one class.

A config is a subclass of :class:`Config`. The docstring under a field is its comment in the file and its ``--help``:

    class Training(Config):
        batch_size: int = Field(50, gt=0)
        \"\"\"Examples in one batch.\"\"\"

Everything that is wrong is reported at once, with the nearest known name and, for a file, the line. Knows nothing of any
task, and imports no torch: the command line must answer at once.
"""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from catena.errors import ConfigError
from catena.registry import did_you_mean

C = TypeVar("C", bound="Config")

KIND = "kind"
"""The key that tells which of several configs a section holds: ``[model] kind = "cnn"``."""


class Config(BaseModel):
    """The base of every config: frozen, refuses unknown keys, takes each field's docstring as its description."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )


# --- the schema -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """One key of a config: where it stands, what it takes, what it means."""

    path: tuple[str, ...]
    field: FieldInfo
    kinds: tuple[str, ...] = ()
    """The kinds of the section it belongs to, when the section has several; otherwise empty."""

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    @property
    def choices(self) -> tuple[str, ...]:
        return _choices(self.field.annotation)

    @property
    def is_text(self) -> bool:
        return str in _plain_types(self.field.annotation) or bool(self.choices)

    @property
    def is_list(self) -> bool:
        return any(_is_sequence(t) for t in _plain_types(self.field.annotation))

    @property
    def is_switch(self) -> bool:
        return bool in _plain_types(self.field.annotation)

    @property
    def is_optional(self) -> bool:
        return type(None) in _plain_types(self.field.annotation)


def keys(schema: type[Config], prefix: tuple[str, ...] = ()) -> Iterator[Key]:
    """Every key of a config class, sections opened, in the order of the file. Kinds of one section are merged."""
    merged: dict[tuple[str, ...], Key] = {}
    for name, field in schema.model_fields.items():
        path = (*prefix, name)
        sections = _sections(field.annotation)
        if not sections:
            merged[path] = Key(path, field)
            continue
        for section in sections:
            kinds = (kind_of(section),) if len(sections) > 1 else ()
            for key in keys(section, path):
                seen = merged.get(key.path)
                at_own_level = len(key.path) == len(path) + 1
                merged[key.path] = Key(
                    key.path,
                    seen.field if seen else key.field,
                    ((*seen.kinds, *kinds) if seen else kinds) if at_own_level else key.kinds,
                )
    yield from merged.values()


def sections_of(schema: type[Config]) -> dict[str, tuple[type[Config], ...]]:
    """The sections of a config class by name, each with the classes it may hold."""
    return {name: found for name, f in schema.model_fields.items() if (found := _sections(f.annotation))}


def kind_of(section: type[Config]) -> str:
    """The value of ``kind`` that stands for this class, or "" if it has none."""
    field = section.model_fields.get(KIND)
    return str(field.default) if field else ""


def _sections(annotation: Any) -> tuple[type[Config], ...]:
    return tuple(t for t in _plain_types(annotation) if isinstance(t, type) and issubclass(t, Config))


def _plain_types(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, with ``Annotated`` taken off; a plain type is a union of one."""
    if get_origin(annotation) is Annotated:
        return _plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(t for part in get_args(annotation) for t in _plain_types(part))
    return (annotation,)


def _is_sequence(annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, (tuple, list))


def _choices(annotation: Any) -> tuple[str, ...]:
    found: list[str] = []
    for part in _plain_types(annotation):
        if get_origin(part) is Literal:
            found += [str(value) for value in get_args(part)]
        elif _is_sequence(part):
            found += [c for inner in get_args(part) if inner is not Ellipsis for c in _choices(inner)]
    return tuple(dict.fromkeys(found))


# --- reading ----------------------------------------------------------------------------------------------------------


def parse(schema: type[C], data: Mapping[str, Any], *, source: str = "the config", text: str = "") -> C:
    """Make a config from nested plain values, or raise one :class:`ConfigError` that lists all that is wrong.

    ``text`` is the TOML the values came from, when there is one: problems then carry its line numbers.
    """
    data = _with_kinds(schema, data)
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        problems = [_explain(schema, dict(e), data, text) for e in error.errors(include_url=False)]
    listed = "\n".join(f"  - {problem}" for problem in dict.fromkeys(problems))
    count = "a value that cannot be used" if len(problems) == 1 else f"{len(problems)} values that cannot be used"
    raise ConfigError(f"{source} has {count}:\n{listed}")


def _with_kinds(schema: type[Config], data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the values in which every section of several kinds says which it is: by default the default's."""
    filled = dict(data)
    for name, classes in sections_of(schema).items():
        section = filled.get(name)
        if not isinstance(section, Mapping):
            continue
        if len(classes) > 1:
            default = schema.model_fields[name].get_default(call_default_factory=True)
            section = {KIND: getattr(default, KIND, None), **section}
            section = {k: v for k, v in section.items() if k != KIND or v is not None}
            classes = tuple(c for c in classes if kind_of(c) == section.get(KIND)) or classes
        filled[name] = _with_kinds(classes[0], section) if len(classes) == 1 else section
    return filled


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """The nested values of a TOML file and its text."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder, not a config file: name the file, such as {path / 'config.toml'}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"there is no config file {path}: 'catena init TASK -o {path}' writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the config file {path} cannot be read: {error}") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def load(schema: type[C], path: Path) -> C:
    """Read a config file."""
    data, text = read_toml(path)
    return parse(schema, data, source=str(path), text=text)


def _explain(schema: type[Config], error: dict[str, Any], data: Mapping[str, Any], text: str) -> str:
    # pydantic puts the kind of a union's member into the path; the file has no such level.
    path = tuple(str(part) for part in error["loc"])
    path = _without_kinds(schema, path)
    dotted = ".".join(path) or "the whole"
    where = f" (line {line})" if (line := _line_of(path, text)) else ""
    kind = error["type"]
    if kind == "extra_forbidden":
        section = path[:-1]
        known = [k.path[len(section)] for k in keys(schema) if k.path[: len(section)] == section]
        belongs = next((k for k in keys(schema) if k.path == path), None)
        if belongs and belongs.kinds:
            chosen = _value_at(data, (*section, KIND))
            return (
                f"{dotted}{where} is a key of {' and '.join(repr(k) for k in belongs.kinds)}, "
                f"not of {chosen!r}: change {'.'.join((*section, KIND))} or leave it out"
            )
        return f"{dotted}{where} is not a known key: {did_you_mean(path[-1], dict.fromkeys(known))}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        found = next((f for name, f in sections_of(schema).items() if name == path[0]), ())
        names = [kind_of(section) for section in found]
        given = _value_at(data, (*path, KIND))
        if given is None:
            return f"{dotted}.{KIND}{where} must be one of {', '.join(map(repr, names))}"
        return f"{dotted}.{KIND}{where} is {given!r}: {did_you_mean(str(given), names)}"
    value = error.get("input")
    if kind == "literal_error":
        choices = next((k.choices for k in keys(schema) if k.path == path), ())
        return f"{dotted}{where} is {value!r}: {did_you_mean(str(value), choices)}"
    message = str(error["msg"])
    if kind == "missing":
        return f"{dotted}{where} must be given"
    if kind == "value_error":  # raised by our own validators, whose sentence is already whole
        return message.removeprefix("Value error, ") + where
    return f"{dotted}{where} is {value!r}: {message[0].lower()}{message[1:]}"


def _without_kinds(schema: type[Config], path: tuple[str, ...]) -> tuple[str, ...]:
    kept: list[str] = []
    here: tuple[type[Config], ...] = (schema,)
    for part in path:
        if len(here) > 1 and part in {kind_of(section) for section in here}:
            here = tuple(section for section in here if kind_of(section) == part)
            continue
        kept.append(part)
        fields = [section.model_fields[part] for section in here if part in section.model_fields]
        here = tuple(s for field in fields for s in _sections(field.annotation))
    return tuple(kept)


def _value_at(data: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = data
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _line_of(path: Sequence[str], text: str) -> int | None:
    """The line of a TOML text on which a key is set, or the line of its section."""
    section: tuple[str, ...] = ()
    best: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            section = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if section == tuple(path):
                best = number
        elif entry := re.match(r"\s*([\w.\-\"']+)\s*=", line):
            here = (*section, *(part.strip("\"'") for part in entry[1].split(".")))
            if here == tuple(path):
                return number
    return best


# --- flags ------------------------------------------------------------------------------------------------------------


def flag_table(schema: type[Config]) -> dict[str, Key]:
    """Every flag that sets a key: its dotted name, and its last part alone where only one key ends so."""
    table: dict[str, Key] = {}
    by_leaf: dict[str, list[Key]] = {}
    for key in keys(schema):
        table[key.dotted] = key
        by_leaf.setdefault(key.path[-1], []).append(key)
        if key.path[-1] == KIND:  # --model cnn is --model.kind cnn
            table.setdefault(".".join(key.path[:-1]), key)
    for leaf, found in by_leaf.items():
        if len(found) == 1 and leaf not in table:
            table[leaf] = found[0]
    return table


def split_flags(schema: type[Config], argv: Sequence[str]) -> tuple[list[tuple[Key, str]], list[str]]:
    """Take the flags that set config keys out of a command line: (key, text) pairs, and the arguments that remain.

    Accepts ``--a.b value``, ``--a.b=value``, hyphens for underscores, ``--switch`` and ``--no-switch`` for true and false,
    and ``-s key=value``.
    """
    table = flag_table(schema)
    taken: list[tuple[Key, str]] = []
    rest: list[str] = []
    arguments = list(argv)
    i = 0
    while i < len(arguments):
        word = arguments[i]
        i += 1
        if word == "--":
            rest += arguments[i - 1 :]
            break
        if word in ("-s", "--set") and i < len(arguments) and "=" in arguments[i]:
            word = "--" + arguments[i]
            i += 1
            if (name := word[2:].partition("=")[0].replace("-", "_")) not in table:
                raise ConfigError(f"{name} is not a known key: {did_you_mean(name, table)}")
        if not word.startswith("--"):
            rest.append(word)
            continue
        name, has_value, value = word[2:].partition("=")
        name = name.replace("-", "_")
        switched_off = name.startswith("no_") and name not in table and name[3:] in table and table[name[3:]].is_switch
        key = table.get(name[3:] if switched_off else name)
        if key is None:
            rest.append(word)
        elif switched_off:
            taken.append((key, "false"))
        elif has_value:
            taken.append((key, value))
        elif key.is_switch and (i == len(arguments) or arguments[i].lower() not in ("true", "false")):
            taken.append((key, "true"))
        elif i == len(arguments) or (arguments[i].startswith("--") and len(arguments[i]) > 2):
            raise ConfigError(f"--{key.dotted} needs a value: {_what_it_takes(key)}")
        else:
            taken.append((key, arguments[i]))
            i += 1
    return taken, rest


def override(data: Mapping[str, Any], flags: Iterable[tuple[Key, str]]) -> dict[str, Any]:
    """A copy of nested values with flags put over them."""
    result = _deep_copy(data)
    for key, text in flags:
        here = result
        for part in key.path[:-1]:
            here = here.setdefault(part, {})
        value = _value_of(key, text)
        if key.path[-1] == KIND and here.get(KIND) not in (None, value):
            here.clear()  # the other keys belonged to the kind that is replaced
        here[key.path[-1]] = value
    return result


def _value_of(key: Key, text: str) -> Any:
    if key.is_optional and text.lower() in ("none", ""):
        return None
    if key.is_list:
        if text.strip().startswith("["):
            return _toml_value(text)
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return parts if key.choices or "str" in str(key.field.annotation) else [_toml_value(part) for part in parts]
    if key.is_text:
        return text
    return _toml_value(text)


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text.lower() if text.lower() in ('true', 'false') else text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _deep_copy(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _deep_copy(v) if isinstance(v, Mapping) else v for k, v in data.items()}


def _what_it_takes(key: Key) -> str:
    if key.choices:
        return "one of " + ", ".join(key.choices)
    return " or ".join(getattr(t, "__name__", str(t)) for t in _plain_types(key.field.annotation) if t is not type(None))


# --- writing ----------------------------------------------------------------------------------------------------------


def to_toml(config: Config, *, heading: str = "") -> str:
    """The config as TOML, every key with its value and, above it, what it means."""
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
        key = Key((*path, name), fields[name])
        lines += _comment(key)
        value = getattr(config, name)
        lines.append(f"# {name} = (not set)" if value is None else f"{name} = {_toml_text(value)}")
    for name in inner:
        section = getattr(config, name)
        lines += ["", f"[{'.'.join((*path, name))}]"]
        others = [kind_of(s) for s in _sections(fields[name].annotation) if kind_of(s) and s is not type(section)]
        lines += _wrapped(fields[name].description or type(section).__doc__ or "")
        if others:
            lines += _wrapped(f"Other kinds: {', '.join(others)}.")
        lines += _section_lines(section, (*path, name))
    return lines


def _comment(key: Key) -> list[str]:
    words = key.field.description or ""
    if key.choices and key.path[-1] != KIND:
        words = f"{words} One of: {', '.join(key.choices)}."
    return _wrapped(words)


def _wrapped(words: str) -> list[str]:
    import textwrap

    return [f"# {line}" for line in textwrap.wrap(" ".join(words.split()), width=108)]


def _toml_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml_text(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_text(k)} = {_toml_text(v)}" for k, v in value.items()) + "}"
    text = str(value)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + '"'
