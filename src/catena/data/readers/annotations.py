"""Records of annotation tools and chats in the form in which tables have them: texts with labels, spans or turns.

Label Studio   ``annotations`` of a task become columns: chosen labels, or spans of characters
SNIPS          ``{"data": [{"text": "to "}, {"text": "Rome", "entity": "city"}]}``, also Dialogflow: a text and spans
spaCy          ``[text, {"entities": [[start, end, label], …]}]``, or ``cats`` instead of entities
Slack          the messages of a channel are one dialogue
ChatGPT        the ``mapping`` of a conversation becomes its turns, along the branch that was shown last
lists          a list of turns becomes a record with turns

Tested in tests/data/readers/test_annotations.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catena.data.readers.delimited import NOT_ANNOTATED

_CHOICES = "choices"
_MOST_TURNS = 100_000


def normalize(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the columns that its annotations are."""
    if isinstance(record.get("mapping"), dict) and _is_mapping(record["mapping"]):
        rest = {key: value for key, value in record.items() if key != "mapping"}
        return {**rest, "messages": _shown_branch(record["mapping"], record.get("current_node"))}
    if isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list):
        return _of_label_studio(record)
    if isinstance(record.get("entities"), list) and "intent" not in record:
        record = _with_intent(record)
    chunked = join_chunks(record.get("data")) if "text" not in record else None
    if chunked is not None:
        rest = {key: value for key, value in record.items() if key != "data"}
        return {"text": chunked[0], **({"entities": chunked[1]} if chunked[1] else {}), **rest}
    return {key: _plain(_choices(value)) for key, value in record.items()}


def _with_intent(record: dict[str, Any]) -> dict[str, Any]:
    """The record of an old export of Wit.ai with its intent, which is among the entities, as a column."""
    spans = [one for one in record["entities"] if isinstance(one, dict)]
    found = [one.get("value") for one in spans if one.get("entity") == "intent" and "start" not in one]
    if not found or not isinstance(found[0], str):
        return record
    others = [one for one in spans if one.get("entity") != "intent"]
    rest = {key: value for key, value in record.items() if key != "entities"}
    return {**rest, **({"entities": others} if others else {}), "intent": found[0].strip('"')}


def of_list(item: Sequence[Any]) -> dict[str, Any] | None:
    """The record that a list is: an example of spaCy, or the turns of a dialogue; None for anything else."""
    if len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], dict):
        has_spans = isinstance(item[1].get("entities"), list)
        return {"text": item[0], **item[1]} if has_spans or isinstance(item[1].get("cats"), dict) else None
    if item and all(
        isinstance(turn, dict) and not turn.keys().isdisjoint(("content", "value", "text")) for turn in item
    ):
        return {"turns": list(item)}
    return None


def join_chunks(chunks: Any) -> tuple[str, list[dict[str, Any]]] | None:
    """The text of chunks and the spans of those that name an entity, as in SNIPS and Dialogflow; None without chunks.

    ``[{"text": "to "}, {"text": "Rome", "entity": "city"}]``
    """
    if not isinstance(chunks, list) or not chunks:
        return None
    if not all(isinstance(chunk, dict) and isinstance(chunk.get("text"), str) for chunk in chunks):
        return None
    if any(key in chunk for chunk in chunks for key in ("speaker", "role", "from", "sender")):
        return None  # turns
    text, spans = "", []
    for chunk in chunks:
        name = next((chunk[key] for key in ("slot_name", "entity", "alias") if isinstance(chunk.get(key), str)), None)
        if name is not None:
            spans.append({"start": len(text), "end": len(text) + len(chunk["text"]), "label": name})
        text += chunk["text"]
    return text, spans


def _choices(value: Any) -> Any:
    """The list in ``{"choices": ["a", "b"]}``, as Label Studio writes several labels."""
    if isinstance(value, dict) and list(value) == [_CHOICES] and isinstance(value[_CHOICES], list):
        return value[_CHOICES]
    return value


