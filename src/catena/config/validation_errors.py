"""Invalid values of a config as sentences, one for each problem, with the names of the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from catena.config.schema import KIND, Config, ConfigKey, get_kind, keys, section_classes
from catena.registry import did_you_mean

MISSING = object()
_LONGEST_VALUE = 80
_FEW = 3
_PLAIN = {
    "a valid integer, got a number with a fractional part": "an integer",
    "a valid integer, unable to parse string as an integer": "an integer",
    "a valid integer": "an integer",
    "a valid number, unable to parse string as a number": "a number",
    "a valid number": "a number",
    "a valid boolean, unable to interpret input": "true or false",
    "a valid boolean": "true or false",
    "a valid string": "a string",
}
"""Phrases of pydantic and what to write instead. Longer phrases come first."""


def problems(
    schema: type[Config],
    error: ValidationError,
    data: Mapping[str, Any],
    text: str,
    show: Callable[[Sequence[str]], str] = ".".join,
) -> list[str]:
    """One sentence for each problem.

    Args:
        schema: the config class.
        error: the error of pydantic.
        data: the values.
        text: the TOML file, if the values came from one.
        show: the name of a key, from its path.
    """
    written = tomllib.loads(text) if text else {}
    reasons: dict[tuple[str, str], list[str]] = {}
    for found in error.errors(include_url=False):
        path, item = _place(schema, found["loc"], data)
        value = found["input"]
        if found["type"] == "union_tag_invalid":
            path, value = (*path, KIND), value[KIND]
        place = (show(path) if path else "the whole") + item + _where(path, data, written, text)
        if sentence := _whole_sentence(schema, found, path, place, data):
            name, _, rest = sentence.partition(" ")  # our own validators begin with the name of a field
            reasons[f"{show([name])} {rest}" if name in schema.model_fields else sentence, ""] = []
        else:  # a union of types gives one error for each of them, all about the same value
            ends = reasons.setdefault((place, _shown(value)), [])
            ends.append(_reason(schema, found, path, value, data))
    return [_ended(_joined(*start, list(dict.fromkeys(ends)))) for start, ends in reasons.items()]


def _ended(sentence: str) -> str:
    """The sentence with a mark at its end."""
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def _joined(name: str, value: str, ends: list[str]) -> str:
    """One sentence from the reasons why a value is invalid, or ``name`` if there are none."""
    needs = " or ".join(end for end in ends if end.startswith("must "))
    others = "".join(f": {end}" for end in ends if not end.startswith("must "))
    if not ends:
        return name
    return f"{name} {needs}, got {value}{others}" if needs else f"{name} is {value}{others}"


def _whole_sentence(
    schema: type[Config], found: ErrorDetails, path: tuple[str, ...], place: str, data: Mapping[str, Any]
) -> str:
    """The sentence for a problem that is not about a single invalid value, otherwise ""."""
    kind = found["type"]
    if kind == "missing":
        return f"{place} is required"
    if kind == "value_error":  # raised by our own validators as a complete sentence
        line = re.search(r" \(line \d+\)$", place)
        return found["msg"].removeprefix("Value error, ").removesuffix(".") + (line[0] if line else "")
    if kind == "extra_forbidden":
        return _unknown_key(schema, path, place, data)
    if kind == "union_tag_not_found":
        names = [get_kind(section) for section in _classes_at(schema, path, data)]
        return f"{place} must have a {KIND}, one of {', '.join(map(repr, names))}"
    return ""


def _unknown_key(schema: type[Config], path: tuple[str, ...], place: str, data: Mapping[str, Any]) -> str:
    *section, name = path
    classes, chosen = _classes_at(schema, section, data), _value_at(data, (*section, KIND))
    if owners := [repr(get_kind(c)) for c in classes if name in c.model_fields]:
        change = f"Change {'.'.join((*section, KIND))} or remove it."
        return f"{place} is an option of {' and '.join(owners)}, not of {chosen!r}. {change}"
    known = dict.fromkeys(key for c in classes if get_kind(c) in ("", chosen) for key in c.model_fields)
    same_name = list(dict.fromkeys(key.dotted for key in keys(schema) if key.path[-1] == name))
    if same_name and len(same_name) <= _FEW:
        return f"{place} is not a known key: did you mean {' or '.join(map(repr, same_name))}?"
    return f"{place} is not a known key: {did_you_mean(name, known)}"


def _reason(
    schema: type[Config], found: ErrorDetails, path: tuple[str, ...], value: object, data: Mapping[str, Any]
) -> str:
    kind = found["type"]
    if kind == "literal_error":
        return did_you_mean(str(value), _choices(schema, path, data))
    if kind == "union_tag_invalid":
        return did_you_mean(str(value), [get_kind(section) for section in _classes_at(schema, path[:-1], data)])
    if kind in ("model_type", "model_attributes_type"):
        return f"must be a section [{'.'.join(path)}]"
    message = re.sub(r"^Input should be", "must be", found["msg"])
    message = re.sub(r"greater than or equal to (\S+)$", r"\1 or more", message)
    message = re.sub(r"less than or equal to (\S+)$", r"at most \1", message)
    for words, meant in _PLAIN.items():
        message = message.replace(words, meant)
    return message[0].lower() + message[1:]


def _choices(schema: type[Config], path: tuple[str, ...], data: Mapping[str, Any]) -> list[str]:
    """The values that a key may have in the selected kind of its section."""
    classes, kind = _classes_at(schema, path[:-1], data), _value_at(data, (*path[:-1], KIND))
    chosen = [section for section in classes if path[-1] != KIND and get_kind(section) == kind] or classes
    fields = [section.model_fields[path[-1]] for section in chosen if path[-1] in section.model_fields]
    return list(dict.fromkeys(choice for field in fields for choice in ConfigKey(path, field).choices))


def _place(schema: type[Config], loc: Sequence[int | str], data: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """The key at pydantic's location, and the item in its value, such as "[2]" or "['a']", or "".

    Pydantic inserts the kind of a section and the type tried of a union into the path; a file has no such levels.
    """
    path: list[str] = []
    here: tuple[type[Config], ...] = (schema,)
    rest = list(loc)
    while rest and here:
        part = str(rest.pop(0))
        if len(here) > 1 and part in {get_kind(section) for section in here}:
            here = tuple(section for section in here if get_kind(section) == part)
            continue
        path.append(part)
        fields = [section.model_fields[part] for section in here if part in section.model_fields]
        here = tuple(s for field in fields for s in section_classes(field.annotation))
    item, value = "", _value_at(data, path)
    for index in rest:
        inside = value.get(index, MISSING) if isinstance(value, Mapping) else MISSING
        if isinstance(value, (list, tuple)) and isinstance(index, int) and index < len(value):
            inside = value[index]
        if inside is not MISSING:
            item, value = f"{item}[{index!r}]", inside
    return tuple(path), item


def _classes_at(schema: type[Config], path: Sequence[str], data: Mapping[str, Any]) -> tuple[type[Config], ...]:
    """The classes that the section at a path may have, given the kinds of the sections around it."""
    here: tuple[type[Config], ...] = (schema,)
    for depth, part in enumerate(path):
        if len(here) > 1:
            kind = _value_at(data, (*path[:depth], KIND))
            here = tuple(section for section in here if get_kind(section) == kind)
        fields = [section.model_fields[part] for section in here if part in section.model_fields]
        here = tuple(s for field in fields for s in section_classes(field.annotation))
    return here


def _value_at(data: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = data
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[: _LONGEST_VALUE - 1]}…"


def _where(path: tuple[str, ...], data: Mapping[str, Any], written: Mapping[str, Any], text: str) -> str:
    """The line where the file sets the value or opens its section, or "" if an option set it."""
    value, in_file = _value_at(data, path), _value_at(written, path)
    same = isinstance(in_file, Mapping) if isinstance(value, Mapping) else value == in_file
    if not same:
        return ""
    lines = (_line_of(path[:end], text) for end in range(len(path), 0, -1))
    return next((f" (line {line})" for line in lines if line), "")


def _line_of(path: Sequence[str], text: str) -> int | None:
    """The line of a TOML text that sets a key or opens its section."""
    section: tuple[str, ...] = ()
    best: int | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            section = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if section == tuple(path):
                best = number
        elif entry := re.match(r"\s*([\w.\-\"']+)\s*=", line):
            here = (*section, *(part.strip("\"'") for part in entry[1].split(".")))
            if here == tuple(path):
                return number
    return best
