"""The structure of config classes: keys, sections, and the kinds of a section."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

KIND = "kind"
"""The key that selects one of several configs for a section: ``[model] kind = "cnn"``."""

NONE = "none"
"""How a file or an option writes None, which TOML lacks."""


class Config(BaseModel):
    """Base class of configs: frozen, without unknown keys, described by the docstrings of its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        # pydantic's use_attribute_docstrings takes six times as long, half of the time that all configs take.
        super().__pydantic_init_subclass__(**options)
        described = _attribute_docstrings(cls.__module__).get(cls.__qualname__, {})
        for name, field in cls.__pydantic_fields__.items():
            bases = (base.model_fields for base in cls.__bases__ if issubclass(base, BaseModel))
            inherited = (fields[name].description for fields in bases if name in fields)
            field.description = described.get(name) or field.description or next(inherited, None)

    @classmethod
    def implied(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The given values plus those that they imply and that defaults would hide. By default, unchanged."""
        return data


@cache
def _attribute_docstrings(module: str) -> dict[str, dict[str, str]]:
    """The docstrings below the fields of the classes of a module, by the qualified name of the class."""
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None or not Path(path).is_file():
        return {}
    found: dict[str, dict[str, str]] = {}
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(Path(path).read_bytes()))]
    while waiting:
        prefix, node = waiting.pop()
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef):
                found[prefix + inner.name] = _class_docstrings(inner)
                waiting.append((f"{prefix}{inner.name}.", inner))
            elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                waiting.append((f"{prefix}{inner.name}.<locals>.", inner))
    return found


def _class_docstrings(definition: ast.ClassDef) -> dict[str, str]:
    """The string after each annotated name in the body of a class."""
    found = {}
    for field, text in pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[field.target.id] = inspect.cleandoc(value.value)
    return found


@dataclass(frozen=True)
class ConfigKey:
    """One key of a config: its path, type and meaning."""

    path: tuple[str, ...]
    field: FieldInfo
    kinds: tuple[str, ...] = ()
    """The kinds that its section may have, if there are several."""
    others: tuple[FieldInfo, ...] = ()
    """The fields of the same name in the other kinds of the section, which may have other types."""

    @property
    def dotted(self) -> str:
        """Its name in a file and as an option, such as ``training.max_epochs``."""
        return ".".join(self.path)

    @property
    def types(self) -> tuple[Any, ...]:
        """The types in the union of all accepted types, including those of the other kinds."""
        found = [t for field in (self.field, *self.others) for t in plain_types(field.annotation)]
        return tuple(dict.fromkeys(found))

    @property
    def values(self) -> tuple[Any, ...]:
        """The values that it, or each of its items, may have, if they are enumerated; otherwise empty."""
        if self.path[-1] == KIND and self.kinds:
            return self.kinds
        return tuple(dict.fromkeys(value for t in self.types for value in _literals(t)))

    @property
    def choices(self) -> tuple[str, ...]:
        """The enumerated values as strings."""
        return tuple(str(value) for value in self.values)

    @property
    def is_text(self) -> bool:
        """Whether any string is a valid value."""
        return any(is_text(t) for t in self.types)

    @property
    def is_list(self) -> bool:
        """Whether it takes a list of values."""
        return any(is_sequence(t) for t in self.types)

    @property
    def is_switch(self) -> bool:
        """Whether it is a boolean."""
        return bool in self.types

    @property
    def is_optional(self) -> bool:
        """Whether ``none`` is a valid value."""
        return type(None) in self.types and NONE not in self.choices


def keys(schema: type[Config], prefix: tuple[str, ...] = ()) -> Iterator[ConfigKey]:
    """Every key of a config class, including those of sections, in file order, with kinds merged."""
    return iter(_keys(schema, prefix))


@cache  # a command lists the same keys several times, which takes longer than parsing its options
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
    """The paths of all keys of a config whose sections have the kinds in ``data``, or else the default kinds."""
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
    """The default of a field. None if it has no default, or if the default depends on other values."""
    if field.is_required() or field.default_factory_takes_validated_data:
        return None
    return field.get_default(call_default_factory=True)


def _merge(first: ConfigKey, second: ConfigKey) -> ConfigKey:
    kinds = tuple(dict.fromkeys((*first.kinds, *second.kinds)))
    return replace(first, kinds=kinds, others=(*first.others, second.field, *second.others))


def get_sections(schema: type[Config]) -> dict[str, tuple[type[Config], ...]]:
    """The sections of a config class by name, with the classes that each may have."""
    return {name: found for name, f in schema.model_fields.items() if (found := section_classes(f.annotation))}


def get_kind(section: type[Config]) -> str:
    """The value of ``kind`` of a config class, or "" if it has none."""
    field = section.model_fields.get(KIND)
    return str(field.default) if field else ""


def section_classes(annotation: Any) -> tuple[type[Config], ...]:
    """The config classes in an annotation: none for a plain key, several for a section with several kinds."""
    return tuple(t for t in plain_types(annotation) if isinstance(t, type) and issubclass(t, Config))


def plain_types(annotation: Any) -> tuple[Any, ...]:
    """The types in a union, without ``Annotated``. A plain type is a union of one."""
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
    """Whether values, or the items of a list, are written as TOML strings."""
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
