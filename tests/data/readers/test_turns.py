"""Turns of dialogues in the forms of common chats."""

from __future__ import annotations

import pytest

from catena.data.readers.turns import turns_and_speakers

SAID = ["hello", "hi there", "how are you", "fine"]


@pytest.mark.parametrize("key", ["speaker", "role", "from", "sender_name", "sender", "author", "user"])
def test_speaker_is_found_under_every_usual_key(key: str) -> None:
    turns = [{key: "ab"[i % 2], "text": text} for i, text in enumerate(SAID)]
    assert turns_and_speakers(turns, []) == (tuple(SAID), ["a", "b", "a", "b"])


def test_speaker_may_be_an_object() -> None:
    turns = [{"author": {"id": str(i % 2), "name": "ab"[i % 2]}, "content": text} for i, text in enumerate(SAID)]
    assert turns_and_speakers(turns, [])[1] == ["a", "b", "a", "b"]


@pytest.mark.parametrize("time", [lambda i: 1_700_000_000 - i, lambda i: f"2024-03-0{9 - i}T10:00:00"])
def test_turns_from_last_to_first_are_turned_round(time) -> None:
    turns = [{"sender_name": "ab"[i % 2], "timestamp": time(i), "content": text} for i, text in enumerate(SAID)]
    assert turns_and_speakers(turns, [])[0] == tuple(SAID[::-1])
    assert turns_and_speakers(turns[::-1], [])[0] == tuple(SAID[::-1])


def test_system_that_answers_is_a_speaker_and_a_system_prompt_is_not() -> None:
    answers = [{"speaker": ("USER", "SYSTEM")[i % 2], "utterance": text} for i, text in enumerate(SAID)]
    assert turns_and_speakers(answers, [])[0] == tuple(SAID)
    prompted = [{"role": "system", "content": "be kind"}]
    prompted += [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(SAID)]
    assert turns_and_speakers(prompted, [])[0] == tuple(SAID)
    between = [*prompted[:3], {"role": "system", "content": "be brief"}, *prompted[3:]]
    assert turns_and_speakers(between, [])[0] == tuple(SAID)
