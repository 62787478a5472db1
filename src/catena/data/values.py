"""Values of records: as strings and labels, and what the values of a column show.

A value may be a cell, a JSON value, a list in a cell or a number. A column may have texts, labels, one side of pairs, 0
and 1, or quantities; the functions about columns take the values of a sample of records.
"""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import regex

from catena.data.quantities import find_style
from catena.data.roles import MISSING, SPLITS

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_INVISIBLE = "\u200b\u2060\ufeff\u00ad"
"""Characters that are not seen, at the ends of a label: zero-width space, word joiner, byte-order mark, soft hyphen."""
_LIST = re.compile(r"\[.*\]|\(.*\)|\{.*\}", re.DOTALL)
_ITEM = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?(?:0|[1-9]\d*)""")
_ARRAY = re.compile(rf"\[\s*(?:{_ITEM.pattern})(?:\s+(?:{_ITEM.pattern}))+\s*\]")
"""A list as NumPy writes it, without commas; Python would join its strings."""


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
    elif isinstance(value, dict) and isinstance(value.get("name"), str):  # a label with its color, as in GitHub
        return to_list(value["name"], missing, separator, class_names, integers)
    elif isinstance(value, int) and class_names:
        if not 0 <= value < len(class_names):
            raise ValueError(f"with class {value}, outside the {len(class_names)} classes")
        found = [class_names[value]]
    else:
        text = to_text(value)
        if text is not None and text not in missing and (inner := spelled_list(text)) is not None:
            return to_list(inner, missing, None, class_names, integers)
        parts = [] if text is None else re.split(f"{re.escape(separator)}|\n", text) if separator else [text]
        found = [strip_label(part) for part in parts]
        if integers:
            found = [re.sub(r"\.0+$", "", part) for part in found]
    return tuple(dict.fromkeys(part for part in found if part not in missing))


_ANGLED = re.compile(r"(<[^<>\s]+>)+")
"""Tags of Stack Exchange: ``<python><list>``."""


def strip_label(label: str) -> str:
    """A label in NFC, without blanks and invisible characters at its ends."""
    label = label if label.isascii() else unicodedata.normalize("NFC", label)
    return label.strip().strip(_INVISIBLE).strip()


def to_tokens(value: Any) -> list[Any] | None:
    """The parts of a value: a list, a cell that spells one, or the words of a text; None if it is something else."""
    if not isinstance(value, str):
        return value if isinstance(value, list) else None
    found = spelled_list(value)
    return value.split() if found is None else found


def spelled_list(text: str) -> list[Any] | None:
    """The list that a cell spells as JSON, Python, NumPy, Stack Exchange or Label Studio does, or None."""
    text = text.strip()
    if text.startswith("<") and _ANGLED.fullmatch(text):
        return text[1:-1].split("><")
    if text.startswith('{"choices"'):
        return _choices(text)
    if not text.startswith("[") or not _LIST.fullmatch(text):
        return None
    if _ARRAY.fullmatch(text):
        return [ast.literal_eval(item) for item in _ITEM.findall(text)]
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and all(isinstance(one, (str, int, float)) for one in found):
            return found
    return None


def _choices(text: str) -> list[Any] | None:
    """The list in ``{"choices": ["a", "b"]}``, as Label Studio writes several labels into a cell."""
    try:
        found = json.loads(text)["choices"]
    except (ValueError, KeyError):
        return None
    return found if isinstance(found, list) else None


def _number(value: int | float) -> str:
    """A number as it is usually written: integers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _kind(value: Any) -> str:
    return {bool: "true or false", dict: "nested object", bytes: "binary value"}.get(type(value), type(value).__name__)


# --- columns ----------------------------------------------------------------------------------------------------------


