"""What a config class says: its keys, its sections, and the kinds that a section may be of."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

KIND = "kind"
"""The key that tells which of several configs a section holds: ``[model] kind = "cnn"``."""

NONE = "none"
"""How a file or a flag says None, which TOML has no word for."""


class Config(BaseModel):
    """The base of every config: frozen, refuses unknown keys, takes a field's docstring as description."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
    )

    @classmethod
    def implied(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values as a person gave them, with those that they imply and that defaults would hide; here none."""
        return data


@dataclass(frozen=True)
class ConfigKey:
    """One key of a config: where it stands, what it takes, what it means."""

    path: tuple[str, ...]
    field: FieldInfo
    kinds: tuple[str, ...] = ()
    """The kinds of the section it belongs to, when the section has several; otherwise empty."""
    others: tuple[FieldInfo, ...] = ()
    """The fields of the same name in the section's other kinds, which may take other values."""

    @property
    def dotted(self) -> str:
        """Its name in a file and behind ``--``, such as ``training.max_epochs``."""
        return ".".join(self.path)

    @property
    def types(self) -> tuple[Any, ...]:
        """The members of the union of all that it takes, also in the other kinds."""
        found = [t for field in (self.field, *self.others) for t in plain_types(field.annotation)]
        return tuple(dict.fromkeys(found))

    @property
    def values(self) -> tuple[Any, ...]:
        """The values it, or each of its items, may have, where they are listed one by one; else empty."""
        if self.path[-1] == KIND and self.kinds:
            return self.kinds
        return tuple(dict.fromkeys(value for t in self.types for value in _literals(t)))

    @property
    def choices(self) -> tuple[str, ...]:
        """The same as text."""
        return tuple(str(value) for value in self.values)

    @property
    def is_text(self) -> bool:
        """Whether any words may be its value."""
        return any(is_text(t) for t in self.types)

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return any(is_sequence(t) for t in self.types)

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return bool in self.types

    @property
    def is_optional(self) -> bool:
        """Whether ``none`` turns it off."""
        return type(None) in self.types and NONE not in self.choices


def keys(schema: type[Config], prefix: tuple[str, ...] = ()) -> Iterator[ConfigKey]:
    """Every key of a config class, sections opened, in the order of the file, kinds of a section merged."""
    return iter(_keys(schema, prefix))


@cache  # a command asks for the same keys several times, and takes longer to list them than to read its words
def _keys(schema: type[Config], prefix: tuple[str, ...]) -> tuple[ConfigKey, ...]:
    found: list[ConfigKey] = []
    for name, field in schema.model_fields.items():
        path = (*prefix, name)
        sections = section_classes(field.annotation)
        if not sections:
            found.append(ConfigKey(path, field))
            continue
        merged: dict[tuple[str, ...], ConfigKey] = {}
        for section in sections:
            for key in _keys(section, path):
                if len(sections) > 1 and len(key.path) == len(path) + 1:
                    key = replace(key, kinds=(get_kind(section),))
                merged[key.path] = _merge(merged[key.path], key) if key.path in merged else key
        found += merged.values()
    return tuple(found)


def chosen_paths(
    schema: type[Config], data: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The paths of the keys that a config has whose sections are of the kinds in ``data``, or of the default ones."""
    return _paths(schema, data, prefix) if data else iter(_default_paths(schema, prefix))


@cache
def _default_paths(schema: type[Config], prefix: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(_paths(schema, {}, prefix))


def _paths(schema: type[Config], data: Mapping[str, Any], prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in schema.model_fields.items():
        sections = section_classes(field.annotation)
        if not sections:
            yield (*prefix, name)
            continue
        inner = data.get(name)
        inner = inner if isinstance(inner, Mapping) else {}
        kind = inner.get(KIND, getattr(get_default(field), KIND, None))
        for section in [s for s in sections if get_kind(s) == kind] or sections:
            yield from chosen_paths(section, inner, (*prefix, name))


def get_default(field: FieldInfo) -> Any:
    """The default of a field, made anew if a factory makes it; None if there is none, or it depends on other values."""
    if field.is_required() or getattr(field, "default_factory_takes_validated_data", False):  # since pydantic 2.10
        return None
    return field.get_default(call_default_factory=True)


def _merge(first: ConfigKey, second: ConfigKey) -> ConfigKey:
    kinds = tuple(dict.fromkeys((*first.kinds, *second.kinds)))
    return replace(first, kinds=kinds, others=(*first.others, second.field, *second.others))


def get_sections(schema: type[Config]) -> dict[str, tuple[type[Config], ...]]:
    """The sections of a config class by name, each with the classes it may hold."""
    return {name: found for name, f in schema.model_fields.items() if (found := section_classes(f.annotation))}


def get_kind(section: type[Config]) -> str:
    """The value of ``kind`` that stands for this class, or "" if it has none."""
    field = section.model_fields.get(KIND)
    return str(field.default) if field else ""


def section_classes(annotation: Any) -> tuple[type[Config], ...]:
    """The config classes of an annotation: none for a plain key, several for a section of several kinds."""
    return tuple(t for t in plain_types(annotation) if isinstance(t, type) and issubclass(t, Config))


def plain_types(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, with ``Annotated`` taken off; a plain type is a union of one."""
    if get_origin(annotation) is Annotated:
        return plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(t for part in get_args(annotation) for t in plain_types(part))
    return (annotation,)


def is_sequence(annotation: Any) -> bool:
    """Whether values are written as a TOML list."""
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, (tuple, list, set, frozenset))


def is_text(annotation: Any) -> bool:
    """Whether values, or the items of a list of them, are written as a TOML string."""
    if is_sequence(annotation):
        return any(is_text(t) for item in get_args(annotation) for t in plain_types(item))
    if get_origin(annotation) is Literal:
        return any(isinstance(value, str) for value in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, (str, PurePath))


def _literals(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if is_sequence(annotation):
        return tuple(v for item in get_args(annotation) for t in plain_types(item) for v in _literals(t))
    return ()
