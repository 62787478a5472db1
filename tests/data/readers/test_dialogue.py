"""Readers of conversations: every format, what it means, and what is wrong with a file in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.data.dialogue import Exchange, alternating, inner_exchanges
from catena.data.examples import SourceLocation
from catena.data.readers.dialogue import read, recognize, split_turns
from catena.data.readers.names import PairColumns
from catena.data.readers.paired import FOUND
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


def all_of(path: Path) -> list[Exchange]:
    return list(read(path, recognize(path)[0]))


def test_pairs_with_turns_inside_a_context(tmp_path: Path) -> None:
    path = written(tmp_path, "hi __eou__ there __eot__ yes\tno __eou__ \n\t\n你好\t👋🏽 ok\n")
    assert recognize(path)[0] == "pairs", "a name of one who speaks has few words"
    found = list(read(path, "pairs"))
    assert [(e.context, e.responses, e.place.line) for e in found] == [
        (("hi there", "yes"), ("no",), 1),
        ((), ("",), 2),
        (("你好",), ("👋🏽 ok",), 3),
    ]
    assert found[0].own == (True, False), "two people speak in turn, and the last turn is the other's"
    path = written(tmp_path, "context\tresponse\na\tb\n")
    assert recognize(path)[0] == "pairs"
    assert [e.responses for e in all_of(path)] == [("b",)]


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_questions_and_answers_below_a_header(tmp_path: Path, delimiter: str) -> None:
    rows = (("id", "Question", "Answer"), ("1", "where is it", "here"), ("2", "when", "at nine"))
    path = written(tmp_path, "\n\n".join(delimiter.join(row) for row in rows) + "\n")
    assert recognize(path)[0] == "pairs", "blank lines do not make a table a dialogue"
    assert [(e.context, e.responses) for e in all_of(path)] == [
        (("where is it",), ("here",)),
        (("when",), ("at nine",)),
    ]


def test_questions_with_a_blank_line_are_not_taken_for_speakers(tmp_path: Path) -> None:
    path = written(tmp_path, "When?\tat nine\n\nwhere is the key\there\n")
    assert recognize(path)[0] == "pairs"
    assert recognize(written(tmp_path, "Ann\tat nine\nBen Old\twhy\n\nAnn\there\n"))[0] == "dialogue"
    path = written(tmp_path, "When?\tat nine\nwhere is the key\there\tor there\nwho\tme\n")
    with pytest.raises(
        FormatError, match=r"talk:2 has 3 tab-separated fields, unlike most lines, which have 2.*without a tab"
    ):
        recognize(path)


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_labeled_pairs(tmp_path: Path, delimiter: str) -> None:
    rows = [("Context", "Utterance", "Label"), ("a __eot__ b", "c", "1"), ("a", "d", "0"), ("e", "f", "1.0")]
    path = written(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows))
    assert recognize(path)[0] == "labeled"
    found = all_of(path)
    assert [(e.context, e.responses, e.wrong) for e in found] == [
        (("a", "b"), ("c",), ()),
        (("a",), (), ("d",)),
        (("e",), ("f",), ()),
    ]
    rows += [("e", "g", "0"), ("e", "h", "0"), ("a", "i", "1")]
    path = written(tmp_path, "".join(delimiter.join(row) + "\n" for row in rows))
    assert [(e.context, e.responses, e.wrong, e.place.line) for e in all_of(path)[2:]] == [
        (("e",), ("f",), ("g", "h"), 4),
        (("a",), ("i",), (), 7),
    ], "neighboring rows of one context belong together"
    path = written(tmp_path, delimiter.join(rows[0]) + "\n" + delimiter.join(("a", "b", "yes")) + "\n")
    with pytest.raises(FormatError, match=r"talk:2 must have the label 1 or 0, got 'yes'"):
        all_of(path)


def test_nine_distractors_in_their_order(tmp_path: Path) -> None:
    names = ["Context", "Ground Truth Utterance", *(f"Distractor_{i}" for i in (10, 2, 0))]
    path = written(tmp_path, ",".join(names) + '\n"a, b __eot__",right,ten,two,zero\n')
    assert recognize(path)[0] == "distractors"
    found = all_of(path)
    assert found[0].context == ("a, b",)
    assert found[0].responses == ("right",)
    assert found[0].wrong == ("zero", "two", "ten")
    path = written(tmp_path, ",".join(names) + "\na,b\n")
    with pytest.raises(FormatError, match="talk:2 must have 5 fields as in the header, got 2"):
        all_of(path)


def test_json_lines_with_responses(tmp_path: Path) -> None:
    plain = {"context": "a __eot__ b", "response": "c"}
    path = written(tmp_path, json.dumps(ROW) + "\n\n" + json.dumps(plain) + "\n")
    assert recognize(path)[0] == "responses"
    first, second = all_of(path)
    assert first.context == ("Hi there", "Hello you")
    assert first.responses == ("Fine.", "Good.")
    assert (first.wrong, first.hard) == (("Blue.",), ("You there?",))
    assert (second.context, second.responses, second.place.line) == (("a", "b"), ("c",), 3)


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
        {"turns": ["alone"]},
    ]
    path = written(tmp_path, "".join(json.dumps(one) + "\n" for one in objects))
    assert recognize(path)[0] == "turns"
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
    assert recognize(path)[0] == "dialogue"
    found = [(e.context, e.responses, e.own, e.place.line) for e in all_of(path)]
    assert found == [
        (("hello",), ("hi there",), (False,), 2),
        (("yes",), ("no",), (True,), 6),
        (("yes", "no"), ("well",), (False, False), 6),
    ]


SPOKEN = "A: Hello: you.\nB : Hi\nA:Well\n\nB：yes\nand more\nA: no\n"


def test_speakers_before_colon_are_removed_from_turns(tmp_path: Path) -> None:
    path = written(tmp_path, SPOKEN.replace("and more\n", "") + "\nA: 1\nB: 2\n" * 70 + "\n" + SPOKEN)
    format, why = recognize(path)
    assert (format, why) == ("dialogue", "its lines are turns, each after its speaker and a colon")
    found = [(e.context, e.responses, e.own) for e in all_of(path)]
    assert found[:3] == [
        (("Hello: you.",), ("Hi",), (False,)),
        (("Hello: you.", "Hi"), ("Well",), (True, False)),
        (("yes",), ("no",), (False,)),
    ]
    assert found[-1] == (("yes and more",), ("no",), (False,)), "a line without a speaker goes on with the turn above"


@pytest.mark.parametrize(
    "line",
    ["See http://x.org", "12:30 is fine", "The one thing I mean: no", "Really?: no", "plain"],
)
def test_colons_of_texts_are_kept(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"A: x\nB: y\nA: z\n{line}\n")
    assert recognize(path) == ("dialogue", "its lines are turns")
    assert all_of(path)[-1].context == ("A: x", "B: y", "A: z")
    path = written(tmp_path, "".join(f"Point {i}: x\n" for i in range(9)))
    assert all_of(path)[0].context == ("Point 0: x",), "those who speak come again"


@pytest.mark.parametrize(
    ("name", "text", "columns", "found"),
    [
        ("x.csv", "Hi you.,Hello.\nWhy?,No.\n", FOUND, ("Hi you.", "Hello.")),
        ("x.csv", "id;question;answer\n1;Hi, you.;Hello.\n", FOUND, ("Hi, you.", "Hello.")),
        ("x.csv", "n,frage,antwort\n1,Hi you.,Hello.\n", PairColumns("frage", "antwort"), ("Hi you.", "Hello.")),
        ("x", "1\tHi you.\tHello.\n2\tWhy?\tNo.\n", PairColumns("2", "3"), ("Hi you.", "Hello.")),
        ("x", '"Hi ""you""."\t"Hello."\n"Why?"\t"No."\n', FOUND, ('Hi "you".', "Hello.")),
        ("x", '"question"\t"answer"\n"Hi\nyou"\t"Hello."\n', FOUND, ("Hi you", "Hello.")),
        ("x", '{"a": "Hi you.", "b": "Hello."}\n', PairColumns("a", "b"), ("Hi you.", "Hello.")),
        ("x", '{"prompt": "Hi you.", "completion": "Hello."}\n', FOUND, ("Hi you.", "Hello.")),
        ("x", '{"instruction": "Hi", "input": "you.", "output": "Hello."}\n', FOUND, ("Hi you.", "Hello.")),
        (
            "x",
            '{"messages": [{"role": "user", "content": "Hi"}, {"role": "me", "content": "Oh"}]}\n',
            FOUND,
            ("Hi", "Oh"),
        ),
        ("x", '{"conversations": [{"from": "a", "value": "Hi"}, {"from": "b", "value": "Oh"}]}\n', FOUND, ("Hi", "Oh")),
    ],
)
def test_pairs_and_turns_as_others_write_them(
    name: str, text: str, columns: PairColumns, found: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    first = next(read(tmp_path / name, recognize(tmp_path / name, None, columns)[0], None, columns))
    assert (first.context, first.responses) == ((found[0],), (found[1],))


def test_csv_without_column_names_raises_error(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("n,frage,antwort\n1,Hi,Oh\n", encoding="utf-8")
    with pytest.raises(
        FormatError, match=r"x\.csv has 3 columns, .*'n,frage,antwort', .*--context-column 1 --response"
    ):
        recognize(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("Hello, you.\nYes.\n", encoding="utf-8")
    assert recognize(tmp_path / "x.csv")[0] == "dialogue", "commas of texts make no table"


def test_invalid_files_raise_error(tmp_path: Path) -> None:
    cases = {
        ("pairs", "a\tb\tc\n"): r"talk:1 has 3 tab-separated fields instead of 2",
        ("labeled", "question,label\na,1\n"): r"no column for the response.*'question', 'label'",
        ("labeled", "context,response\na,b\n"): r"no column 'label'",
        ("distractors", "context,response\na,b\n"): r"has no column distractor_0",
        ("responses", "{\n"): r"talk:1 is not JSON",
        ("responses", "[1]\n"): r"talk:1 is not a JSON object",
        ("responses", '{"context": ["a"]}\n'): r"talk:1 must have the keys context and response.*got 'context'",
        ("responses", '{"context": [1], "response": "a"}\n'): r"must have a list of strings as 'context'",
        ("turns", '{"turn": 1}\n'): r"must have a list 'turns', got 'turn'",
        ("turns", '{"turns": ["a", "b"], "speakers": ["x"]}\n'): r"must have one speaker for each of 2 turns, got 1",
        ("dialogue", "A\tx\ny\n"): r"talk:2 must have as many tabs as the first turn of its dialogue, 1, got 0",
    }
    for (format, text), words in cases.items():
        with pytest.raises(FormatError, match=words):
            list(read(written(tmp_path, text), format))
    with pytest.raises(FormatError, match="Pass a file of conversations"):
        recognize(written(tmp_path, "\n\n"))
    with pytest.raises(FormatError, match="Cannot detect the format of the conversations"):
        recognize(written(tmp_path, "a\tb\tc\nd\te\n"))
    with pytest.raises(
        FormatError, match=r"has 3 columns, and its first line, 'a\\tb\\tc', has no names such as .*-column 2\.$"
    ):
        recognize(written(tmp_path, "a\tb\tc\nd\te\tf\n"))


def test_turns_and_speakers() -> None:
    assert split_turns(" a __eou__ b  __eot__  __eot__ c") == ("a b", "c")
    assert alternating(3) == (False, True, False)
    place = SourceLocation("x", 1)
    inner = inner_exchanges(Exchange(("a", "b", "c"), ("d",), place, (True, True, False)))
    assert [(e.context, e.responses, e.own) for e in inner] == [
        (("a",), ("b",), (True,)),
        (("a", "b"), ("c",), (False, False)),
    ]