def _plain(value: Any) -> Any:
    """The value that an object of MongoDB names the type of: ``{"$numberInt": "3"}`` is 3."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(inner := next(iter(value.values())), str):
        kind = next(iter(value))
        if kind in ("$oid", "$date", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"):
            return inner
    return value


# --- Label Studio -----------------------------------------------------------------------------------------------------


def _of_label_studio(task: dict[str, Any]) -> dict[str, Any]:
    """The data of a task, and a column for each question that its first valid annotation answers."""
    found = {"id": task.get("id"), "data": task["data"]}
    valid = _valid_annotations(task)
    results = [one for one in (valid[0].get("result") or [] if valid else []) if isinstance(one, dict)]
    answers: dict[str, list[Any]] = {}
    for result in results:
        value, name = result.get("value"), str(result.get("from_name") or "label")
        if isinstance(value, dict) and isinstance(value.get(_CHOICES), list):
            answers.setdefault(name, []).extend(value[_CHOICES])
        elif isinstance(value, dict) and "labels" in value:
            answers.setdefault(name, []).append(value)
        elif isinstance(value, dict) and isinstance(value.get("rating"), (int, float)):
            answers.setdefault(name, []).append(value["rating"])
    are_texts = (all(isinstance(one, (str, int, float)) for one in some) for some in answers.values())
    return found | {
        name: some[0] if is_text and len(some) == 1 else some
        for (name, some), is_text in zip(answers.items(), are_texts, strict=True)
    }


def _valid_annotations(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in task["annotations"] if isinstance(one, dict) and not one.get("was_cancelled")]


def without_annotation(record: Mapping[str, Any]) -> str | None:
    """The reason why a task of Label Studio has no labels, not even none of them: nobody annotated it."""
    is_task = isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list)
    return NOT_ANNOTATED if is_task and not _valid_annotations(record) else None


def name_label(records: Sequence[dict[str, Any]]) -> None:
    """Call the answers of tasks of Label Studio that have one question ``label``, under any name of the question."""
    questions = {name for record in records for name in record} - {"id", "data"}
    if len(questions) == 1 and all("data" in record for record in records) and questions != {"label"}:
        (name,) = questions
        for record in records:
            if name in record:
                record["label"] = record.pop(name)


# --- Slack -----------------------------------------------------------------------------------------------------------


def are_messages(document: Sequence[Any]) -> bool:
    """Whether an array has the messages of a day in a channel of Slack."""
    return bool(document) and all(
        isinstance(one, dict) and one.get("type") == "message" and isinstance(one.get("text"), str) and "ts" in one
        for one in document
    )


def is_said(message: Mapping[str, Any]) -> bool:
    """Whether a message of Slack is said by somebody, unlike the notice that someone joined."""
    return message.get("subtype") in (None, "thread_broadcast", "me_message", "bot_message", "file_share")


# --- ChatGPT ----------------------------------------------------------------------------------------------------------


def _is_mapping(mapping: Mapping[str, Any]) -> bool:
    return all(isinstance(node, dict) and "message" in node and "parent" in node for node in mapping.values())


def _shown_branch(mapping: Mapping[str, Any], last: Any) -> list[dict[str, Any]]:
    """The turns from the root to the node that was shown last, or to the end of the last branch."""
    if last not in mapping:
        parents = {node["parent"] for node in mapping.values()}
        last = next((key for key in reversed(list(mapping)) if key not in parents), None)
    turns: list[dict[str, Any]] = []
    while last in mapping and len(turns) < _MOST_TURNS:
        message, last = mapping[last]["message"], mapping[last]["parent"]
        if isinstance(message, dict) and isinstance(message.get("author"), dict):
            turns.append({"role": message["author"].get("role"), "content": _said(message.get("content"))})
    return turns[::-1]


def _said(content: Any) -> str:
    """The text of a message; empty for code, pictures and other contents."""
    if not isinstance(content, dict) or content.get("content_type") not in ("text", "multimodal_text"):
        return ""
    return "\n".join(part for part in content.get("parts") or [] if isinstance(part, str))
