"""JSON in which labels are keys, or in which each label has a list of texts.

intents of chatbots   ``{"intents": [{"tag": "hello", "patterns": ["hi", …], "responses": […]}]}``
Rasa                  ``{"nlu": [{"intent": "hello", "examples": "- hi\\n- hey\\n"}]}``
texts by label        ``{"spam": ["win now", …], "ham": […]}``
labels by text        ``{"win now": "spam", "see you": "ham"}``

Tested in tests/data/readers/test_label_maps.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from catena.data.readers.annotations import join_chunks
from catena.data.readers.json_arrays import read_entries, read_items
from catena.data.roles import LABEL_COLUMNS, SPLITS, TEXT_COLUMNS, TURN_COLUMNS, WORD_COLUMNS, find_pair, find_related
from catena.data.values import is_id, is_wordy, repeats

_INTENT_KEYS = ("tag", "intent", "intent_name", "intentName")
_LABEL_KEYS = (*_INTENT_KEYS, "label", "class", "category", "topic", "displayName", "display_name", "name")
_TEXTS_KEYS = (
    "patterns", "examples", "samples", "utterances", "phrases", "texts", "sentences", "queries", "questions",
    "training_phrases", "trainingPhrases", "training_examples", "trainingExamples", "expressions", "userSays",
)  # fmt: skip
"""Keys of the texts of a label, the best first."""
_CLASSES = frozenset(
    ("pos", "neg", "neu", "positive", "negative", "neutral", "spam", "ham", "yes", "no", "true", "false", "toxic",
     "0", "1", "2", "good", "bad", "fake", "real", "other")
)  # fmt: skip
"""Names of classes that are hardly names of columns."""
_MANY = 200
"""Number of arrays above which their keys are ids rather than labels."""
_FEW = 4
"""Number of entries below which an object is a record rather than a map of texts."""

_Numbered = list[tuple[int, dict[str, Any]]]
_Found = tuple[str, _Numbered]


# --- records that have a label and its texts --------------------------------------------------------------------------


def expand(records: _Numbered) -> _Numbered | None:
    """The texts of records that have a label and a list of its texts each, or None if they are something else."""
    groups = [(number, _texts_of(record)) for number, record in records]
    n_labels = sum(group is not None for _, group in groups)
    others = [record for (_, record), (_, group) in zip(records, groups, strict=True) if group is None]
    if not n_labels or not all(_is_lookup(record) for record in others):
        return None
    found = [(number, {"text": text, "label": group[0]}) for number, group in groups if group for text in group[1]]
    return found or None


def _texts_of(record: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """The label of a record and its texts, or None."""
    label = next((key for key in _LABEL_KEYS if isinstance(record.get(key), str)), None)
    if label is None or any(isinstance(record.get(name), str) for name in TEXT_COLUMNS):
        return None
    keys = (key for key in _TEXTS_KEYS if key in record and (key not in TURN_COLUMNS or label in _INTENT_KEYS))
    key = next(keys, None)
    texts = None if key is None else _to_texts(record[key])
    return None if texts is None else (record[label], texts)


def _to_texts(value: Any) -> list[str] | None:
    """The texts in a list of strings, of objects with a text or with chunks, or in lines with a dash, as in Rasa."""
    if isinstance(value, str):
        lines = [line.strip() for line in value.splitlines() if line.strip()]
        return [strip_entities(line[1:]) for line in lines] if all(line.startswith("- ") for line in lines) else None
    if not isinstance(value, list):
        return None
    texts = [_to_text(one) for one in value]
    return None if None in texts else [text for text in texts if text is not None]


def _to_text(value: Any) -> str | None:
    if isinstance(value, Mapping):
        chunks = next((value[key] for key in ("data", "parts") if isinstance(value.get(key), list)), None)
        value = value.get("text") if chunks is None else (join_chunks(chunks) or (None,))[0]
    return value if isinstance(value, str) else None


def strip_entities(text: str) -> str:
    """A text of Rasa without the marks of entities: ``to [Rome](city)`` or ``to [Rome]{"entity": "city"}``."""
    return re.sub(r"\[([^\]\n]+)\](\([^)\n]*\)|\{[^}\n]*\})", r"\1", text).strip()


def _is_lookup(record: Mapping[str, Any]) -> bool:
    """Whether a record is not an intent but a synonym, a lookup table or a regular expression of Rasa."""
    return not {"synonym", "lookup", "regex"}.isdisjoint(record)


# --- objects with labels or texts as keys -----------------------------------------------------------------------------


def read_map(document: Mapping[str, Any], text: str, start: int, path: Path) -> _Found | None:
    """The records of an object whose keys are labels or texts, or None."""
    if _names_columns(document) or not all(document.keys()):
        return None
    values = list(document.values())
    if len(values) > 1 and all(isinstance(value, dict) for value in values):
        named = [{"label": key, **value} for key, value in document.items()]
        if not all(_texts_of({**value, "label": key}) for key, value in document.items()):
            return None
        found = expand(list(enumerate(named, start=1)))
        return None if found is None else ("an object with the texts of each label", found)
    if len(values) > 1 and all(isinstance(value, list) for value in values) and _are_texts(document):
        grouped = list(_by_label(text, start, path))
        return "an object with a list of texts for each label", grouped
    if _are_labels_by_text(document):
        pairs = [(1 + text.count("\n", 0, at), {"text": key, "label": value})
                 for key, at, value in read_entries(text, start)]  # fmt: skip
        return "an object with a label for each text", pairs
    return None


def _by_label(text: str, start: int, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for label, at, _ in read_entries(text, start):
        for number, record in read_items(text, at, path):
            yield number, {**record, "label": label}


def _names_columns(names: Mapping[str, Any]) -> bool:
    """Whether keys are names of columns or of splits rather than labels or texts."""
    known = (*TEXT_COLUMNS, *LABEL_COLUMNS, *WORD_COLUMNS, *TURN_COLUMNS)
    folded = [name.strip().casefold() for name in names]
    if any(name in known or name.removesuffix("s") in known or is_split_name(name) for name in folded):
        return True
    return find_pair(list(names)) is not None or find_related(list(names)) is not None


def is_split_name(name: str) -> bool:
    """Whether a name has the name of train, dev or test in it: ``oos_train``."""
    return not is_long(name) and any(part in SPLITS for part in re.split(r"[\W_]+", name.casefold()))


def _are_texts(document: Mapping[str, list[Any]]) -> bool:
    """Whether each list has the texts of a label: strings that hardly repeat.

    Two lists of the same length may also be columns, unless they are named like usual classes.
    """
    texts = [[one for one in value if isinstance(one, str)] for value in document.values()]
    if any(len(own) < len(value) for own, value in zip(texts, document.values(), strict=True)) or not any(texts):
        return False
    every = [one for own in texts for one in own]
    if len(set(every)) <= 0.5 * len(every) or sum(map(is_long, document)) > 0.5 * len(document):
        return False
    if len(set(map(len, texts))) > 1 or all(name.strip().casefold() in _CLASSES for name in document):
        return True
    return len(texts) > 2 and all(is_wordy(own) and not repeats(own) for own in texts)


def is_long(name: str) -> bool:
    """Whether a key is longer than labels are."""
    return len(name.split()) > 3


def _are_labels_by_text(document: Mapping[str, Any]) -> bool:
    """Whether keys are texts and values are their labels, or lists of them, which repeat."""
    if len(document) < _FEW or not is_wordy(list(document)):
        return False
    labels: list[Any] = []
    for value in document.values():
        labels += value if isinstance(value, list) else [value]
    if not labels or not all(isinstance(one, (str, int)) for one in labels):
        return False
    return repeats(list(map(str, labels))) and not any(is_long(str(label)) for label in labels)


# --- arrays with labels as keys ---------------------------------------------------------------------------------------


def label_arrays(found: Sequence[tuple[str, ...]]) -> list[str] | None:
    """The label of each array, if the paths to arrays of records differ in one key that may be the name of a label."""
    if not 2 <= len(found) <= _MANY or len({len(keys) for keys in found}) > 1:
        return None
    differing = [i for i, parts in enumerate(zip(*found, strict=True)) if len(set(parts)) > 1]
    labels = [keys[differing[0]] for keys in found] if len(differing) == 1 else []
    return labels if labels and not any(map(is_split_name, labels)) and not is_id(labels) else None
