"""Turns of a dialogue in JSON: strings, or objects with a text and a speaker in the forms of common chats.

Tested in tests/data/readers/test_turns.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

_SPEAKERS = ("speaker", "role", "from", "sender_name", "sender", "author", "user", "name")
_SAID = ("text", "content", "value", "utterance")
_TIMES = ("timestamp_ms", "timestamp", "date_unixtime", "ts", "create_time", "created_at", "date",
          "originalarrivaltime")  # fmt: skip
_NOT_SPEAKERS = frozenset(("system", "developer", "tool", "function"))
"""Roles of turns that nobody says."""


def turns_and_speakers(turns: Sequence[Any], speakers: Any) -> tuple[tuple[str, ...], list[str]]:
    """The texts of turns in the order of time, and their speakers, if they are known.

    Args:
        turns: strings, or objects with a text and perhaps a speaker and a time.
        speakers: the speakers of strings, or an empty list.

    Raises:
        ValueError: with the reason, if the turns are something else.
    """
    if turns and all(isinstance(turn, dict) for turn in turns):
        turns = _spoken(turns[::-1] if _is_backwards(turns) else turns)
        turns = [turn for turn in turns if turn_text(turn) != ""]
        speakers = [turn_speaker(turn) for turn in turns]
        speakers = speakers if all(speakers) else []
        is_facebook = all(not {"sender_name", "timestamp_ms"} - turn.keys() for turn in turns)
        texts = [turn_text(turn) for turn in turns]
        turns = [_repaired(text) if is_facebook and isinstance(text, str) else text for text in texts]
    if speakers and len(speakers) != len(turns):
        raise ValueError("without a speaker for each turn")
    return to_texts(turns), [str(speaker) for speaker in speakers]


def _repaired(text: str) -> str:
    """A text of Facebook and Instagram, which export each byte of UTF-8 as a character."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _is_backwards(turns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the times of turns decrease, as in the exports of some chats."""
    for name in _TIMES:
        times = [turn.get(name) for turn in turns]
        if all(isinstance(time, (int, float)) for time in times) or all(isinstance(time, str) for time in times):
            return times[0] > times[-1] and all(a >= b for a, b in pairwise(times))  # type: ignore[operator]
    return False


def _spoken(turns: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The turns that somebody says. A system that answers the only other speaker is a speaker."""
    kept = [turn for turn in turns if turn_speaker(turn).casefold() not in _NOT_SPEAKERS]
    answers = any(turn_speaker(turn).casefold() == "system" for turn in turns[1:])
    return turns if answers and len(set(map(turn_speaker, kept))) == 1 else kept


def turn_speaker(turn: Mapping[str, Any]) -> str:
    """Who said a turn; empty if it is not known."""
    value = _first(turn, _SPEAKERS)
    if isinstance(value, Mapping):
        value = _first(value, ("name", "role", "id"))
    return "" if value is None else str(value)


def turn_text(turn: Mapping[str, Any]) -> Any:
    """What was said in a turn, with its parts joined, as chats store links; empty for pictures and services."""
    if turn.keys().isdisjoint(_SAID):
        return None
    value = _first(turn, _SAID)
    if isinstance(value, Mapping):  # as in Matrix
        value = next((value[name] for name in ("body", "text") if isinstance(value.get(name), str)), value)
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text", "") if isinstance(part, Mapping) else part for part in parts if part is not None]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else value


def _first(turn: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of some keys that is present, or None."""
    return next((turn[name] for name in names if name in turn), None)


def to_texts(values: Any) -> tuple[str, ...]:
    """Texts with single blanks between words. Raise ValueError for anything else than a list of texts."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise ValueError("with something else than a list of texts")
    return tuple(" ".join(_valid(value).split()) for value in values)


def _valid(text: str) -> str:
    """The text with lone surrogates, which JSON allows but UTF-8 does not, as replacement characters."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
