"""Readers of conversations: every format, what it means, and what is wrong with a file in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.data.conversations import (
    Exchange,
    alternating,
    detect_conversations,
    inner_exchanges,
    read_exchanges,
    split_turns,
)
from catena.data.examples import SourceLocation
from catena.data.reading import ReadCounter
from catena.errors import FormatError

ROW = {
    "context": ["Hi there", "Hello  you"],
    "positive_responses": ["Fine.", "Good."],
    "random_negative_responses": ["Blue."],
    "adversarial_negative_responses": ["You there?"],
}


def written(folder: Path, text: str) -> Path:
    path = folder / "talk"
    path.write_text(text, encoding="utf-8")
    return path


def kind_of(path: Path) -> str:
    return detect_conversations(path).kind


def all_of(path: Path) -> list[Exchange]:
    return list(read_exchanges(path))


def test_pairs_with_turns_inside_a_context(tmp_path: Path) -> None:
    path = written(tmp_path, "hi __eou__ there __eot__ yes\tno __eou__ \n\t\n你好\t👋🏽 ok\n")
    assert kind_of(path) == "pairs", "a name of one who speaks has few words"
    found = list(read_exchanges(path, "pairs"))
    assert [(e.context, e.responses, e.location.line) for e in found] == [
        (("hi there", "yes"), ("no",), 1),
        ((), ("",), 2),
        (("你好",), ("👋🏽 ok",), 3),
    ]
    assert found[0].own == (True, False), "two speakers speak in turn, and the last turn is the other's"
    path = written(tmp_path, "context\tresponse\na\tb\n")
    assert kind_of(path) == "pairs"
    assert [e.responses for e in all_of(path)] == [("b",)]


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_questions_and_answers_below_a_header(tmp_path: Path, delimiter: str) -> None:
    rows = (("id", "Question", "Answer"), ("1", "where is it", "here"), ("2", "when", "at nine"))
    path = written(tmp_path, "\n\n".join(delimiter.join(row) for row in rows) + "\n")
    assert kind_of(path) == "pairs", "blank lines do not make a table a dialogue"
    assert [(e.context, e.responses) for e in all_of(path)] == [
        (("where is it",), ("here",)),
        (("when",), ("at nine",)),
    ]


def test_questions_with_a_blank_line_are_not_taken_for_speakers(tmp_path: Path) -> None:
    path = written(tmp_path, "When?\tat nine\n\nwhere is the key\there\n")
    assert kind_of(path) == "pairs"
    assert kind_of(written(tmp_path, "Ann\tat nine\nBen Old\twhy\n\nAnn\there\n")) == "dialogue"
    path = written(tmp_path, "When?\tat nine\nwhere is the key\there\tor there\nwho\tme\n")
    counter = ReadCounter()
    assert [e.responses for e in read_exchanges(path, counter=counter)] == [("at nine",), ("me",)]
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(2, "with 3 fields instead of 2")]


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_labeled_pairs(tmp_path: Path, delimiter: str) -> None:
    rows = [("Context", "Utterance", "Label"), ("a __eot__ b", "c", "1"), ("a", "d", "0"), ("e", "f", "1.0")]
    path = written(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows))
    assert kind_of(path) == "labeled"
    found = all_of(path)
    assert [(e.context, e.responses, e.wrong) for e in found] == [
        (("a", "b"), ("c",), ()),
        (("a",), (), ("d",)),
        (("e",), ("f",), ()),
    ]
    rows += [("e", "g", "0"), ("e", "h", "0"), ("a", "i", "1")]
    path = written(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows))
    assert [(e.context, e.responses, e.wrong, e.location.line) for e in all_of(path)[2:]] == [
        (("e",), ("f",), ("g", "h"), 4),
        (("a",), ("i",), (), 7),
    ], "neighboring rows of one context belong together"
    path = written(tmp_path, delimiter.join(rows[0]) + "\n" + delimiter.join(("a", "b", "yes")) + "\n")
    with pytest.raises(FormatError, match=r"talk:2 must have the label 1 or 0, got 'yes'"):
        all_of(path)


def test_nine_distractors_in_their_order(tmp_path: Path) -> None:
    names = ["Context", "Ground Truth Utterance", *(f"Distractor_{i}" for i in (10, 2, 0))]
    path = written(tmp_path, ",".join(names) + '\n"a, b __eot__",right,ten,two,zero\n')
    assert kind_of(path) == "distractors"
    found = all_of(path)
    assert found[0].context == ("a, b",)
    assert found[0].responses == ("right",)
    assert found[0].wrong == ("zero", "two", "ten")
    path = written(tmp_path, ",".join(names) + "\na,b,c,d,e,f\na,b,c,d,e\n")
    with pytest.raises(FormatError, match="talk:2 is a record with 6 fields instead of 5"):
        all_of(path)


def test_json_lines_with_responses(tmp_path: Path) -> None:
    plain = {"context": "a __eot__ b", "response": "c"}
    path = written(tmp_path, json.dumps(ROW) + "\n\n" + json.dumps(plain) + "\n")
    assert kind_of(path) == "responses"
    first, second = all_of(path)
    assert first.context == ("Hi there", "Hello you")
    assert first.responses == ("Fine.", "Good.")
    assert (first.wrong, first.hard) == (("Blue.",), ("You there?",))
    assert (second.context, second.responses, second.location.line) == (("a", "b"), ("c",), 3)


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    path = written(tmp_path, '{"context": ["a \\ud83d b"], "response": "c"}\n')
    (found,) = all_of(path)
    assert found.context[0].encode("utf-8")
    assert "\N{REPLACEMENT CHARACTER}" in found.context[0]


def test_dialogues_turn_by_turn(tmp_path: Path) -> None:
    objects = [
        {"turns": ["a", "b", "c"]},
        {"turns": [{"text": "x", "speaker": "1"}, {"text": "y", "speaker": "1"}, {"text": "z", "speaker": "2"}]},
        {"turns": ["p", "q"], "speakers": ["s", "s"]},
        {"turns": ["lonely"]},
    ]
    path = written(tmp_path, "".join(json.dumps(one) + "\n" for one in objects))
    assert kind_of(path) == "turns"
    found = [(e.context, e.responses, e.own) for e in all_of(path)]
    assert found == [
        (("a",), ("b",), (False,)),
        (("a", "b"), ("c",), (True, False)),
        (("x",), ("y",), (True,)),
        (("x", "y"), ("z",), (False, False)),
        (("p",), ("q",), (True,)),
    ]


def test_plain_dialogues(tmp_path: Path) -> None:
    path = written(tmp_path, "\nhello\nhi  there\n\n\nAnn\tyes\nAnn\tno\nBen\twell\n")
    assert kind_of(path) == "dialogue"
    found = [(e.context, e.responses, e.own, e.location.line) for e in all_of(path)]
    assert found == [
        (("hello",), ("hi there",), (False,), 2),
        (("yes",), ("no",), (True,), 6),
        (("yes", "no"), ("well",), (False, False), 6),
    ]


SPOKEN = "A: Hello: you.\nB : Hi\nA:Well\n\nB：yes\nand more\nA: no\n"


def test_speakers_before_colon_are_removed_from_turns(tmp_path: Path) -> None:
    path = written(tmp_path, SPOKEN.replace("and more\n", "") + "\nA: 1\nB: 2\n" * 70 + "\n" + SPOKEN)
    found = detect_conversations(path)
    assert (found.kind, found.why) == (
        "dialogue",
        "its lines are turns (turns after the name of the speaker and a colon)",
    )
    found = [(e.context, e.responses, e.own) for e in all_of(path)]
    assert found[:3] == [
        (("Hello: you.",), ("Hi",), (False,)),
        (("Hello: you.", "Hi"), ("Well",), (True, False)),
        (("yes",), ("no",), (False,)),
    ]
    assert found[-1] == (("yes and more",), ("no",), (False,)), "a line without a speaker continues the turn above"


@pytest.mark.parametrize(
    "line",
    ["See http://x.org", "12:30 is fine", "The one thing I mean: no", "Really?: no", "plain"],
)
def test_colons_of_texts_are_kept(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"A: x\nB: y\nA: z\n{line}\n")
    assert kind_of(path) == "dialogue"
    assert all_of(path)[-1].context == ("A: x", "B: y", "A: z")
    path = written(tmp_path, "".join(f"Point {i}: x\n" for i in range(9)))
    assert all_of(path)[0].context == ("Point 0: x",), "those who speak come again"


@pytest.mark.parametrize(
    ("name", "text", "columns", "found"),
    [
        ("x.csv", "Hi you.,Hello.\nWhy?,No.\n", {}, ("Hi you.", "Hello.")),
        ("x.csv", "id;question;answer\n1;Hi, you.;Hello.\n", {}, ("Hi, you.", "Hello.")),
        (
            "x.csv",
            "n,frage,antwort\n1,Hi you.,Hello.\n",
            {"context": "frage", "response": "antwort"},
            ("Hi you.", "Hello."),
        ),
        ("x", "1\tHi you.\tHello.\n2\tWhy?\tNo.\n", {"context": "2", "response": "3"}, ("Hi you.", "Hello.")),
        ("x", '"Hi ""you""."\t"Hello."\n"Why?"\t"No."\n', {}, ('Hi "you".', "Hello.")),
        ("x", '"question"\t"answer"\n"Hi\nyou"\t"Hello."\n', {}, ("Hi you", "Hello.")),
        ("x", '{"a": "Hi you.", "b": "Hello."}\n', {"context": "a", "response": "b"}, ("Hi you.", "Hello.")),
        ("x", '{"prompt": "Hi you.", "completion": "Hello."}\n', {}, ("Hi you.", "Hello.")),
        ("x", '{"instruction": "Hi", "input": "you.", "output": "Hello."}\n', {}, ("Hi you.", "Hello.")),
        (
            "x",
            '{"messages": [{"role": "user", "content": "Hi"}, {"role": "me", "content": "Oh"}]}\n',
            {},
            ("Hi", "Oh"),
        ),
        ("x", '{"conversations": [{"from": "a", "value": "Hi"}, {"from": "b", "value": "Oh"}]}\n', {}, ("Hi", "Oh")),
    ],
)
def test_pairs_and_turns_as_others_write_them(
    name: str, text: str, columns: dict[str, str], found: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    first = next(read_exchanges(tmp_path / name, columns=columns))
    assert (first.context, first.responses) == ((found[0],), (found[1],))


def test_csv_without_column_names_raises_error(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("n,frage,antwort\n1,Hi you there,Oh no no no\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"x\.csv has .*columns.*--context-column 1 --response-column 2\.$"):
        kind_of(tmp_path / "x.csv")


SYSTEM = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Oh"},
]


def test_system_turns_are_not_turns(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"messages": SYSTEM}) + "\n")
    assert [(e.context, e.responses) for e in all_of(path)] == [(("Hi",), ("Oh",))]


def test_array_of_dialogues_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([{"messages": SYSTEM}, {"messages": SYSTEM}], indent=1))
    assert [e.location.line for e in read_exchanges(tmp_path / "x.json")] == [2, 18]


def test_utterances_with_end_marks_are_turns(tmp_path: Path) -> None:
    path = written(tmp_path, "hi . __eou__ hello ! __eou__ bye __eou__\nwhy ? __eou__ so __eou__\n\n")
    assert [(e.context, e.responses, e.location.line) for e in all_of(path)] == [
        (("hi .",), ("hello !",), 1),
        (("hi .", "hello !"), ("bye",), 1),
        (("why ?",), ("so",), 2),
    ]


@pytest.mark.parametrize(
    "stamp", ["12/03/24, 09:00 - ", "[12.03.24, 09:00:17] ", "2024-03-12, 9:00 PM - ", "\u200e[3/12/24, 9:00:00 AM] "]
)
def test_exported_chat_is_read_without_times(stamp: str, tmp_path: Path) -> None:
    lines = [f"{stamp}Messages are encrypted.", f"{stamp}Ann: hi", "there", f"{stamp}Bob: oh: no", f"{stamp}Ann: well"]
    path = written(tmp_path, "\n".join(lines) + "\n" + lines[-1].replace("12", "13", 1) + "\n")
    found = [(e.context, e.responses, e.own) for e in all_of(path)]
    assert found[:2] == [(("hi there",), ("oh: no",), (False,)), (("hi there", "oh: no"), ("well",), (True, False))]
    assert len(found) == 2, "the next day is another dialogue"


def test_damaged_records_are_dropped_and_listed(tmp_path: Path) -> None:
    good = json.dumps({"context": "a", "response": "b"}) + "\n"
    path = written(tmp_path, good * 30 + '{"context": ["a"]}\n' + good * 10)
    counter = ReadCounter()
    assert len(list(read_exchanges(path, counter=counter))) == 40
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(31, "without a context or a response")]
    assert counter.read == 1, "exchanges are counted by the caller"


def test_invalid_files_raise_error(tmp_path: Path) -> None:
    cases = {
        ("pairs", "a\tb\nx\ty\na\tb\tc\n"): r"talk:3 is a record with 3 fields instead of 2",
        ("labeled", "question,label\na,1\n"): r"no columns for context, response and label",
        ("distractors", "context,response\na,b\n"): r"has no column distractor_0",
        ("responses", "{\n"): r"talk:1 is a record with 1 fields instead of 0",
        ("responses", '{"context": ["a"]}\n'): r"do not show the context and the response",
        ("responses", '{"context": [1], "response": "a"}\n'): r"talk:1 is a record with something else than a list",
        ("turns", '{"turns": ["a", "b"], "speakers": ["x"]}\n'): r"talk:1 is a record without a speaker for each turn",
        ("dialogue", "A\tx\ny\n"): r"talk:1 is a record with speaker<TAB>turn in some lines only",
        ("songs", "a\tb\n"): r"Unknown format of conversations 'songs'",
    }
    for (format, text), words in cases.items():
        with pytest.raises(FormatError, match=words):
            list(read_exchanges(written(tmp_path, text), format))
    with pytest.raises(FormatError, match="has only blank lines"):
        kind_of(written(tmp_path, "\n\n"))
    with pytest.raises(FormatError, match=r"has 3 columns without names.*--response-column 2\.$"):
        kind_of(written(tmp_path, "a\tb\tc\nd\te\tf\n"))


def test_turns_and_speakers() -> None:
    assert split_turns(" a __eou__ b  __eot__  __eot__ c") == ("a b", "c")
    assert alternating(3) == (False, True, False)
    place = SourceLocation("x", 1)
    inner = inner_exchanges(Exchange(("a", "b", "c"), ("d",), place, (True, True, False)))
    assert [(e.context, e.responses, e.own) for e in inner] == [
        (("a",), ("b",), (True,)),
        (("a", "b"), ("c",), (False, False)),
    ]


def test_texts_in_parts_are_joined_and_messages_without_text_are_not_turns(tmp_path: Path) -> None:
    link = ["see ", {"type": "link", "text": "x.y"}, " now"]
    texts = [("Anna", "hi"), ("Bob", ""), ("Bob", link), ("Anna", None), ("Anna", [{"type": "text", "text": "ok"}])]
    messages = [{"from": name, "type": "message", "text": text} for name, text in texts]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"name": "Bob", "messages": messages}), encoding="utf-8")
    found = list(read_exchanges(path))
    said = [(one.context, one.responses) for one in found]
    assert said == [(("hi",), ("see x.y now",)), (("hi", "see x.y now"), ("ok",))]
    assert found[1].own == (True, False)


def test_times_and_names_of_irc_are_not_said(tmp_path: Path) -> None:
    path = tmp_path / "irc.log"
    path.write_text("[10:00] <anna> hi\n[10:01] -!- joe joined\n[10:02:11] <@bob> hi: you\n10:03 <anna> ok\n")
    found = list(read_exchanges(path))
    assert [(one.context, one.responses) for one in found] == [(("hi",), ("hi: you",)), (("hi", "hi: you"), ("ok",))]
    assert found[1].own == (True, False)


def test_long_channel_is_read_in_linear_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("".join(f"[10:00] <{('ann', 'bob')[i % 2]}> message {i}\n" for i in range(400)))
    found = list(read_exchanges(path))
    assert len(found) == 399
    assert found[2].context == ("message 0", "message 1", "message 2")
    assert found[-1].context == tuple(f"message {i}" for i in range(299, 399))
    assert found[-1].own == tuple(i % 2 == 1 for i in range(299, 399))


def test_blank_line_after_each_turn_of_a_play_ends_no_dialogue(tmp_path: Path) -> None:
    turns = [f"words number {i}" for i in range(12)]
    path = tmp_path / "play.txt"
    path.write_text("".join(f"{('ROMEO', 'JULIET')[i % 2]}: {turn}\n\n" for i, turn in enumerate(turns)))
    found = list(read_exchanges(path))
    assert [one.responses for one in found] == [(turn,) for turn in turns[1:]]
    path.write_text("".join(f"A: {turn}\nB: so\n\n" for turn in turns))  # dialogues of two turns
    assert [one.context for one in read_exchanges(path)] == [(turn,) for turn in turns]


def test_messages_of_slack_are_one_dialogue(tmp_path: Path) -> None:
    said = [{"type": "message", "user": f"U{i % 3}", "text": f"message {i}", "ts": f"17{i:08}.0001"} for i in range(9)]
    joined = {"type": "message", "subtype": "channel_join", "user": "U9", "text": "joined", "ts": "1700000000.0001"}
    path = tmp_path / "day.json"
    path.write_text(json.dumps([joined, *said]))
    found = list(read_exchanges(path))
    assert [one.responses for one in found] == [(f"message {i}",) for i in range(1, 9)]
    assert found[-1].own == (False, False, True) * 2 + (False, False)


def test_table_of_discord_is_one_dialogue(tmp_path: Path) -> None:
    rows = "".join(f'1{i % 2},{("ann", "bob")[i % 2]},2024-03-01T10:00,"message, {i}",,\n' for i in range(9))
    path = tmp_path / "general.csv"
    path.write_text(f"AuthorID,Author,Date,Content,Attachments,Reactions\n{rows}")
    assert [one.responses for one in read_exchanges(path)] == [(f"message, {i}",) for i in range(1, 9)]