SENTENCE = 3.0
"""Mean number of words of a text from which pairs are sentences rather than words."""
_FEW = 20
"""Number of records below which labels need not repeat."""
_NO_BLANKS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*")
_NUMBERED = re.compile(r"([^\W\d]+[-_#:./ ]?)\d+")
_HEX = re.compile(r"(?=.*\d)[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)
_LICENSE = re.compile(r"CC[- ]BY|tatoeba\.org|Attribution:", re.IGNORECASE)


def flat_strings(values: Iterable[Any], missing: frozenset[str] = frozenset(("",))) -> list[str]:
    """As :func:`strings`, with the values in lists of strings, such as several labels of a record."""
    return strings((one for value in values for one in (value if isinstance(value, list) else [value])), missing)


def strings(values: Iterable[Any], missing: frozenset[str] = frozenset(("",))) -> list[str]:
    """The values that are strings or numbers, as strings without outer blanks, without missing ones."""
    found = (str(value).strip() for value in values if isinstance(value, (str, int, float)))
    return [value for value in found if value not in missing]


def mean_words(texts: Iterable[str]) -> float:
    """The mean number of words of texts. In scripts without blanks, two characters count as a word."""
    counted = [max(len(text.split()), len(_NO_BLANKS.findall(text)) / 2) for text in texts]
    return sum(counted) / len(counted) if counted else 0.0


def is_wordy(texts: Sequence[str]) -> bool:
    """Whether texts have two words or more on average."""
    return bool(texts) and mean_words(texts) >= 2


def repeats(values: Sequence[str]) -> bool:
    """Whether values repeat like labels: at most half of them are different."""
    return bool(values) and len(set(values)) <= 0.5 * len(values)


def is_label_column(labels: Sequence[Any], texts: Sequence[Any], *, is_first: bool = True) -> bool:
    """Whether a column has the labels of the texts in another: they repeat, and are not longer than the texts.

    Args:
        labels: the values of the column.
        texts: the values of the other.
        is_first: whether the labels are before the texts.
    """
    names, bodies = strings(labels, MISSING), strings(texts)
    if not names or not bodies or len(set(names)) > len(set(bodies)) or is_id(names):
        return False
    if mean_words(names) > max(1.5, mean_words(bodies)):
        return False
    if repeats(names):
        return True
    # Too few records to see labels repeat: a word before a text, or some of the words after texts, are labels.
    may_be_labels = is_first or len(set(names)) < len(names)
    return may_be_labels and len(names) < _FEW and all(" " not in name for name in names) and is_wordy(bodies)


def text_and_label(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The columns of texts and labels, if the values make it clear."""
    columns = {name: [row.get(name) for row in rows] for name in names}
    sizes = {name: sum(map(len, strings(values))) for name, values in columns.items()}
    texts = [name for name in names if is_wordy(strings(columns[name]))]
    if texts:
        text = max(texts, key=lambda name: sizes[name])
    else:  # single words: labels have fewer values than texts, and are usually first
        texts = list(names)
        text = max(names, key=lambda name: (len(set(strings(columns[name]))), names.index(name)))
    labels = [
        name
        for i, name in enumerate(names)
        if name != text
        and sizes[name]
        and is_label_column(columns[name], columns[text], is_first=i < names.index(text))
        and not is_date(columns[name])
        and not _names_splits(columns[name])
    ]
    if not labels or (len(names) > 2 and (not is_wordy(strings(columns[text])) or len(rows) < 4)):
        return None
    if len(names) > 2 and len([name for name in texts if name not in labels]) > 1:
        return None  # two columns of texts: perhaps pairs
    n_values = {name: len(set(strings(columns[name]))) for name in labels}
    return text, min(labels, key=lambda name: (n_values[name] == 1, n_values[name]))  # a constant is not a label


def _names_splits(values: Sequence[Any]) -> bool:
    """Whether values are the names of two or more of train, dev and test."""
    names = {value.casefold() for value in strings(values, MISSING)}
    return names <= SPLITS.keys() and len({SPLITS[name] for name in names}) > 1


def pair_by_values(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """The two columns of texts of a table without names: all others are ids, measures or attributions.

    A number that repeats may be the class of the texts, so that they are not a pair.
    """
    columns = {name: strings(row.get(name) for row in rows) for name in names}
    if len(names) == 2:
        return None if sum(map(is_id, columns.values())) == 1 else (names[0], names[1])  # two may be codes of codes
    texts = [name for name, values in columns.items() if is_wordy(values) and not _is_attribution(values)]
    others = [columns[name] for name in names if name not in texts]
    if len(texts) == 2 and all(_is_attribution(values) or is_id(values) or _is_measure(values) for values in others):
        return texts[0], texts[1]
    return None


def _is_measure(values: Sequence[str]) -> bool:
    """Whether values are numbers, and either all equal or too different for classes."""
    return is_number(values) and (len(set(values)) == 1 or not repeats(values))


def is_id(values: Sequence[Any]) -> bool:
    """Whether values identify records: all different, and numbers that count up, or one prefix and a number, or hex."""
    found = strings(values, MISSING)
    if len(found) < 3 or len(set(found)) < len(found):
        return False
    if all(value.isdecimal() for value in found):
        numbers = list(map(int, found))
        return len(found) >= _FEW or min(numbers) >= 100 or all(b == a + 1 for a, b in pairwise(numbers))
    if all(_HEX.fullmatch(value) for value in found):
        return True
    numbered = [_NUMBERED.fullmatch(value) for value in found]
    return all(numbered) and len({match[1] for match in numbered if match}) == 1


def _is_attribution(values: Sequence[str]) -> bool:
    return bool(values) and sum(_LICENSE.search(value) is not None for value in values) >= 0.9 * len(values)


def is_number(values: Sequence[Any]) -> bool:
    """Whether all values are numbers, also with a unit or marks between thousands."""
    found = strings(values, MISSING)
    if all(_NUMBER.fullmatch(value) for value in found):
        return True
    style = find_style(found)
    return all(style.parse(value) is not None for value in found)


def is_date(values: Sequence[Any]) -> bool:
    """Whether all values are dates."""
    found = strings(values, MISSING)
    return bool(found) and all(_DATE.fullmatch(value) for value in found)


def is_quantity(values: Sequence[str], *, is_rating: bool = False) -> bool:
    """Whether labels are values of a quantity, such as 3.71, rather than classes.

    They are numbers, and more of them are different than a rating has steps.

    Args:
        values: the labels.
        is_rating: whether their column is named as a rating or score is, so that many integers are a quantity too.
    """
    found = strings(values, MISSING)
    if not found or not is_number(found):
        return False
    distinct = len(set(found))
    style = find_style(found)
    if any(re.search(rf"{re.escape(style.decimal)}\d*[1-9]", value) for value in found):
        return distinct > (10 if distinct > 0.1 * len(found) else 20)
    return distinct > 11 if is_rating else distinct > max(100, 0.1 * len(found))


def one_hot_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns whose values are all 0 or 1, or true or false, or a mark or nothing, if there are two or more.

    Columns that spell their values in another way than most are something else.
    """
    spelled: dict[int, list[str]] = {}
    for name in names:
        if _RATERS.match(name):
            continue
        values = strings((row.get(name) for row in rows), MISSING)
        kind = next((i for i, form in enumerate(_ONE_HOT) if values and all(map(form.fullmatch, values))), None)
        if kind is not None:
            spelled.setdefault(kind, []).append(name)
    found = max(spelled.values(), key=len, default=[])
    ones = any(str(row.get(name)).strip() in ONES for row in rows for name in found)
    return tuple(found) if len(found) > 1 and ones else ()


ONES = frozenset(("1", "1.0", "true", "True", "TRUE", "x", "X", "✓", "✔", "yes", "Yes", "YES"))
"""Values of columns of 0 and 1 that mean that a record has the label."""
_RATERS = re.compile(r"(?i)(annotator|rater|coder|judge|worker|reviewer)[\W_]*\w?$")
"""Names of columns with the answers of one of several annotators, which are not labels."""
_ONE_HOT = (re.compile(r"[01](\.0+)?"), re.compile(r"true|false", re.IGNORECASE), re.compile(r"[xX✓✔]"))


def are_written_integers(values: Iterable[Any]) -> bool:
    """Whether all values are integers and some are written like 1.0, as pandas writes integers with gaps."""
    found = strings(values, MISSING)
    are_integers = all(re.fullmatch(r"[-+]?\d+(\.0+)?", value) for value in found)
    return are_integers and any("." in value for value in found)


def lookup(record: Mapping[str, Any], name: str) -> Any:
    """The value of a column, or of a dotted path into nested objects and lists, or None.

    ``annotations.0.label`` is the label of the first annotation.
    """
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
