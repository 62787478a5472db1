"""A chat turn by turn: its state, its commands and missing responses."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.errors import DataError
from catena.tasks.converse.chat import NOTHING, Chat, model_of_file
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter
from tests.tasks.converse.helpers import config, write_pairs


@pytest.fixture
def chat(tmp_path: Path) -> Chat:
    path = tmp_path / "faq.tsv"
    path.write_text(
        "when do you open\tat nine\nwhere are you\tin the city\nare you open on sunday\tno , not then\n",
        encoding="utf-8",
    )
    return Chat(model_of_file(path))


def test_model_of_file_responds_with_context(chat: Chat) -> None:
    assert chat.say("when do you open ?") == "at nine"
    assert chat.say("and where are you") == "in the city"
    assert chat.turns == ["when do you open ?", "at nine", "and where are you", "in the city"]
    assert chat.own == [False, True, False, True]


def test_say_blank_or_unknown_line(chat: Chat) -> None:
    assert chat.say("  ") is None
    assert chat.say("xyz 你好") == NOTHING
    assert chat.turns == ["xyz 你好"], "what was said is kept, no answer was given"
    assert chat.say("/undo") == "(removed: xyz 你好)"
    assert chat.turns == []


def test_say_does_not_repeat_a_response(chat: Chat) -> None:
    first = chat.say("when do you open")
    assert chat.say("when do you open") != first


def test_say_commands(chat: Chat) -> None:
    assert chat.say("/undo") == "(the conversation is empty)"
    assert chat.say("/best") == "(the conversation is empty)"
    chat.say("when do you open")
    assert chat.say("/best 0") == chat.say("/best x") == "(the number must be a positive integer: /best 5)"
    assert chat.say("/best 2").split("\n")[0].endswith("at nine")
    assert len(chat.say("/best 2").split("\n")) == 2
    assert chat.say("/undo") == "(removed: when do you open)"
    assert chat.turns == []
    chat.say("where")
    assert chat.say("/clear") == "(conversation cleared)"
    assert chat.turns == []
    assert chat.say("/seed x") == "(the seed must be an integer: /seed 3)"
    assert chat.say("/seed 4") == "(seed 4)"
    assert chat.seed == 4
    assert "/undo  remove your" in chat.say("/help")
    assert "unknown command /nope" in chat.say("/nope")
    assert chat.say("/quit") is None
    assert chat.ended


def test_generative_model_samples_by_seed(tmp_path: Path) -> None:
    made = config(write_pairs(tmp_path / "x.tsv", 3), "generative", training={"max_epochs": 1})
    train_run(made, tmp_path / "run", SilentReporter())
    model = load_task(tmp_path / "run", "cpu")
    responses = [[Chat(model, seed=seed).say(line) for line in ("hello", "tea ?")] for seed in (0, 0, *range(1, 9))]
    assert responses[0] == responses[1]
    assert len({tuple(two) for two in responses}) > 1


def test_dual_encoder_has_no_response_to_unknown_words(tmp_path: Path) -> None:
    made = config(write_pairs(tmp_path / "x.tsv", 3), "dual", training={"max_epochs": 1})
    train_run(made, tmp_path / "run", SilentReporter())
    chat = Chat(load_task(tmp_path / "run", "cpu"))
    assert chat.say("qwerty 你好 ?") == NOTHING, "punctuation has no content words"
    assert chat.say("the cat") != NOTHING


def test_model_of_file_without_responses_raises(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\t\nb\t \n", encoding="utf-8")
    with pytest.raises(DataError, match="has no context with a response"):
        model_of_file(tmp_path / "x.tsv")
