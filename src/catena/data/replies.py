"""Conversations in which a message may have several replies: trees of messages, or a message in each row.

trees     a record has a message, perhaps under a key such as ``prompt``, and its ``replies``, which have replies
messages  a record has a message, its id, and the id of the message that it replies to

OpenAssistant is published in both forms. Replies with a ``rank`` are sorted by it, the best first. Deleted messages and
the replies to them are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.readers.delimited import Row
from catena.data.readers.turns import to_texts, turn_speaker, turn_text
from catena.data.reading import DamagedRecords, ReadCounter, parse_rows
from catena.data.roles import LABEL_COLUMNS, SPEAKER_KEYS, TEXT_COLUMNS, find_column
from catena.data.tables import Table
from catena.data.values import lookup, strings, to_text
from catena.errors import FormatError

_REPLIES = "replies"
_DELETED = "deleted"
_IDS = ("message_id", "id", "utterance_id", "comment_id", "post_id", "tweet_id")
_PARENTS = (
    "parent_id", "parent_message_id", "reply_to", "reply-to", "in_reply_to", "in_reply_to_id", "reply_to_id",
    "in_reply_to_status_id", "in_response_to_tweet_id", "parent",
)  # fmt: skip
_SPEAKERS = (*SPEAKER_KEYS, "author_id", "user_id")
_TYPED = re.compile(r"t\d_(?=\w)|\.0+$")
"""What an id has in some columns only: the kind of a thing of Reddit, and the point of integers with gaps in pandas."""


@dataclass(eq=False, slots=True)
class Message:
    """A message with its replies, those of a smaller rank first."""

    text: str
    speaker: str
    location: SourceLocation
    rank: float = math.inf
    replies: list[Message] = field(default_factory=list)


def find_reply_trees(table: Table) -> str | None:
    """The column with the replies to the message of a record, or None."""
    for name in table.names:
        prefix, dot, last = name.rpartition(".")
        if last == _REPLIES and any(_are_messages(lookup(row, name)) for row in table.sample):
            return name if any(f"{prefix}{dot}{key}" in table.names for key in ("text", "content", "body")) else None
    return None


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def find_reply_rows(table: Table) -> dict[str, str] | None:
    """The columns "id", "parent", "text" and, if known, "speaker" of a table of messages; None if it is none.

    Most messages reply to another, and the ids that they name are ids of messages.
    """
    if not table.has_header:
        return None
    parent = find_column(table.names, _PARENTS, exact=True)
    own = find_column([name for name in table.names if name != parent], _IDS, exact=True)
    others = [name for name in table.names if name not in (parent, own)]
    text = find_column(others, TEXT_COLUMNS, exact=True)
    if parent is None or own is None or text is None:
        return None
    label = find_column(others, LABEL_COLUMNS, exact=True)
    if label is not None and strings(lookup(row, label) for row in table.sample):
        return None
    ids = {_to_id(lookup(row, own)) for row in table.sample}
    parents = [value for row in table.sample if (value := _to_id(lookup(row, parent))) is not None]
    known = sum(value in ids for value in parents)
    if 3 * len(parents) < len(table.sample) or 2 * known <= len(parents):
        return None
    speaker = find_column([name for name in others if name != text], _SPEAKERS, exact=True)
    found = {"id": own, "parent": parent, "text": text}
    return found if speaker is None else {**found, "speaker": speaker}


def _to_id(value: Any) -> str | None:
    text = _TYPED.sub("", str(value).strip()) if isinstance(value, (str, int, float)) else ""
    return text if text not in ("", "nan", "None", "null") else None


def read_trees(table: Table, counter: ReadCounter | None) -> Iterator[Message]:
    """The first message of each tree."""
    column = find_reply_trees(table)
    if column is None:
        raise FormatError(f"{table.path} has no messages with replies. Name the list of replies to a message replies.")
    prefix = column.removesuffix(_REPLIES)

    def parse(row: Row) -> tuple[Message | None, int]:
        values = {name.removeprefix(prefix): value for name, value in row.values.items() if name.startswith(prefix)}
        return _to_tree(values, row.location)

    damaged = DamagedRecords(table.path, counter, "Give every message a text, and a list of replies or none.")
    for row, (root, n_deleted) in parse_rows(table.rows(None), damaged, parse):
        for _ in range(n_deleted if counter is not None else 0):
            counter.drop(_DELETED, row.location, row.raw)  # type: ignore[union-attr]
        if root is not None:
            yield root


def _to_tree(root: Mapping[str, Any], location: SourceLocation) -> tuple[Message | None, int]:
    """The message of a record with all replies, and the number of messages that were deleted."""
    if root.get("deleted") is True:
        return None, 1
    first, n_deleted = _message(root, location), 0
    waiting = [(first, root)]
    while waiting:
        message, node = waiting.pop()
        replies = node.get(_REPLIES) or []
        if not isinstance(replies, list) or not all(isinstance(one, dict) for one in replies):
            raise ValueError("with replies that are not messages")
        kept = [reply for reply in replies if reply.get("deleted") is not True]
        n_deleted += len(replies) - len(kept)
        pairs = sorted(((_message(reply, location), reply) for reply in kept), key=lambda pair: pair[0].rank)
        message.replies = [reply for reply, _ in pairs]
        waiting += pairs
    return first, n_deleted


def _message(node: Mapping[str, Any], location: SourceLocation) -> Message:
    (text,) = to_texts([node["body"] if isinstance(node.get("body"), str) else turn_text(node)])
    return Message(text, turn_speaker(node), location, _rank(node.get("rank")))


def _rank(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and value == value else math.inf


def read_messages(table: Table, counter: ReadCounter | None) -> Iterator[Message]:
    """The first message of each tree of a table of messages: one that replies to no message of the table."""
    columns = find_reply_rows(table)
    if columns is None:
        raise FormatError(f"{table.path} has no messages with the ids of their parents. Name them id and parent_id.")
    text, speaker = columns["text"], columns.get("speaker", "")

    def parse(row: Row) -> Message:
        own, who = to_text(lookup(row.values, text)) or "", to_text(lookup(row.values, speaker)) or ""
        return Message(to_texts([own])[0], who, row.location, _rank(lookup(row.values, "rank")))

    damaged = DamagedRecords(table.path, counter, "Give every message a text.")
    found: dict[str, Message] = {}
    parents: list[tuple[str | None, Message]] = []
    deleted: set[str | None] = set()
    for row, message in parse_rows(table.rows(None), damaged, parse):
        own, parent = (_to_id(lookup(row.values, columns[name])) for name in ("id", "parent"))
        if str(lookup(row.values, "deleted")).casefold() == "true":
            deleted.add(own)
            _drop(counter, _DELETED, message)
        elif own is None or own in found:
            _drop(counter, "without an id of its own", message)
        else:
            found[own] = message
            parents.append((parent, message))
    for parent, message in sorted(parents, key=lambda pair: pair[1].rank):
        if parent in found:
            found[parent].replies.append(message)
    roots = [message for parent, message in parents if parent not in found and parent not in deleted]
    reached = {id(message) for root in roots for message, _ in walk(root)}
    for message in found.values():
        if id(message) not in reached:
            _drop(counter, "below a deleted message" if deleted else "in a circle of replies", message)
    yield from roots


def _drop(counter: ReadCounter | None, reason: str, message: Message) -> None:
    if counter is not None:
        counter.drop(reason, message.location, message.text)


def walk(root: Message, n: int = 0) -> Iterator[tuple[Message, tuple[Message, ...]]]:
    """Each message of a tree with the last ``n`` messages of the path that ends with it."""
    waiting: list[tuple[Message, tuple[Message, ...]]] = [(root, ())]
    while waiting:
        message, before = waiting.pop()
        path = (*before, message)[-n:] if n else ()
        yield message, path
        waiting += [(reply, path) for reply in reversed(message.replies)]
