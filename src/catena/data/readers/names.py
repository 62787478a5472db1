"""Common column names of texts and labels, and the conversion of values to labels.

Used by the readers of CSV, JSON lines and Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catena.errors import FormatError
from catena.registry import did_you_mean

TEXT_NAMES = (
    "text", "sentence", "review", "utterance", "query", "question", "message", "comment", "tweet", "content",
    "document", "phrase", "sms", "post", "body", "description", "headline", "input", "prompt",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "intent", "class", "category", "sentiment", "polarity", "target", "topic", "tag",
    "tags", "categories", "emotion", "stars", "rating", "domain", "output", "y",
)  # fmt: skip
CONTEXT_COLUMNS = ("context", "question", "message")
_RESPONSE_COLUMNS = ("utterance", "response", "ground truth utterance", "ground_truth_utterance", "answer", "reply")
CONTEXT_NAMES = (*CONTEXT_COLUMNS, "prompt", "instruction", "query", "input")
RESPONSE_NAMES = (*_RESPONSE_COLUMNS, "completion", "output")
"""Names of contexts and responses, in tables and in JSON lines that have both."""
TURN_NAMES = ("turns", "messages", "conversations", "conversation", "dialogue", "dialog", "utterances")
SAID_NAMES = ("text", "content", "value", "utterance")
SPEAKER_NAMES = ("speaker", "role", "from", "name")
"""Keys of the turns of a dialogue, of the text of a turn, and of its speaker, in JSON lines."""
GOAL_NAMES = ("goal", "title", "name", "topic")
ITEM_NAMES = ("items", "ingredients", "agenda", "points", "keywords", "recipeingredient")
COMPOSED_NAMES = ("text", "directions", "instructions", "steps", "recipe", "body", "content", "recipeinstructions")
"""Keys of the goal, the items to mention and the text of compositions such as recipes."""
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class NoLabelColumnError(FormatError):
    """A table has no column of labels, or none with a common name."""


def find_name(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first known name that is present, ignoring case."""
    folded = {name.strip().casefold(): name for name in reversed(names)}
    return next((folded[name] for name in known if name in folded), None)


def named_columns(names: Sequence[str]) -> dict[str, str]:
    """The text and label columns detected by name, as options of a reader."""
    found: dict[str, str] = {}
    if (text := find_name(names, TEXT_NAMES)) is not None:
        found["text_column"] = text
    if (label := find_name([name for name in names if name != text], LABEL_NAMES)) is not None:
        found["label_column"] = label
    return found


@dataclass(frozen=True)
class PairColumns:
    """The columns of sources and targets, by name or number. They are detected by name if not set."""

    source: str | None = None
    target: str | None = None

    @property
    def named(self) -> bool:
        return self.source is not None or self.target is not None


@dataclass(frozen=True)
class SelectedColumns:
    """The columns to read: text and, unless texts are unlabeled, label."""

    text: str
    label: str | None


def choose_columns(
    where: str, names: Sequence[str], text_column: str | None, label_column: str | None, labeled: bool
) -> SelectedColumns:
    """The given columns, or else those with common names. Raise FormatError that lists the columns."""
    for asked in (text_column, label_column):
        if asked is not None and asked not in names:
            raise FormatError(f"{where} has no column {asked!r}: {did_you_mean(asked, names)}")
    rest = [name for name in names if name != label_column]
    text = text_column if text_column is not None else find_name(rest, TEXT_NAMES)
    there = ", ".join(repr(name) for name in list(names)[:20])
    if text is None:
        raise FormatError(
            f"{where} has no text column with a common name, only {there}. Set one by text_column (--text-column)."
        )
    if not labeled:
        return SelectedColumns(text, None)
    label = label_column if label_column is not None else find_name([n for n in rest if n != text], LABEL_NAMES)
    if label is None:
        raise NoLabelColumnError(
            f"{where} has no label column with a common name, only {there}. Set one by label_column "
            "(--label-column), or read it without labels."
        )
    return SelectedColumns(text, label)


def split_labels(value: str, separator: str | None) -> tuple[str, ...]:
    """The labels in one field: the whole field, or its parts between ``separator``, stripped and unique."""
    parts = value.split(separator) if separator else [value]
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def parse_labels(value: Any, separator: str | None, class_names: Sequence[str] = ()) -> tuple[str, ...]:
    """The labels of a JSON or Arrow value. Raises ValueError with the reason if it is not a label.

    ``class_names`` are the names of numbered classes, if the file has them.
    """
    if isinstance(value, (list, tuple)):
        found = [label for part in value for label in parse_labels(part, None, class_names)]
        return tuple(dict.fromkeys(found))
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # pandas writes integers as floats if a column has missing values
    if isinstance(value, int):
        if not class_names:
            return (str(value),)
        if not 0 <= value < len(class_names):
            raise ValueError(f"is class {value}, outside the {len(class_names)} classes")
        return (class_names[value],)
    if isinstance(value, str):
        return split_labels(whole_text(value), separator)
    kind = "missing" if value is None else f"a {type(value).__name__}"
    raise ValueError(f"is {kind}, not a string, an integer or a list of them")


def whole_text(value: Any) -> str:
    """The value if it is a string, or the joined lines if it is a list of strings.

    Raises ValueError with the reason if it is neither or not valid UTF-8.
    """
    if isinstance(value, (list, tuple)) and value and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise ValueError(f"is {kind}, not a string")
    if not value.isascii() and (half := _HALF_PAIR.search(value)):
        raise ValueError(f"has a lone surrogate, \\u{ord(half[0]):04x}")
    return value
