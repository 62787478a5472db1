"""Files of conversations as exchanges: a context and its responses.

pairs        a table or lines of context<TAB>response; the columns are named question and answer or similar, set by the
             user, or the only two
labeled      a table with context, response and label 1 or 0; consecutive rows with the same context belong together
distractors  a table with context, response and distractor_0, distractor_1, …
responses    JSON with context (question, prompt, …) and response, responses, answer, completion, …; optionally
             distractors, or random_negative_responses and adversarial_negative_responses (DailyDialog++)
turns        JSON with turns, messages, … (strings, or objects with text and speaker, content and role); a text may be a
             list of parts, and objects with an empty text are not turns
rows         a table with a turn, its speaker and the id of its dialogue in each row
trees        JSON with a message and its replies, which have replies
replies      a table with a message, its id and the id of the message before it in each row
dialogue     lines of turns, as in :mod:`~catena.data.readers.dialogue_lines`

In tables, the turns of a context are separated by ``__eot__``, as in the Ubuntu corpus. System turns are not turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.readers import dialogue_lines
from catena.data.readers.delimited import Row
from catena.data.readers.dialogue_lines import END_OF_UTTERANCE, may_be_speaker
from catena.data.readers.layout import find_layout
from catena.data.readers.sample import UNKNOWN, Sample, take_sample
from catena.data.readers.turns import to_texts, turns_and_speakers
from catena.data.reading import DamagedRecords, ReadCounter, parse_rows
from catena.data.records import RecordFile, open_records
from catena.data.replies import Message, find_reply_rows, find_reply_trees, read_messages, read_trees, walk
from catena.data.roles import CONTEXT_COLUMNS, RESPONSE_COLUMNS, SOURCE, TARGET, TURN_COLUMNS, find_column, find_pair
from catena.data.tables import Table, open_table
from catena.data.task_rules import find_turn_rows
from catena.data.values import lookup, to_text
from catena.errors import FormatError
from catena.registry import did_you_mean

KINDS = ("pairs", "labeled", "distractors", "responses", "turns", "rows", "trees", "replies", "dialogue")
END_OF_TURN = "__eot__"
_LONGEST_CONTEXT = 100
_DISTRACTOR = re.compile(r"distractor[_ ]?(\d+)$", re.IGNORECASE)
_GOOD = ("positive_responses", "responses", *RESPONSE_COLUMNS)


@dataclass(frozen=True)
class ConversationFormat:
    """The kind of a file of conversations, how it is stored, and the evidence."""

    kind: str
    stored: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)


def split_turns(text: str) -> tuple[str, ...]:
    """The turns of a context in one line: the text between ``__eot__`` marks, without utterance marks."""
    parts = (part.replace(END_OF_UTTERANCE, " ") for part in text.split(END_OF_TURN))
    return tuple(" ".join(part.split()) for part in parts if part.strip())


# --- format detection -------------------------------------------------------------------------------------------------


def detect_conversations(
    path: Path, encoding: str | None = None, columns: Mapping[str, str] | None = None
) -> ConversationFormat:
    """The kind of a file of conversations.

    Args:
        path: the file.
        encoding: UTF-8 if omitted.
        columns: the columns of "context" and "response", if the user sets them.

    Raises:
        FormatError: if the file has no conversations, with the cure.
    """
    sample = take_sample(path, encoding)
    found = detect_format(path, encoding)
    if found.format == UNKNOWN:
        raise FormatError(found.why)
    if found.format in ("json", "jsonl", "parquet", "datasets", "xlsx"):
        return _of_table(open_table(path, found.format, found.options, encoding), found.format, columns)
    if columns:
        return ConversationFormat("pairs", "tsv" if _has_tabs(sample) else "csv", "its columns are set")
    named = _names_of_both(sample)
    if not named and found.format in ("dialogue", "text") and not sample.is_named(".csv", ".tsv"):
        return ConversationFormat("dialogue", "text", f"its lines are turns ({found.why.split(';')[0]})")
    layout = find_layout(sample.numbered(), "csv" if sample.is_named(".csv") else "", sample.whole, named)
    if layout is None or layout.width < 2 or _names_speakers(sample):
        return ConversationFormat("dialogue", "text", "its lines are turns")
    stored, options = "tsv" if layout.layout.delimiter == "\t" else "csv", {"layout": layout.layout}
    return replace(_of_table(open_table(path, stored, options, encoding), stored, columns), options=options)


def _names_of_both(sample: Sample) -> set[str]:
    """The fields of the first line that name a context and a response, if it has both."""
    fields = [part.strip().strip('"') for part in re.split(r"[\t,;|]", sample.filled[0])]
    context = next((name for name in fields if name.casefold() in CONTEXT_COLUMNS), None)
    others = [name for name in fields if name != context]
    response = next((name for name in others if name.casefold() in RESPONSE_COLUMNS), None)
    return {context, response} if context is not None and response is not None else set()


def _has_tabs(sample: Sample) -> bool:
    return sum("\t" in line for line in sample.filled) > 0.5 * len(sample.filled)


def _names_speakers(sample: Sample) -> bool:
    """Whether the texts before the tabs are names of speakers: short, not sentences, in a file with blank lines."""
    before = [line.split("\t")[0].strip() for line in sample.filled if "\t" in line]
    return bool(before) and len(sample.filled) < len(sample.lines) and all(map(may_be_speaker, before))


def _of_table(table: Table, stored: str, columns: Mapping[str, str] | None) -> ConversationFormat:
    names = [name.strip().casefold() for name in table.names]
    if columns:
        return ConversationFormat("pairs", stored, "its columns are set")
    if any(isinstance(lookup(row, _turn_column(table) or ""), list) for row in table.sample):
        return ConversationFormat("turns", stored, "its records have turns")
    if find_reply_trees(table) is not None:
        return ConversationFormat("trees", stored, "its records are messages with their replies")
    if find_reply_rows(table) is not None:
        return ConversationFormat("replies", stored, "its records are messages with the ids of their parents")
    if find_turn_rows(table) is not None:
        return ConversationFormat("rows", stored, "it has a turn in each row")
    context = find_column(table.names, CONTEXT_COLUMNS) if table.has_header else None
    if context is not None and any(map(_DISTRACTOR.match, names)):
        return ConversationFormat("distractors", stored, "its header has distractors")
    is_instruction = "instruction" in names and not {"input", "context"}.isdisjoint(names)
    has_both = context is not None and find_column(table.names, _GOOD) is not None
    if has_both and (stored in ("json", "jsonl") or is_instruction):
        return ConversationFormat("responses", stored, "its records have contexts and responses")
    if context is not None and "label" in names and find_column(table.names, RESPONSE_COLUMNS) is not None:
        return ConversationFormat("labeled", stored, "its header has a context and a label")
    if len(table.names) == 2 or (table.has_header and find_pair(table.names) is not None):
        return ConversationFormat("pairs", stored, "its records are pairs of a context and a response")
    shown = ", ".join(map(repr, table.names[:8]))
    has = f"the columns {shown}" if table.has_header else f"{len(table.names)} columns without names"
    raise FormatError(
        f"{table.path} has {has}, which do not show the context and the response. Set --context-column and "
        f"--response-column by name or by number, as in --context-column 1 --response-column 2."
    )


def _turn_column(table: Table) -> str | None:
    found = (find_column(table.names, (name,)) for name in TURN_COLUMNS)
    columns = [name for name in found if name is not None]
    lists = [name for name in columns if any(isinstance(lookup(row, name), list) for row in table.sample)]
    return next(iter(lists or columns), None)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_exchanges(
    path: Path,
    kind: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
) -> Iterator[Exchange]:
    """Yield the exchanges of a file. A dialogue gives an exchange for each of its turns except the first.

    Args:
        path: the file.
        kind: one of :data:`KINDS`. Detected if omitted.
        columns: the columns of "context" and "response", if the user sets them.
        encoding: UTF-8 if omitted.
        counter: lists the records that are dropped, each counted as read. Exchanges that are yielded are not counted.
            Without one, damaged records raise an error and empty ones are yielded.
    """
    columns = {role: column for role, column in (columns or {}).items() if column is not None}
    if kind is not None and kind not in KINDS:
        raise FormatError(f"Unknown format of conversations {kind!r}: {did_you_mean(kind, KINDS)}.")
    found = _stored_as(path, kind, encoding, columns)
    own = ReadCounter() if counter is not None else None
    if found.kind == "dialogue":
        exchanges = _read_dialogues(path, encoding, own)
    elif found.kind == "turns":
        exchanges = _read_turns(open_table(path, found.stored, {}, encoding), own)
    elif found.kind == "rows":
        exchanges = _read_rows(open_table(path, found.stored, found.options, encoding), own)
    elif found.kind in ("trees", "replies"):
        table = open_table(path, found.stored, found.options, encoding)
        exchanges = _read_replies((read_trees if found.kind == "trees" else read_messages)(table, own), own)
    elif found.kind == "responses":
        exchanges = _read_responses(open_table(path, found.stored, {}, encoding), own)
    else:
        exchanges = _read_table(path, found, columns, encoding, own)
    yield from exchanges
    if counter is not None and own is not None:
        for dropped in own.dropped:
            counter.saw()
            counter.drop(_CONTEXT_WORDS.get(dropped.reason, dropped.reason), dropped.location, dropped.text)


_CONTEXT_WORDS = {"with an empty source": "with an empty context", "with an empty target": "with an empty response"}


def _stored_as(path: Path, kind: str | None, encoding: str | None, columns: Mapping[str, str]) -> ConversationFormat:
    if kind == "dialogue":
        return ConversationFormat(kind, "text", "the format was set")
    found = detect_conversations(path, encoding, columns)
    if kind is None or kind == found.kind:
        return found
    stored = found.stored if found.stored != "text" else "tsv"
    return ConversationFormat(kind, stored, "the format was set")


def _read_table(
    path: Path, found: ConversationFormat, columns: Mapping[str, str], encoding: str | None, counter: ReadCounter | None
) -> Iterator[Exchange]:
    given = {{"context": "source", "response": "target"}[role]: column for role, column in columns.items()}
    file = open_records(
        path, (SOURCE, TARGET), format=found.stored, columns=given, options=found.options, encoding=encoding
    )
    if found.kind == "labeled":
        yield from _labeled(file, counter)
        return
    distractors = sorted((int(match[1]), name) for name in file.table.names if (match := _DISTRACTOR.match(name)))
    if found.kind == "distractors" and not distractors:
        raise FormatError(f"{path} has no column distractor_0, only {', '.join(file.table.names)}. Rename the column.")
    for record in file.read(counter):
        if file.table.has_header and not record["source"] and not record["target"]:
            continue
        wrong = [to_text(record.columns.get(name)) or "" for _, name in distractors]
        exchange = _exchange(record["source"] or "", (record["target"] or "",), record.location, wrong)
        yield replace(exchange, has_distractors=found.kind == "distractors")


def _labeled(file: RecordFile, counter: ReadCounter | None) -> Iterator[Exchange]:
    """Pairs with label 1 if the response is correct and 0 if it is not."""
    others = [name for name in file.table.names if all(name not in one.columns for one in file.choices.values())]
    name = find_column(others, ("label",))
    if name is None:
        names = ", ".join(map(repr, file.table.names))
        raise FormatError(
            f"{file.table.path} has no columns for context, response and label, only {names}. Rename them."
        )
    rows = []
    for record in file.read(counter):
        label = str(record.columns.get(name, "")).strip()
        if label in ("0", "1", "0.0", "1.0"):
            rows.append((record["source"] or "", label.startswith("1"), record["target"] or "", record.location))
        elif counter is not None:
            counter.drop("with a label other than 1 and 0", record.location, record["source"] or "")
        else:
            raise FormatError(f"{record.location} must have the label 1 or 0, got {label!r}. Correct the label.")
    for context, group in groupby(rows, key=lambda row: row[0]):
        own = list(group)
        good, wrong = (tuple(text for _, right, text, _ in own if right is side) for side in (True, False))
        yield _exchange(context, good, own[0][3], wrong)


def _exchange(context: str, responses: Sequence[str], location: SourceLocation, wrong: Sequence[str] = ()) -> Exchange:
    return Exchange(split_turns(context), tuple(map(_whole, responses)), location, wrong=tuple(map(_whole, wrong)))


def _whole(response: str) -> str:
    """A response in one line, without the marks that end utterances and turns."""
    return " ".join(split_turns(response))


# --- JSON and lines ---------------------------------------------------------------------------------------------------


def _read_responses(table: Table, counter: ReadCounter | None) -> Iterator[Exchange]:
    """A context, as a list of turns or one string, and its responses."""

    def parse(row: Row) -> Exchange:
        values = row.values
        context = next((values[key] for key in CONTEXT_COLUMNS if values.get(key)), None)
        if isinstance(values.get("instruction"), str):  # with its input, as in Alpaca, or a text, as in Dolly
            more = (values.get(name) for name in ("input", "context"))
            context = " ".join([values["instruction"], *(text for text in more if isinstance(text, str))])
        good = next((values[key] for key in _GOOD if values.get(key) is not None), None)
        wrong = values.get("distractors", values.get("random_negative_responses", []))
        if context is None or good is None:
            keys = ", ".join(map(repr, values))[:80]
            problem = f"must have the keys context and response (or responses), got {keys}"
            raise ValueError("without a context or a response", problem)
        turns = split_turns(context) if isinstance(context, str) else to_texts(context)
        hard = to_texts(values.get("adversarial_negative_responses", []))
        responses = to_texts([good] if isinstance(good, str) else good)
        return Exchange(turns, responses, row.location, wrong=to_texts(wrong), hard=hard)

    damaged = DamagedRecords(table.path, counter, "Give every record a context and a response.")
    yield from (exchange for _, exchange in parse_rows(table.rows(None), damaged, parse))


def _read_turns(table: Table, counter: ReadCounter | None) -> Iterator[Exchange]:
    """Dialogues as lists of turns: strings, or objects with the text and the speaker."""
    column = _turn_column(table)

    def parse(row: Row) -> list[Exchange]:
        turns = lookup(row.values, column) if column is not None else None
        if not isinstance(turns, list):
            raise ValueError("without a list of turns")
        texts, speakers = turns_and_speakers(turns, row.values.get("speakers") or [])
        return to_exchanges(texts, speakers, row.location)

    damaged = DamagedRecords(table.path, counter, "Give every record a list of turns.")
    yield from _long_enough(parse_rows(table.rows(None), damaged, parse), counter)


def _read_rows(table: Table, counter: ReadCounter | None) -> Iterator[Exchange]:
    """Dialogues whose turns are the rows of a table. Consecutive rows with the same id are a dialogue."""
    columns = find_turn_rows(table)
    if columns is None:
        raise FormatError(f"{table.path} has no columns dialogue_id, speaker and text. Rename its columns.")
    text, speaker = (columns[name].columns[0] for name in ("text", "speaker"))
    dialogue = columns["dialogue"].columns[0] if "dialogue" in columns else ""  # all rows are one dialogue

    def parse(row: Row) -> Row:
        to_texts([to_text(lookup(row.values, text)) or ""])
        return row

    damaged = DamagedRecords(table.path, counter, "Give every row a text.")
    rows = [row for row, _ in parse_rows(table.rows(None), damaged, parse)]
    for _, group in groupby(rows, key=lambda row: lookup(row.values, dialogue)):
        said = [row for row in group if (to_text(lookup(row.values, text)) or "").strip()]
        if counter is not None:
            counter.saw()
        turns = to_texts([to_text(lookup(row.values, text)) for row in said])
        speakers = [str(lookup(row.values, speaker)) for row in said]
        if len(said) > 1:
            yield from to_exchanges(turns, speakers, said[0].location)
        elif counter is not None and said:
            counter.drop("with fewer than two turns", said[0].location, said[0].raw)


def _read_replies(roots: Iterable[Message], counter: ReadCounter | None) -> Iterator[Exchange]:
    """The path to each message that has replies, as the context of its replies."""
    for root in roots:
        if not root.replies and counter is not None:
            counter.drop("with fewer than two turns", root.location, root.text)
        for message, path in walk(root, _LONGEST_CONTEXT):
            texts: dict[tuple[bool, ...], list[Message]] = {}
            for reply in message.replies:
                texts.setdefault(_own(path, reply), []).append(reply)
            for own, replies in texts.items():
                responses = tuple(reply.text for reply in replies)
                yield Exchange(tuple(turn.text for turn in path), responses, replies[0].location, own)


def _own(path: Sequence[Message], reply: Message) -> tuple[bool, ...]:
    """For each turn of a path, whether who replies said it."""
    are_known = all(turn.speaker for turn in (*path, reply))
    return tuple(turn.speaker == reply.speaker for turn in path) if are_known else alternating(len(path))


def _read_dialogues(path: Path, encoding: str | None, counter: ReadCounter | None) -> Iterator[Exchange]:
    def parse(row: Row) -> list[Exchange]:
        return to_exchanges(row.values["turns"], row.values["speakers"], row.location)

    damaged = DamagedRecords(path, counter, "Write speaker<TAB>turn on every line of a dialogue, or on none.")
    rows = dialogue_lines.read(path, None, encoding)
    counted = (row if row.damaged else replace(row, problem=None) for row in rows)  # also those without turns
    yield from _long_enough(parse_rows(counted, damaged, parse), counter)


def _long_enough(dialogues: Iterable[tuple[Row, list[Exchange]]], counter: ReadCounter | None) -> Iterator[Exchange]:
    """The exchanges of dialogues. Those without an exchange are dropped."""
    for row, found in dialogues:
        if not found and counter is not None:
            counter.drop("with fewer than two turns", row.location, row.raw)
        yield from found


# --- exchanges --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exchange:
    """A context and its responses.

    Args:
        context: the previous turns, oldest first.
        responses: alternative responses; empty if only wrong ones are known.
        location: the source location.
        own: for each turn of the context, whether the responder said it.
        wrong: unsuitable responses: those labeled as wrong, or the distractors of a test file.
        hard: unsuitable responses that have words in common with the context (adversarial).
        has_distractors: whether ``wrong`` are the distractors of a test file, among which the response is ranked.
    """

    context: tuple[str, ...]
    responses: tuple[str, ...]
    location: SourceLocation
    own: tuple[bool, ...] = ()
    wrong: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()
    has_distractors: bool = False

    def __post_init__(self) -> None:
        if not self.own:
            object.__setattr__(self, "own", alternating(len(self.context)))


def alternating(n: int) -> tuple[bool, ...]:
    """For ``n`` turns of two alternating speakers before a response, whether the responder said each."""
    return tuple((n - i) % 2 == 0 for i in range(n))


def to_exchanges(turns: Sequence[str], speakers: Sequence[str], location: SourceLocation) -> list[Exchange]:
    """Every turn of a dialogue except the first, as the response to the turns before it.

    ``speakers`` gives the speaker of each turn. If it is empty, two speakers are assumed to alternate. A context has at
    most the last 100 turns, so that a channel of many thousand turns fits in memory.
    """
    found = []
    for i in range(1, len(turns)):
        first = max(0, i - _LONGEST_CONTEXT)
        own = tuple(speaker == speakers[i] for speaker in speakers[first:i]) if speakers else ()
        found.append(Exchange(tuple(turns[first:i]), (turns[i],), location, own))
    return found


def inner_exchanges(exchange: Exchange) -> list[Exchange]:
    """The turns of a context except the first, each as the response to the turns before it."""
    speakers = ["own" if own else "other" for own in exchange.own]
    return to_exchanges(exchange.context, speakers, exchange.location)
