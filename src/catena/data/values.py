"""Values of records as strings and labels, from all that files store: cells, JSON values, lists in cells, numbers."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from typing import Any

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"
"""Characters that are not seen, at the ends of a label: zero-width space, word joiner, byte-order mark, soft hyphen."""
_LIST = re.compile(r"\[.*\]|\(.*\)|\{.*\}", re.DOTALL)


def to_text(value: Any) -> str | None:
    """The text of a value: a string, a number, or lines that are joined; None if it is missing.

    Raises:
        ValueError: with the reason, which completes "1 …", if the value is not a text.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (list, tuple)):
        lines = [to_text(line) for line in value]
        value = "\n".join(line for line in lines if line is not None)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        value = _number(value)
    elif isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]  # a step of a recipe, as schema.org has it
    if not isinstance(value, str):
        raise ValueError(f"with a {_kind(value)} instead of a text")
    if not value.isascii() and _HALF_PAIR.search(value):
        raise ValueError("with half of a surrogate pair")
    return value


def to_list(
    value: Any,
    missing: frozenset[str],
    separator: str | None = None,
    class_names: Sequence[str] = (),
    integers: bool = False,
) -> tuple[str, ...]:
    """The distinct strings of a value, such as its labels; empty if it is missing.

    Args:
        value: a string, a number, a list of them, or a string that spells a list: ``['a', 'b']``.
        missing: spellings that count as no value.
        separator: what separates several values in one string, besides line ends.
        class_names: the names of numbered classes.
        integers: whether 1.0 is read as 1.

    Raises:
        ValueError: with the reason, which completes "1 …", if the value is not a label.
    """
    if isinstance(value, (list, tuple)):
        found = [part for one in value for part in to_list(one, missing, None, class_names, integers)]
    elif isinstance(value, bool):
        found = ["true" if value else "false"]
    elif isinstance(value, int) and class_names:
        if not 0 <= value < len(class_names):
            raise ValueError(f"with class {value}, outside the {len(class_names)} classes")
        found = [class_names[value]]
    else:
        text = to_text(value)
        if text is not None and (inner := _spelled_list(text)) is not None:
            return to_list(inner, missing, None, class_names, integers)
        parts = [] if text is None else re.split(f"{re.escape(separator)}|\n", text) if separator else [text]
        found = [strip_label(part) for part in parts]
        if integers:
            found = [re.sub(r"\.0+$", "", part) for part in found]
    return tuple(dict.fromkeys(part for part in found if part not in missing))


def strip_label(label: str) -> str:
    """A label without blanks and invisible characters at its ends."""
    return label.strip().strip(_INVISIBLE).strip()


def _spelled_list(text: str) -> list[Any] | None:
    """The list that a cell spells as JSON or as Python does, or None."""
    text = text.strip()
    if not text.startswith("[") or not _LIST.fullmatch(text):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and all(isinstance(one, (str, int, float)) for one in found):
            return found
    return None


def _number(value: int | float) -> str:
    """A number as it is usually written: integers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _kind(value: Any) -> str:
    return {bool: "true or false", dict: "nested object", bytes: "binary value"}.get(type(value), type(value).__name__)
