"""Which task a table is for, from its column names and values: a list of rules, the most certain first.

The rules know task names only as words, so that no task is imported to find one. Tested in
tests/data/test_task_rules.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catena.data.column_choice import choose_columns, lookup
from catena.data.media_files import common_kind
from catena.data.readers.dialogue_lines import are_numbered_turns
from catena.data.readers.questions import ANSWER_KEYS, CONTEXT_KEYS, QUESTION_KEYS
from catena.data.readers.sample import list_names
from catena.data.roles import (
    COMPOSED,
    FILE,
    ITEMS,
    LABEL,
    LABEL_COLUMNS,
    MISSING,
    RATING_COLUMNS,
    SENTENCE_COLUMNS,
    TAG_COLUMNS,
    TEXT,
    TEXT_COLUMNS,
    TITLE,
    TURN_COLUMNS,
    WORD_COLUMNS,
    ColumnChoice,
    NoColumnError,
    Role,
    are_responses,
    find_column,
    find_pair,
    names_pair,
)
from catena.data.schemes import describe_scheme
from catena.data.tables import Table
from catena.data.values import (
    SENTENCE,
    is_id,
    is_quantity,
    is_wordy,
    mean_words,
    pair_by_values,
    repeats,
    spelled_list,
    strings,
    text_and_label,
    to_list,
    to_tokens,
)


@dataclass(frozen=True)
class TaskGuess:
    """The task of a table, the columns that it reads, and the evidence, which follows a description of the table."""

    task: str | None
    why: str
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)
    tokens: str | None = None
    """How the tokens of sentences are stored, if the records are sentences: "table", "lists" or "spans"."""


def guess_task(table: Table) -> TaskGuess:
    """The task of the first rule that fits."""
    for rule in RULES:
        if (found := rule(table)) is not None:
            return found
    raise AssertionError("the last rule fits every table")


def _column(table: Table, name: str) -> list[Any]:
    return [lookup(row, name) for row in table.sample]


def _choose(table: Table, *roles: Role) -> tuple[dict[str, ColumnChoice] | None, str]:
    """The columns of the roles, or None and the reason."""
    try:
        return choose_columns(roles, table.names, table.sample, {}, str(table.path), table.has_header), ""
    except NoColumnError as error:
        return None, str(error)


# --- sentences of tokens ----------------------------------------------------------------------------------------------


def _spans(table: Table) -> TaskGuess | None:
    """Texts with labeled spans of characters, as doccano, Prodigy, spaCy and Label Studio export them."""
    text = find_column(table.names, TEXT_COLUMNS)
    for name in table.names:
        if text is not None and name != text and are_spans(_column(table, name)):
            why = f"text = {text!r}, tags = spans of characters in {name!r}"
            columns = {"text": ColumnChoice((text,)), "tags": ColumnChoice((name,))}
            return TaskGuess("tag", why, columns, "spans")
    return None


def are_spans(values: Sequence[Any]) -> bool:
    """Whether values are lists of ``[start, end, label]`` or of objects with start, end and label."""
    lists = [value for value in values if isinstance(value, list)]
    spans = [span for value in lists for span in value]
    return bool(spans) and all(to_span(span) is not None for span in spans)


def to_span(value: Any) -> tuple[int, int, str] | None:
    """The start, end and label of a span in any of its usual forms, or None."""
    if isinstance(value, Mapping):
        value = value.get("value", value)
        keys = ("start", "begin", "start_offset"), ("end", "stop", "end_offset"), ("label", "labels", "tag", "entity")
        value = [next((value[key] for key in names if key in value), None) for names in keys]
        if isinstance(value[2], list) and len(value[2]) == 1:
            value[2] = value[2][0]
    if not isinstance(value, (list, tuple)) or len(value) != 3 or not isinstance(value[2], str):
        return None
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in value[:2]):
        return None
    return value[0], value[1], value[2]


def _tokens(table: Table) -> TaskGuess | None:
    """A token in each row, as in the NER table of Kaggle, or lists of tokens and tags, as in Hugging Face datasets."""
    word = find_column(table.names, WORD_COLUMNS)
    tag = find_column([name for name in table.names if name != word], TAG_COLUMNS)
    if word is None or tag is None:
        return None
    words = [value for value in _column(table, word) if value is not None]
    columns = {"word": ColumnChoice((word,)), "tag": ColumnChoice((tag,))}
    cells = [*words, *(value for value in _column(table, tag) if value is not None)]
    if words and all(_is_list(value) for value in (words if isinstance(words[0], list) else cells)):
        return TaskGuess("tag", f"words = {word!r}, tags = {tag!r}, a sentence in each record", columns, "lists")
    others = [name for name in table.names if name not in (word, tag)]
    sentence = find_column(others, SENTENCE_COLUMNS)
    if sentence is None or mean_words(strings(words)) > 1.5:
        return None
    columns["sentence"] = ColumnChoice((sentence,))
    why = f"word = {word!r}, tag = {tag!r}, a word in each row, with the sentences in {sentence!r}"
    return TaskGuess("tag", why, columns, "table")


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and spelled_list(value) is not None)


def _tags_in_cells(table: Table) -> TaskGuess | None:
    """Sentences with the tags of their words in another cell, where most have a tag for each word."""
    parts = {name: [to_tokens(value) or [] for value in _column(table, name)] for name in table.names}
    for tag, tags in parts.items():
        if max(map(len, tags), default=0) < 2 or describe_scheme({str(one) for cell in tags for one in cell}) is None:
            continue
        fitting = [name for name in table.names if name != tag and _are_equally_long(parts[name], tags)]
        if fitting:
            word = find_column(fitting, WORD_COLUMNS) or find_column(fitting, TEXT_COLUMNS) or fitting[0]
            columns = {"word": ColumnChoice((word,)), "tag": ColumnChoice((tag,))}
            return TaskGuess("tag", f"words = {word!r}, tags = {tag!r}, a sentence in each record", columns, "lists")
    return None


def _are_equally_long(first: Sequence[list[Any]], second: Sequence[list[Any]]) -> bool:
    return sum(len(a) == len(b) for a, b in zip(first, second, strict=True)) >= 0.9 * len(first)


# --- records with several texts ---------------------------------------------------------------------------------------


def _questions(table: Table) -> TaskGuess | None:
    """Questions about texts with their answers, as in SQuAD."""
    names = {name.strip().casefold() for name in table.names}
    has_context, has_question = (not names.isdisjoint(keys) for keys in (CONTEXT_KEYS[:-1], QUESTION_KEYS))
    has_answers = not names.isdisjoint((*ANSWER_KEYS, "answers.text"))
    if not (has_context and has_question and has_answers):
        return None
    return TaskGuess("read", "questions on texts with their answers (SQuAD)")


def _compositions(table: Table) -> TaskGuess | None:
    names = table.names
    title, items, text = (find_column(names, role.columns) for role in (TITLE, ITEMS, COMPOSED))
    if title is None or items is None or text is None or find_column(names, ("label", "labels")) is not None:
        return None
    columns = choose_columns((TITLE, ITEMS, COMPOSED), names, table.sample, {}, str(table.path), table.has_header)
    return TaskGuess("compose", ", ".join(f"{role} = {choice}" for role, choice in columns.items()), columns)


def _turns(table: Table) -> TaskGuess | None:
    for name in TURN_COLUMNS:
        column = find_column(table.names, (name,))
        if column is not None and any(isinstance(value, list) for value in _column(table, column)):
            why = f"turns = {column!r}, a dialogue in each record"
            return TaskGuess("converse", why, {"turns": ColumnChoice((column,))})
    return None


def _pairs(table: Table) -> TaskGuess | None:
    """Two columns of texts by name: contexts and responses, sentences, or words."""
    sides = find_pair(table.names) if table.has_header else None
    if sides is None:
        return None
    source, target = (table.names[side] for side in sides)
    columns = {"source": ColumnChoice((source,)), "target": ColumnChoice((target,))}
    sources, targets = strings(_column(table, source)), strings(_column(table, target))
    certain, responses = names_pair((source, target)), are_responses(source, target)
    rating = find_column([name for name in table.names if name not in (source, target)], RATING_COLUMNS)
    if (
        "summary" in (source.casefold(), target.casefold())
        and rating is not None
        and repeats(strings(_column(table, rating)))
    ):
        return None  # a review, its title and its rating
    label = find_column([name for name in table.names if name != source], LABEL_COLUMNS)
    why = f"pairs of texts, source = {source!r}, target = {target!r}"
    is_labeled = label == target and _are_labels(targets)
    if responses and not is_labeled and (label in (None, target) or _are_marks(_column(table, label))):
        return TaskGuess("converse", f"context = {source!r}, response = {target!r}", columns)
    if label is not None and not certain and (label != target or _are_labels(targets)):
        return None
    if min(mean_words(sources), mean_words(targets)) >= SENTENCE:
        return TaskGuess("translate", why, columns)
    if label is None or certain:
        return TaskGuess("transduce", f"pairs of words, source = {source!r}, target = {target!r}", columns)
    return None


def _are_labels(values: Sequence[str]) -> bool:
    return repeats(values) and mean_words(values) < SENTENCE


def _are_marks(values: Sequence[Any]) -> bool:
    """Whether values are 1 for correct responses and 0 for others."""
    return set(strings(values, MISSING)) <= {"0", "1", "0.0", "1.0"}


# --- files and labels ------------------------------------------------------------------------------------------------


def _labeled_files(table: Table) -> TaskGuess | None:
    """A column of file names of pictures or sounds, and a label."""
    file = find_column(table.names, FILE.columns) if table.has_header else None
    if file is None or find_column([name for name in table.names if name != file], TEXT_COLUMNS) is not None:
        return None
    kind = common_kind(strings(_column(table, file)))
    label = find_column([name for name in table.names if name != file], LABEL_COLUMNS)
    if kind is None or label is None:
        return None
    columns = {"file": ColumnChoice((file,)), "label": ColumnChoice((label,))}
    return TaskGuess("classify", f"{kind}s, file = {file!r}, label = {label!r}", columns)


# --- texts and labels -------------------------------------------------------------------------------------------------


def _labeled_texts(table: Table) -> TaskGuess | None:
    if not table.has_header and text_and_label(table.names, table.sample) is None:
        return None
    columns, _ = _choose(table, TEXT, LABEL)
    return None if columns is None else TaskGuess("classify", describe_labels(table, columns), columns)


def describe_labels(table: Table, columns: Mapping[str, ColumnChoice]) -> str:
    """The columns of texts and labels, and the labels of the sample, in words."""
    text, label = columns["text"], columns["label"]
    if label.one_hot:
        return f"text = {_shown(text, table)}, labels = the columns {label} with the value 1"
    labels: set[str] = set()
    for value in (value for column in label.columns for value in _column(table, column)):
        with contextlib.suppress(ValueError):
            labels.update(to_list(value, MISSING, integers=label.integers))
    many = f" ({len(labels)} label{'s' * (len(labels) != 1)}: {list_names(sorted(labels), 5)})" if labels else ""
    by = ", because its values repeat" if label.why == "values" else ""
    hint = "; these are numbers, which 'catena train regress' predicts" if _is_quantity(label, table) else ""
    return f"text = {_shown(text, table)}, label = {_shown(label, table)}{by}{many}{hint}"


def _is_quantity(label: ColumnChoice, table: Table) -> bool:
    return is_quantity(strings(value for column in label.columns for value in _column(table, column)))


def _shown(choice: ColumnChoice, table: Table) -> str:
    return str(choice) if table.has_header else f"column {choice.columns[0]}"


# --- pairs and texts without names ------------------------------------------------------------------------------------


def _unnamed_pairs(table: Table) -> TaskGuess | None:
    names = [name for name in table.names if any(strings([lookup(row, name)]) for row in table.sample)]
    if table.has_header or len(names) < 2 or (pair := pair_by_values(names, table.sample)) is None:
        return None
    if are_numbered_turns([str(row.get(pair[0]) or "") for row in table.sample]):
        why = f"{table.path} has turns with their number in the dialogue, as in ParlAI. Remove the numbers, and write a"
        return TaskGuess(None, f"{why} blank line after each dialogue.")
    columns = {"source": ColumnChoice((pair[0],), "values"), "target": ColumnChoice((pair[1],), "values")}
    sides = [mean_words(strings(_column(table, name))) for name in pair]
    kind = "texts" if min(sides) >= SENTENCE else "words"
    why = f"pairs of {kind}, source = column {pair[0]}, target = column {pair[1]}"
    return TaskGuess("translate" if kind == "texts" else "transduce", why, columns)


def _text_after_id(table: Table) -> str | None:
    """The column of texts of a table that has only another one, of ids."""
    ids = [name for name in table.names if is_id(_column(table, name))]
    others = [name for name in table.names if name not in ids]
    return others[0] if ids and len(others) == 1 and is_wordy(strings(_column(table, others[0]))) else None


def _texts(table: Table) -> TaskGuess | None:
    """Texts without labels, for language models."""
    if not table.has_header:
        return None
    columns, _ = _choose(table, TEXT)
    if columns is None:
        return None
    others = [name for name in table.names if name not in columns["text"].columns]
    if others:
        return TaskGuess(None, _choose(table, TEXT, LABEL)[1], columns)
    return TaskGuess("lm", f"text = {columns['text']}, without labels", columns)


def _nothing(table: Table) -> TaskGuess:
    if not table.has_header and (text := _text_after_id(table)) is not None:
        return TaskGuess(None, f"{table.path} has ids and texts and no labels. To train on the texts, name a task and "
                               f"pass --text-column {text}, as in 'catena train lm'.",
                         {"text": ColumnChoice((text,), "values")})  # fmt: skip
    if not table.has_header:
        many = f"{len(table.names)} columns" if len(table.names) > 1 else "one column"
        return TaskGuess(
            None,
            f"{table.path} has {many} without a header. Add one, such as text,label, or name the columns by number: "
            f"--text-column 1 --label-column 2 for texts and labels, or --source-column 1 --target-column 2 for pairs.",
        )
    if reason := _choose(table, TEXT, LABEL)[1]:
        return TaskGuess(None, reason)
    return TaskGuess(None, f"{table.path} has columns that no task reads: {list_names(table.names)}. Name a task.")


RULES: tuple[Callable[[Table], TaskGuess | None], ...] = (
    _spans,
    _tokens,
    _tags_in_cells,
    _questions,
    _compositions,
    _turns,
    _labeled_files,
    _pairs,
    _labeled_texts,
    _unnamed_pairs,
    _texts,
    _nothing,
)
