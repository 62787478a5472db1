"""Files as programs export them, with the task, the number of examples and the labels that a careful reader finds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.data.conversations import read_exchanges
from catena.data.detect import detect_format
from catena.data.inspection import FileReport, inspect
from catena.data.records import read_records
from catena.data.roles import TEXT

TEXTS = [f"{verb} the {thing} in {room}, please" for verb in ("move", "clean", "paint") for thing in ("red chair",
         "old lamp", "big table") for room in ("the hall", "my office", "our garden")]  # fmt: skip
LABELS = ["billing" if i % 3 else "tech support" for i in range(len(TEXTS))]
NAMES = set(LABELS)
ROWS = list(zip(TEXTS, LABELS, strict=True))
RECORDS = [{"text": text, "label": label} for text, label in ROWS]
SENTENCES = [
    [("Ada", "B-PER"), ("Rhodes", "I-PER"), ("sings", "O")],
    [("Paris", "B-LOC"), ("is", "O"), ("old", "O")],
    [("Bob", "B-PER"), ("left", "O")],
] * 4


def table(rows: Sequence[Sequence[Any]], header: Sequence[str] = (), **options: Any) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n", **options).writerows([header, *rows] if header else rows)
    return file.getvalue()


def look(folder: Path, name: str, content: str, **options: Any) -> FileReport:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return inspect([path], **options).files[0]


def errors(report: FileReport) -> str:
    return " ".join(finding.message for finding in report.findings if finding.level == "error")


CLASSIFIED = {
    "sep_tab.csv": "sep=\t\n" + table(ROWS, ["text", "label"], delimiter="\t"),
    "titled.csv": "Tickets of May,,\nExported today,,\n"
    + table([(i, *row) for i, row in enumerate(ROWS)], ["id", "text", "label"]),
    "short_title.csv": "Tickets,\n" + table(ROWS, ["text", "label"]),
    "r_tabs.txt": '"text"\t"label"\n' + "".join(f'"{i}"\t"{text}"\t"{name}"\n' for i, (text, name) in enumerate(ROWS)),
    "r_commas.csv": "text,label\n" + table([(i, *row) for i, row in enumerate(ROWS)]),
    "empty_last.csv": "text,label\n" + table([(*row, "") for row in ROWS]),
    "sqlite.txt": "".join(f"{i}|{label}|{text}\n" for i, (text, label) in enumerate(ROWS)),
    "bools.csv": table([(text, label == "billing", label != "billing") for text, label in ROWS],
                       ["text", "billing", "tech support"]),
    "cats.jsonl": "".join(json.dumps({"text": text, "cats": {name: float(name == label) for name in sorted(NAMES)}})
                          + "\n" for text, label in ROWS),
    "rows.json": json.dumps([list(row) for row in ROWS]),
    "rows_below_names.json": json.dumps([["text", "label"], *map(list, ROWS)]),
    "one_after_another.json": "".join(json.dumps(record, indent=1) + "\n" for record in RECORDS),
    "one_line.jsonl": " ".join(map(json.dumps, RECORDS)),
    "single_quotes.csv": "text,label\n" + "".join(f"'{text.replace(' in', chr(39) * 2 + 's in')}',{label}\n"
                                                   for text, label in ROWS),
    "semicolons_without_header": "".join(f"{text};{label.split()[0]}\n" for text, label in ROWS).replace("tech",
                                                                                                          "tech_support"),
    "columns_below_a_key.json": json.dumps({"all": {"text": TEXTS, "label": LABELS}}),
    "intents_of_utterances.json": json.dumps({"version": 1, "utterances": [
        {"text": text, "intent": label, "entities": []} for text, label in ROWS]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIFIED)
def test_every_record_of_an_export_is_a_labeled_text(name: str, tmp_path: Path) -> None:
    report = look(tmp_path, name, CLASSIFIED[name])
    assert not errors(report)
    names = {label.replace("_", " ") for label in report.labels}
    assert (report.task, report.n_examples, names) == ("classify", len(ROWS), NAMES), report.why


@pytest.mark.parametrize("where", ["before", "after"])
def test_labels_of_fasttext_may_be_at_either_end(where: str, tmp_path: Path) -> None:
    lines = [f"__label__{label[:4]} {text}\n" if where == "before" else f"{text} __label__{label[:4]}\n"
             for text, label in ROWS]  # fmt: skip
    report = look(tmp_path, "f.txt", "".join(lines))
    assert (report.format, report.n_examples, set(report.labels)) == ("fasttext", len(ROWS), {"bill", "tech"})


@pytest.mark.parametrize("ids", [[f"q{i}" for i in range(27)], list(range(1, 28)), [f"{i:08x}" for i in range(27)]])
def test_ids_are_neither_labels_nor_sources(ids: Sequence[object], tmp_path: Path) -> None:
    for n in (4, 27):
        lines = "".join(f"{one}\t{text}\n" for one, text in zip(ids[:n], TEXTS[:n], strict=True))
        report = look(tmp_path, f"{n}.tsv", lines)
        assert report.task is None
        assert "has ids and texts and no labels" in report.why


def test_class_title_and_text_are_not_a_pair(tmp_path: Path) -> None:
    rows = [(i % 3 + 1, text[::-1], text) for i, text in enumerate(TEXTS)]
    report = look(tmp_path, "news.csv", table(rows))
    assert report.task is None
    assert "without a header" in report.why
    scored = [(text, text[::-1], i + 0.5) for i, text in enumerate(TEXTS)]
    assert look(tmp_path, "scored.csv", table(scored)).task == "translate"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("dump.sql", "INSERT INTO t VALUES ('a b c', 'd');\n" * 5, "SQL"),
        ("dump.txt", "INSERT INTO t VALUES ('a b c', 'd');\n" * 5, "SQL"),
        ("page.html", "<p>a text here</p>\n" * 5, "HTML"),
        ("features.txt", "".join(f"{i % 2} 1:0.5 7:{i}\n" for i in range(20)), "LIBSVM"),
        ("brown.txt", "The_DT cat_NN sat_VBD ._.\nA_DT dog_NN ran_VBD ._.\n" * 5, "word_TAG"),
        ("splits.json", json.dumps({"train": RECORDS[:9], "test": RECORDS[9:]}), "records under 'train' and 'test'"),
        ("clinc.json", json.dumps({"train": [list(row) for row in ROWS], "val": [list(ROWS[0])] * 3}), "under 'train'"),
        ("turns.txt", "1 hi there you\thello my friend\n2 how are you\tvery well thanks\n" * 9, "ParlAI"),
        ("tags.csv", "".join("".join(f"{word},{tag}\n" for word, tag in one) + "\n" for one in SENTENCES), "tabs"),
    ],
)  # fmt: skip
def test_other_content_is_named_and_not_trained_on(name: str, content: str, said: str, tmp_path: Path) -> None:
    report = look(tmp_path, name, content)
    assert report.task is None
    assert said in report.why


UNNAMED = {
    "ids": table([(f"x{i}", text) for i, text in enumerate(TEXTS)], ["id", "text"]),
    "column": table([(text,) for text in TEXTS], ["text"]),
    "quoted": table(ROWS),
    "array": json.dumps(TEXTS),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_table_without_a_name_is_read_as_with_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "standard-input"
    path.write_text(UNNAMED[name], encoding="utf-8")
    assert [record["text"] for record in read_records(path, (TEXT,))] == TEXTS


def test_strings_of_json_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(text) + "\n" for text in TEXTS), encoding="utf-8")
    assert [record["text"] for record in read_records(path, (TEXT,))] == TEXTS


def test_plain_text_with_quotes_and_brackets_stays_text(tmp_path: Path) -> None:
    for first in ('"Yes," she said, "it is."', '["a" is a letter]', "text, they say, is text", "Text"):
        path = tmp_path / "a.txt"
        path.write_text(f'{first}\nand so on, as always\n"No," he said.\n', encoding="utf-8")
        assert detect_format(path).format == "text", first


# --- words and tags ---------------------------------------------------------------------------------------------------


def sentences(first: str = "", swap: bool = False, tag: str | None = None) -> str:
    rows = [[(word, tag_ if tag is None else tag[len(word) % 2]) for word, tag_ in one] for one in SENTENCES]
    return first + "".join("".join("\t".join(row[::-1] if swap else row) + "\n" for row in one) + "\n" for one in rows)


def test_words_below_a_header_are_sentences(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.conll", "a.txt"):
        report = look(tmp_path, name, sentences("word\ttag\n"))
        assert (report.task, report.n_examples) == ("tag", len(SENTENCES)), name
        assert "tag" not in report.labels


def test_tags_without_spans_and_blank_lines_are_sentences(tmp_path: Path) -> None:
    report = look(tmp_path, "a.tsv", sentences(tag="NV"))
    assert (report.task, report.n_examples) == ("tag", len(SENTENCES))
    grouped = "".join(f"{name}{i}\t{name}\n" for name in ("Ada", "Bob", "Eve", "Tom") for i in range(9))
    report = look(tmp_path, "groups.tsv", grouped.replace("8\tAda\n", "8\tAda\n\n").replace("8\tEve\n", "8\tEve\n\n"))
    assert report.task == "classify"


def test_tags_before_words_need_options(tmp_path: Path) -> None:
    from catena.cli.main import main
    from catena.tasks.load import load

    report = look(tmp_path, "a.bio", sentences(swap=True))
    assert report.task is None
    assert report.why.endswith("Pass --text-column 1 --tags-column 0.")
    words = ["train", "tag", str(tmp_path / "a.bio"), "--model", "hmm", "-q", "-o", str(tmp_path / "run")]
    assert main(words) == 1
    assert main([*words, "--text-column", "1", "--tags-column", "0"]) == 0
    assert load(tmp_path / "run").predict([["Bob", "left"]])[0].tags == ("B-PER", "O")


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["-", "?", "none", "Unknown"])
def test_labels_that_may_be_missing_are_reported(label: str, tmp_path: Path) -> None:
    rows = [(text, label if i in (3, 5) else name) for i, (text, name) in enumerate(ROWS)]
    found = [
        f for f in look(tmp_path, "a.csv", table(rows, ["text", "label"])).findings if f.kind == "placeholder-label"
    ]
    assert [finding.count for finding in found] == [1]
    assert found[0].message.startswith(f"2 texts have the label {label!r}")


def test_label_joined_with_another_label_is_reported(tmp_path: Path) -> None:
    rows = [(text, "billing,sales" if i == 4 else name) for i, (text, name) in enumerate(ROWS)]
    found = look(tmp_path, "a.csv", table(rows, ["text", "label"])).findings
    assert "joined-labels" in [finding.kind for finding in found]


PAIRED = [(text, text[::-1], i % 2) for i, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    "names",
    ["sentence1,sentence2,label", "Question1,Question2,is_duplicate", "premise,hypothesis,gold_label",
     "question,sentence,label", "text_a,text_b,score", "#1 String,#2 String,Quality"],
)  # fmt: skip
def test_label_of_two_texts_is_not_the_label_of_one(names: str, tmp_path: Path) -> None:
    report = look(
        tmp_path, "x.csv", table([(f"q{i}", *row) for i, row in enumerate(PAIRED)], ["id", *names.split(",")])
    )
    assert report.task is None
    first, second, label = names.split(",")
    assert f"{first!r} and {second!r}, and the label {label!r} of both" in report.why
    only = look(tmp_path, "y.tsv", table([row[:2] for row in PAIRED], names.split(",")[:2], delimiter="\t"))
    assert (only.task, only.n_examples) in (("translate", len(PAIRED)), (None, len(PAIRED)))
    assert (only.task is None) == (first in ("premise", "question"))


def test_arrays_of_the_same_form_are_not_chosen_by_length(tmp_path: Path) -> None:
    nested = {"one": {"data": RECORDS[:9]}, "the.other": {"data": RECORDS[9:]}}
    report = look(tmp_path, "x.json", json.dumps(nested))
    assert "records under 'one.data' and 'the.other.data'" in report.why
    assert "jq .one.data x.json > one_data.json" in report.why


def test_articles_with_questions_are_not_titles_with_labels(tmp_path: Path) -> None:
    articles = [{"title": f"t{i}", "source": "ab"[i % 2], "paragraphs": [{"context": text, "qas": [
        {"id": i, "question": "what?", "answers": [{"text": text.split()[0], "answer_start": 0}]}]}]}
        for i, text in enumerate(TEXTS)]  # fmt: skip
    report = look(tmp_path, "x.json", json.dumps(articles))
    assert (report.task, report.n_examples) == ("read", len(TEXTS))


def test_missing_texts_of_sentences_are_dropped_and_names_are_kept(tmp_path: Path) -> None:
    rows = [("NaN" if i % 9 == 0 else text, label) for i, (text, label) in enumerate(ROWS)]
    assert look(tmp_path, "x.csv", table(rows, ["text", "label"])).dropped == {"empty": 3}
    names = [("Nan" if i % 9 else "NaN", "first") for i in range(27)]
    assert look(tmp_path, "y.csv", table(names, ["text", "label"])).n_examples == 27


@pytest.mark.parametrize("n", [30, 3000])
def test_quantities_are_for_regression(n: int, tmp_path: Path) -> None:
    rows = [(f"{TEXTS[i % 27]} number {i}", f"{0.03 + i * 37 % 497 / 100:.2f}") for i in range(n)]
    report = look(tmp_path, "x.csv", table(rows, ["text", "score"]))
    assert (report.task, report.n_examples) == ("regress", n)
    stars = [(text, i % 5 + 1) for i, text in enumerate(TEXTS)]
    assert look(tmp_path, "y.csv", table(stars, ["text", "score"])).task == "classify"


def test_cures_name_columns_that_can_have_the_role(tmp_path: Path) -> None:
    rows = [(i, f"2024-01-{i % 27 + 1:02d}", text, "en") for i, text in enumerate(TEXTS)]
    report = look(tmp_path, "x.csv", table(rows, ["id", "date", "text", "lang"]))
    assert f"catena train lm {tmp_path / 'x.csv'}'" in report.why
    both = look(tmp_path, "y.csv", table([(i, *row[:2]) for i, row in enumerate(PAIRED)], ["id", "chosen", "other"]))
    assert "--source-column chosen --target-column other" in both.why


# --- words and trees --------------------------------------------------------------------------------------------------


def test_comments_with_the_fields_of_a_row_are_comments(tmp_path: Path) -> None:
    content = "".join(f"# id {i} domain=en\n" + "".join(f"{word} _ _ {tag}\n" for word, tag in sentence) + "\n"
                      for i, sentence in enumerate(SENTENCES))  # fmt: skip
    report = look(tmp_path, "x.conll", content)
    assert (report.task, report.n_words) == ("tag", sum(map(len, SENTENCES)))
    assert set(report.labels) == {"B-PER", "I-PER", "B-LOC", "O"}


@pytest.mark.parametrize("name", ["x.txt", "x.tsv"])
def test_tags_before_words_are_not_labels_of_texts(name: str, tmp_path: Path) -> None:
    report = look(tmp_path, name, "\n".join("".join(f"{tag}\t{word}\n" for word, tag in one) for one in SENTENCES))
    assert report.task is None
    assert "--tags-column 0" in report.why


def test_tags_of_words_without_sentences_are_not_labels(tmp_path: Path) -> None:
    report = look(tmp_path, "x.csv", table([row for one in SENTENCES for row in one], ["word", "label"]))
    assert report.task is None
    assert "Add a column sentence_id" in report.why


def test_dependency_trees_of_another_form_are_not_tags(tmp_path: Path) -> None:
    rows = ["the\tDT\t2\tdet", "dog\tNN\t3\tsubj", "chased\tVB\t0\troot", "cats\tNN\t3\tobj"]
    report = look(tmp_path, "x.txt", "\n".join("\n".join(rows) + "\n" for _ in range(9)))
    assert report.task is None
    assert "heads of words in column 2" in report.why
    assert "--tags-column 1" in report.why
    counted = ["the\tDT\t0", "dog\tNN\t1", "chased\tVB\t2", "cats\tNN\t3"]  # positions, not heads
    other = look(tmp_path, "y.txt", "\n".join("\n".join(counted) + "\n" for _ in range(9)))
    assert "heads" not in other.why


def test_comments_between_trees_are_skipped(tmp_path: Path) -> None:
    trees = "".join(f"(S (NP (DT the) (NN dog{i})) (VP (VB ran)))\n" for i in range(9))
    report = look(tmp_path, "x.mrg", "%% made by a parser\n" + trees + "# the end\n")
    assert (report.task, report.n_examples, report.dropped) == ("parse", 9, {})


# --- dialogues --------------------------------------------------------------------------------------------------------


TURNS = [["how are you today", "very well thank you", "glad to hear it"], ["where is the cat", "in the garden"]] * 3
STAMPS = {
    "fr": "{d:02d}/03/2024 à 09:0{i} - {who} : ", "fi": "{d}.3.2024 klo 9.0{i} - {who}: ",
    "tw": "2024/3/{d} 上午9:0{i} - {who}: ", "ar": "{d:02d}/03/24, 9:0{i} م - {who}: ",
    "kr": "2024. 3. {d}. 오전 9:0{i}, {who} : ", "cz": "{d}. 3. 2024 9:0{i} - {who}: ",
    "us": "3/{d}/24, 9:0{i}\u202fAM - {who}: ", "ios": "\u200e[{d:02d}.03.24, 09:0{i}:12] {who}: ",
    "discord": "[{d}/3/2024 9:0{i} AM] {who}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", STAMPS)
def test_chats_are_read_with_their_speakers(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("".join(
        STAMPS[name].format(d=d + 1, i=i, who=("Ann Lee", "Bob")[i % 2]) + turn + "\n" + "\n" * (name == "discord")
        for d, turns in enumerate(TURNS) for i, turn in enumerate(turns)
    ), encoding="utf-8")  # fmt: skip
    assert inspect([path]).files[0].task == "converse"
    found = [exchange for exchange in read_exchanges(path) if len(exchange.context) == 2]
    assert [(one.context, one.responses, one.own) for one in found] == [
        (tuple(turns[:2]), (turns[2],), (True, False)) for turns in TURNS if len(turns) == 3
    ]


def test_speakers_before_tabs_are_not_labels(tmp_path: Path) -> None:
    lines = "\n".join("".join(f"{'AB'[i % 2]}\t{turn}\n" for i, turn in enumerate(turns)) for turns in TURNS)
    for name in ("x.txt", "x.tsv"):
        report = look(tmp_path, name, lines)
        assert (report.format, report.task, report.n_examples) == ("dialogue", "converse", len(TURNS))
    labeled = "".join(f"{'ab'[i % 2]}\tsome text {i}\n" for i in range(40))
    assert look(tmp_path, "y.tsv", labeled).task == "classify"


def test_turn_in_each_row_is_a_dialogue_for_each_id(tmp_path: Path) -> None:
    rows = [(f"d{k}", i, "AB"[i % 2], turn) for k, turns in enumerate(TURNS) for i, turn in enumerate(turns)]
    report = look(tmp_path, "x.csv", table(rows, ["dialogue_id", "turn", "speaker", "text"]))
    assert (report.task, report.n_examples) == ("converse", len(TURNS))
    found = list(read_exchanges(tmp_path / "x.csv"))
    assert [exchange.responses[0] for exchange in found] == [turn for turns in TURNS for turn in turns[1:]]


def test_instructions_are_read_with_their_texts(tmp_path: Path) -> None:
    records = [{"instruction": "Sum up the text", "context": "" if i % 2 else text, "response": f"short {i}",
                "category": "xy"[i % 2]} for i, text in enumerate(TEXTS)]  # fmt: skip
    for name, content in (("x.jsonl", "".join(json.dumps(one) + "\n" for one in records)),
                          ("x.csv", table([tuple(one.values()) for one in records], list(records[0])))):  # fmt: skip
        report = look(tmp_path, name, content)
        assert report.task == "converse"
        contexts = [exchange.context for exchange in read_exchanges(tmp_path / name)]
        assert contexts == [(" ".join(["Sum up the text", *one["context"].split()]),) for one in records]
