"""Which task a table is for, from its column names and values: a list of rules, the most certain first.

The rules know task names only as words, so that no task is imported to find one. Tested in
tests/data/test_task_rules.py.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catena.data.column_choice import choose_columns, quoted
from catena.data.media_files import common_kind
from catena.data.readers.dialogue_lines import are_numbered_turns
from catena.data.readers.questions import ANSWER_KEYS, CONTEXT_KEYS, QUESTION_KEYS
from catena.data.readers.sample import list_names
from catena.data.replies import find_reply_rows, find_reply_trees
from catena.data.roles import (
    COMPOSED,
    DIALOGUE_COLUMNS,
    FILE,
    ITEMS,
    LABEL,
    LABEL_COLUMNS,
    MISSING,
    RATING_COLUMNS,
    SENTENCE_COLUMNS,
    SPEAKER_KEYS,
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
    find_related,
    names_pair,
)
from catena.data.schemes import describe_scheme
from catena.data.tables import Table
from catena.data.values import (
    SENTENCE,
    is_id,
    is_number,
    is_quantity,
    is_wordy,
    lookup,
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
        if text is not None and name != text and are_spans(list(map(to_spans, _column(table, name)))):
            why = f"text = {text!r}, tags = spans of characters in {name!r}" + _intents(table)
            columns = {"text": ColumnChoice((text,)), "tags": ColumnChoice((name,))}
            return TaskGuess("tag", why, columns, "spans")
    return None


def _intents(table: Table) -> str:
    """How to read the intents of texts that have spans too, as those of chatbots have."""
    name = find_column(table.names, ("intent", "intents"), exact=True)
    if name is None or not repeats(strings(_column(table, name))):
        return ""
    return f" ('catena train classify' reads {name!r} as labels)"


def are_spans(values: Sequence[Any]) -> bool:
    """Whether values are lists of ``[start, end, label]`` or of objects with start, end and label, except a few."""
    spans = [span for value in values if isinstance(value, list) for span in value]
    return bool(spans) and sum(to_span(span) is not None for span in spans) >= 0.9 * len(spans)


def to_spans(value: Any) -> Any:
    """The list of spans that a cell of a table spells as JSON, or the value itself."""
    if not isinstance(value, str) or not re.match(r"\[\s*[{\[]", value):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


_SPAN_LABELS = ("label", "labels", "tag", "entity", "type", "entity_type", "entity_group")
"""Keys of the label of a span."""


def to_span(value: Any) -> tuple[int, int, str] | None:
    """The start, end and label of a span in any of its usual forms, or None."""
    if isinstance(value, Mapping):
        value = value["value"] if isinstance(value.get("value"), Mapping) else value
        keys = ("start", "begin", "start_offset"), ("end", "stop", "end_offset"), _SPAN_LABELS
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
        every = [str(one) for cell in tags for one in cell]
        is_scheme = describe_scheme(set(every)) is not None
        if max(map(len, tags), default=0) < 2 or not (is_scheme or (_is_tag_name(tag) and _are_few_tags(every, tags))):
            continue
        fitting = [name for name in table.names if name != tag and _are_equally_long(parts[name], tags)]
        if fitting:
            word = find_column(fitting, WORD_COLUMNS) or find_column(fitting, TEXT_COLUMNS) or fitting[0]
            columns = {"word": ColumnChoice((word,)), "tag": ColumnChoice((tag,))}
            return TaskGuess("tag", f"words = {word!r}, tags = {tag!r}, a sentence in each record", columns, "lists")
    return None


def _is_tag_name(name: str) -> bool:
    return name.strip().casefold() in TAG_COLUMNS


def _are_few_tags(every: Sequence[str], cells: Sequence[Sequence[Any]]) -> bool:
    """Whether cells have several tags each, in capitals, and few different ones."""
    return len(every) >= 3 * len(cells) and len(set(every)) <= 0.2 * len(every) and all(map(_TAG.fullmatch, every))


_TAG = re.compile(r"[A-Z0-9$#.,:;!?'`\"()|_*+/-]+")


def _are_equally_long(first: Sequence[list[Any]], second: Sequence[list[Any]]) -> bool:
    return sum(len(a) == len(b) for a, b in zip(first, second, strict=True)) >= 0.9 * len(first)


# --- records with several texts ---------------------------------------------------------------------------------------


def _questions(table: Table) -> TaskGuess | None:
    """Questions about texts with their answers, as in SQuAD."""
    names = {name.strip().casefold() for name in table.names}
    parts = {name.rsplit(".", 1)[-1] for name in names}
    if not parts.isdisjoint(_CHOICES) and any("question" in name for name in names):
        why = f"{table.path} has questions with several choices, which no task reads. Write the question and the right "
        return TaskGuess(None, f"{why}choice in two columns, question and answer, to learn to answer them.")
    has_context, has_question = (not names.isdisjoint(keys) for keys in (CONTEXT_KEYS[:-1], QUESTION_KEYS))
    has_answers = not names.isdisjoint((*ANSWER_KEYS, "answers.text"))
    if not (has_context and has_question and has_answers):
        return None
    return TaskGuess("read", "questions on texts with their answers (SQuAD)")


_MANY = 10
"""Number of records from which labels that never repeat are targets."""
_CHOICES = frozenset(("choices", "options", "answerkey", "endings"))


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


def find_turn_rows(table: Table) -> dict[str, ColumnChoice] | None:
    """The columns of text, speaker and dialogue of a table with a turn in each row; None if it is something else.

    A channel as Discord is exported is one dialogue.
    """
    if not table.has_header:
        return None
    if [name.strip().casefold() for name in table.names[:4]] == ["authorid", "author", "date", "content"]:
        return {"text": ColumnChoice((table.names[3],)), "speaker": ColumnChoice((table.names[1],))}
    dialogue = find_column(table.names, DIALOGUE_COLUMNS, exact=True)
    speaker = find_column([name for name in table.names if name != dialogue], SPEAKER_KEYS, exact=True)
    others = [name for name in table.names if name not in (dialogue, speaker)]
    text = find_column(others, TEXT_COLUMNS, exact=True)
    if (
        dialogue is None
        or speaker is None
        or text is None
        or find_column(others, LABEL_COLUMNS, exact=True) is not None
    ):
        return None
    if not all(repeats(strings(_column(table, name))) for name in (dialogue, speaker)):
        return None
    return {
        role: ColumnChoice((name,)) for role, name in (("text", text), ("speaker", speaker), ("dialogue", dialogue))
    }


def _turn_rows(table: Table) -> TaskGuess | None:
    """A turn in each row, with its speaker and the id of its dialogue; without ids, the dialogues are not known."""
    columns = find_turn_rows(table)
    if columns is None:
        return None
    said = ", ".join(f"{role} = {choice}" for role, choice in columns.items())
    return TaskGuess("converse", f"a turn in each row, {said}", columns)


def _replies(table: Table) -> TaskGuess | None:
    """Messages that may have several replies, in trees or with the ids of their parents."""
    if (column := find_reply_trees(table)) is not None:
        return TaskGuess("converse", f"messages with replies = {column!r}", {"turns": ColumnChoice((column,))})
    if (columns := find_reply_rows(table)) is None:
        return None
    why = ", ".join(f"{role} = {name!r}" for role, name in columns.items())
    return TaskGuess(
        "converse", f"a message in each row, {why}", {role: ColumnChoice((name,)) for role, name in columns.items()}
    )


def _relations(table: Table) -> TaskGuess | None:
    """Two texts and a label of their relation, such as entailment, which no task reads together."""
    sides = find_related(table.names) if table.has_header else None
    if sides is None:
        return None
    first, second = (table.names[side] for side in sides)
    others = [name for name in table.names if name not in (first, second) and not is_id(_column(table, name))]
    label = find_column(others, LABEL_COLUMNS) or next(
        (n for n in others if _are_labels(strings(_column(table, n)))), ""
    )
    if not label or not is_wordy(strings(_column(table, first))) or not is_wordy(strings(_column(table, second))):
        return None
    values = strings(_column(table, label))
    if is_quantity(values, is_rating=find_column([label], RATING_COLUMNS) is not None):
        command = f"catena train regress {table.path} --text-column {quoted(first)} --value-column {quoted(label)}"
        one = f"To predict it from one of the texts, use '{command}'"
    else:
        one = f"To classify one of the texts, pass --text-column {quoted(first)} --label-column {quoted(label)}"
    why = f"{table.path} has two texts, {first!r} and {second!r}, and the label {label!r} of both, which no task reads."
    why += f" {one}; to learn pairs, use 'catena train translate' with --source-column {quoted(first)} "
    why += f"--target-column {quoted(second)}."
    return TaskGuess(None, why)


def _preferences(table: Table) -> TaskGuess | None:
    """A good and a bad answer to the same prompt."""
    good, bad = (find_column(table.names, (name,), exact=True) for name in ("chosen", "rejected"))
    if good is None or bad is None or not table.has_header:
        return None
    prompt = find_column(table.names, ("prompt", "question", "instruction"), exact=True)
    cure = f"'catena train lm {table.path} --text-column {quoted(good)}'"
    if prompt is not None:
        columns = f"--context-column {quoted(prompt)} --response-column {quoted(good)}"
        cure = f"'catena train converse {table.path} {columns}'"
    why = (
        f"{table.path} has preferences, {good!r} and {bad!r} answers, which no task reads together. To learn from the "
    )
    return TaskGuess(None, f"{why}good ones, use {cure}.")


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
    if responses and _are_few(targets) and (prompt := _prompt(table, source, target)) is not None:
        return _labeled_prompts(table, prompt, target)
    if responses and not is_labeled and (certain or label in (None, target) or _are_marks(_column(table, label))):
        return TaskGuess("converse", f"context = {source!r}, response = {target!r}", columns)
    if responses and label is not None and label.casefold() in _TOPICS and _are_answers(targets):
        why = f"context = {source!r}, response = {target!r} ('catena train classify' reads {label!r} as labels)"
        return TaskGuess("converse", why, columns)
    if label is not None and not certain and (label != target or _are_labels(targets)):
        return None
    if min(mean_words(sources), mean_words(targets)) >= SENTENCE:
        return TaskGuess("translate", why, columns)
    if label is None or certain:
        return TaskGuess("transduce", f"pairs of words, source = {source!r}, target = {target!r}", columns)
    return None


def _prompt(table: Table, source: str, target: str) -> str | None:
    """The column of the texts that responses label: the source, or another if all records have one instruction."""
    if len(set(strings(_column(table, source)))) == 1:
        found = find_column([name for name in table.names if name not in (source, target)], TEXT_COLUMNS, exact=True)
        source = source if found is None else found
    texts = strings(_column(table, source))
    return source if mean_words(texts) >= SENTENCE and len(set(texts)) > 1 else None


def _are_few(values: Sequence[str]) -> bool:
    """Whether responses are few short values that repeat: labels, in the form in which chat models are trained."""
    distinct = set(values)
    return len(values) >= 2 * _MANY and 1 < len(distinct) <= 0.1 * len(values) and mean_words(distinct) < SENTENCE


def _labeled_prompts(table: Table, source: str, target: str) -> TaskGuess:
    """Texts and their labels under the names of prompts and responses."""
    columns = {"text": ColumnChoice((source,)), "label": ColumnChoice((target,))}
    why = f"{describe_labels(table, columns)}, because its values repeat ('catena train converse' reads responses)"
    return TaskGuess("classify", why, columns)


_TOPICS = ("category", "topic", "intent", "tag", "tags")
"""Names of labels that sort questions with answers, rather than say which answers are good."""


def _are_answers(values: Sequence[str]) -> bool:
    return mean_words(values) >= SENTENCE and not repeats(values)


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
    if columns is None:
        return None
    if (reason := _are_tags(table, columns)) is not None:
        return TaskGuess(None, reason)
    if (reason := _are_targets(table, columns)) is not None:
        return TaskGuess(None, reason)
    values = strings(value for column in columns["label"].columns for value in _column(table, column))
    is_rating = find_column(columns["label"].columns, RATING_COLUMNS) is not None
    if columns["label"].one_hot or not is_quantity(values, is_rating=is_rating):
        return TaskGuess("classify", describe_labels(table, columns), columns)
    text, value = columns["text"], columns["label"]
    why = f"text = {_shown(text, table)}, value = {_shown(value, table)}, which has {len(set(values)):,} different "
    why += "numbers: a quantity, not classes ('catena train classify' reads them as labels)"
    return TaskGuess("regress", why, {"text": text, "value": value})


def _are_tags(table: Table, columns: Mapping[str, ColumnChoice]) -> str | None:
    """The error for words with tags of spans in each row and nothing that separates the sentences."""
    words = strings(_column(table, columns["text"].columns[0]))
    tags = strings(_column(table, columns["label"].columns[0]))
    if columns["label"].one_hot or mean_words(words) > 1.5 or len(set(tags)) < 2 or describe_scheme(tags) is None:
        return None
    return (
        f"{table.path} has a word and its tag in each row, and nothing that separates the sentences. Add a column "
        f"sentence_id, or write the words and tags with tabs and a blank line after each sentence, named .conll."
    )


def _are_targets(table: Table, columns: Mapping[str, ColumnChoice]) -> str | None:
    """The error for labels that are another sentence in almost each record, as doccano exports sequence to sequence."""
    label = columns["label"]
    if label.one_hot or len(table.sample) < _MANY:
        return None
    found: list[str] = []
    for value in (value for column in label.columns for value in _column(table, column)):
        with contextlib.suppress(ValueError):
            found += to_list(value, MISSING)
    if len(found) < _MANY or len(set(found)) < 0.9 * len(found) or mean_words(found) < SENTENCE:
        return None
    text, label_name = (choice.columns[0] for choice in (columns["text"], label))
    return (
        f"{table.path} has another text in almost each record of {label_name!r}: a target, not a class. To learn the "
        f"pairs, pass --source-column {quoted(text)} --target-column {quoted(label_name)}; to use them as labels "
        f"nevertheless, name the task, as in 'catena train classify'."
    )


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
    return f"text = {_shown(text, table)}, label = {_shown(label, table)}{by}{many}"


def _shown(choice: ColumnChoice, table: Table) -> str:
    return str(choice) if table.has_header else f"column {choice.columns[0]}"


# --- pairs and texts without names ------------------------------------------------------------------------------------


def _unnamed_values(table: Table) -> TaskGuess | None:
    """A number and a text in each row, where the numbers hardly repeat: a quantity, or what only the user knows."""
    names = [name for name in table.names if any(strings([lookup(row, name)]) for row in table.sample)]
    if table.has_header or len(names) != 2:
        return None
    values = {name: strings(_column(table, name), MISSING) for name in names}
    numbers = [name for name, own in values.items() if own and is_number(own) and not is_id(own)]
    texts = [name for name, own in values.items() if is_wordy(own) and not is_number(own)]
    if len(numbers) != 1 or len(texts) != 1:
        return None
    columns = {"text": ColumnChoice((texts[0],), "values"), "value": ColumnChoice((numbers[0],), "values")}
    if is_quantity(values[numbers[0]]):
        many = len(set(values[numbers[0]]))
        why = f"text = column {texts[0]}, value = column {numbers[0]}, which has {many:,} different numbers: a quantity"
        return TaskGuess("regress", why, columns)
    return TaskGuess(
        None,
        f"{table.path} has texts and numbers without a header. To predict the numbers, use 'catena train regress "
        f"{table.path}'; to use them as labels, pass --text-column {texts[0]} --label-column {numbers[0]}.",
    )


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
        text, label, source, target = _numbers_of_columns(table)
        return TaskGuess(
            None,
            f"{table.path} has {many} without a header. Add one, such as text,label, or name the columns by number: "
            f"--text-column {text} --label-column {label} for texts and labels, or --source-column {source} "
            f"--target-column {target} for pairs.",
        )
    if reason := _choose(table, TEXT, LABEL)[1]:
        return TaskGuess(None, reason)
    return TaskGuess(None, f"{table.path} has columns that no task reads: {list_names(table.names)}. Name a task.")


def _numbers_of_columns(table: Table) -> tuple[str, str, str, str]:
    """The likely columns of texts, labels, sources and targets of a table without names."""
    values = {name: strings(_column(table, name), MISSING) for name in table.names}
    labels = [name for name, own in values.items() if _are_labels(own) and len(set(own)) > 1]
    free = [name for name in table.names if name not in labels and values[name] and not is_id(values[name])]
    sizes = {name: mean_words(values[name]) for name in free}
    text = max(free or table.names, key=lambda name: sizes.get(name, 0.0))
    label = next((name for name in [*labels, *table.names] if name != text), text)
    pair = sorted(sorted(free, key=lambda name: -sizes[name])[:2], key=table.names.index)
    source, target = pair if len(pair) == 2 else (table.names[0], table.names[1 % len(table.names)])
    return text, label, source, target


RULES: tuple[Callable[[Table], TaskGuess | None], ...] = (
    _spans,
    _tokens,
    _tags_in_cells,
    _questions,
    _compositions,
    _turns,
    _replies,
    _turn_rows,
    _labeled_files,
    _preferences,
    _relations,
    _pairs,
    _labeled_texts,
    _unnamed_values,
    _unnamed_pairs,
    _texts,
    _nothing,
)
