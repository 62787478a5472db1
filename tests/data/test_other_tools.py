"""Tables and JSON as other tools write them, made here, against the labels that went in or a sentence with a cure."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from catena.data.inspection import FileReport, inspect
from catena.data.records import read_examples, read_pairs

N = 60
TEXTS = [f"the {('hall', 'staff', 'food')[i % 3]} was {('good', 'dull')[i % 2]} on day {i}" for i in range(N)]
LABELS = [("pos", "neg", "neu")[i % 3] for i in range(N)]
SETS = [("python",), ("c#", "sql"), ("java",), ("sql",), ("c#", "java", "html"), ("html",)]
SEVERAL = [SETS[i % len(SETS)] for i in range(N)]
COUNTS = Counter(label for labels in SEVERAL for label in labels)


def look(folder: Path, content: str, name: str = "x.csv", **options: Any) -> FileReport:
    (folder / name).write_text(content, encoding="utf-8")
    return inspect([folder / name], **options).files[0]


def table(rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def lines(records: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def errors(report: FileReport) -> str:
    return " ".join(finding.message for finding in report.findings if finding.level == "error")


# --- several labels of a text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["angled", "choices", "list"])
def test_cells_that_spell_several_labels_are_split(form: str, tmp_path: Path) -> None:
    spell = {
        "angled": lambda labels: "".join(f"<{label}>" for label in labels),
        "choices": lambda labels: json.dumps({"choices": list(labels)}),
        "list": lambda labels: repr(list(labels)),
    }[form]
    content = table([("Id", "Body", "Tags"), *((i, TEXTS[i], spell(SEVERAL[i])) for i in range(N))])
    report = look(tmp_path, content, multilabel=True)
    assert (report.task, report.n_examples, report.labels) == ("classify", N, dict(COUNTS.most_common()))
    assert [example.labels for example in read_examples(tmp_path / "x.csv", multilabel=True)] == SEVERAL
    assert "pass --multilabel" in errors(look(tmp_path, content))


@pytest.mark.parametrize(("separator", "ends"), [("#", ""), ("|", "|"), (";", ";")])
def test_joined_labels_are_reported_with_their_number(separator: str, ends: str, tmp_path: Path) -> None:
    sets = [tuple(label.replace("#", "-") for label in labels) for labels in SEVERAL]
    cells = [f"{ends}{separator.join(labels)}{ends}" for labels in sets]
    report = look(tmp_path, table([("text", "label"), *zip(TEXTS, cells, strict=True)]))
    (finding,) = [finding for finding in report.findings if finding.kind == "joined-labels"]
    assert f"--label-separator '{separator}' to read the labels as 5" in finding.message
    options = {"multilabel": True, "label_separator": separator}
    assert sum(look(tmp_path, (tmp_path / "x.csv").read_text(), **options).labels.values()) == sum(COUNTS.values())


def test_unknown_column_of_joined_labels_is_named_with_its_options(tmp_path: Path) -> None:
    cells = [";".join(labels) + ";Z79" * (i % 7) for i, labels in enumerate(SEVERAL)]
    report = look(tmp_path, table([("note_text", "icd_codes"), *zip(TEXTS, cells, strict=True)]))
    assert report.task is None
    assert "Pass --multilabel --label-column icd_codes --label-separator ';'." in report.why


def test_lists_of_labels_are_labels_and_a_short_title_is_not(tmp_path: Path) -> None:
    records = [{"heading": f"story {i % 9}", "body": TEXTS[i], "topics": list(SEVERAL[i])} for i in range(N)]
    report = look(tmp_path, lines(records), "x.jsonl", multilabel=True)
    assert (report.columns["label"], report.labels) == ("'topics'", dict(COUNTS.most_common()))
    renamed = [{"heading": one["heading"], "body": one["body"], "mesh": one["topics"]} for one in records]
    assert look(tmp_path, lines(renamed), "x.jsonl").task is None, "either column may have the labels"


@pytest.mark.parametrize("mark", ["x", "✓", "1", "TRUE"])
def test_columns_of_marks_are_labels(mark: str, tmp_path: Path) -> None:
    names = ("Price", "Quality", "Service")
    other = {"1": "0", "TRUE": "FALSE"}.get(mark, "")
    rows = [(TEXTS[i], *(mark if i % (j + 2) == 0 else other for j in range(3))) for i in range(N)]
    report = look(tmp_path, table([("Comment", *names), *rows]), multilabel=True)
    assert report.labels == {name: N // (j + 2) for j, name in enumerate(names)}


def test_column_that_spells_its_values_in_another_way_is_not_a_label(tmp_path: Path) -> None:
    rows = [(TEXTS[i], "TRUE" if i % 9 == 0 else "FALSE", i % 2, int(i % 3 == 0), int(i % 5 == 0)) for i in range(N)]
    report = look(tmp_path, table([("text", "unclear", "joy", "anger", "fear"), *rows]), multilabel=True)
    assert report.labels == {"joy": 30, "anger": 20, "fear": 12}


def test_columns_of_yes_and_no_have_two_cures(tmp_path: Path) -> None:
    rows = [(TEXTS[i], ("yes", "no")[i % 2], ("yes", "no")[i % 3 == 0]) for i in range(N)]
    report = look(tmp_path, table([("text", "is_spam", "is_urgent"), *rows]))
    assert "Pass --label-column is_spam for one of its answers, or --multilabel" in report.why
    report = look(tmp_path, table([("text", "is_spam", "is_urgent"), *rows]), multilabel=True,
                  columns={"label": "is_spam,is_urgent"})  # fmt: skip
    assert report.labels == {"is_spam": 30, "is_urgent": 40}


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "row_id"])
def test_numbers_of_rows_do_not_hide_the_label(name: str, tmp_path: Path) -> None:
    rows = [(i + 1, TEXTS[i], "NA" if i % 10 == 0 else i % 5) for i in range(N)]
    report = look(tmp_path, table([(name, "text", "grade"), *rows]))
    assert (report.task, report.columns["label"], report.n_examples) == ("classify", "'grade'", 54)
    assert report.dropped == {"without a label": 6}


def test_names_of_splits_without_a_header_are_not_labels(tmp_path: Path) -> None:
    rows = [(("TRAIN", "TRAIN", "TEST", "VALIDATION")[i % 4], TEXTS[i], LABELS[i]) for i in range(N)]
    assert look(tmp_path, table(rows)).labels == {"pos": 20, "neg": 20, "neu": 20}


def test_missing_labels_in_the_spelling_of_spreadsheets_and_databases_are_dropped(tmp_path: Path) -> None:
    missing = ["#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "(null)", "[NULL]", "<null>", "Null", "NAN",
               "Nan", "n.a.", "N.A.", "<NA>"]  # fmt: skip
    rows = [(TEXTS[i], missing[i] if i < len(missing) else LABELS[i]) for i in range(N)]
    report = look(tmp_path, table([("text", "label"), *rows]))
    assert report.dropped == {"without a label": len(missing)}
    assert set(report.labels) == {"pos", "neg", "neu"}


# --- headers and quotes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label_first", [False, True])
def test_comma_in_every_text_that_is_not_quoted_is_an_error(label_first: bool, tmp_path: Path) -> None:
    rows = [[f"{text}, indeed", label] for text, label in zip(TEXTS, LABELS, strict=True)]
    names = ["text", "label"]
    rows, names = ([row[::-1] for row in rows], names[::-1]) if label_first else (rows, names)
    report = look(tmp_path, "".join(",".join(row) + "\n" for row in [names, *rows]))
    assert not report.is_usable
    assert "x.csv:2 is a record with 3 fields instead of 2" in errors(report)
    assert "Put fields that contain ',' in double quotes" in errors(report)


def test_empty_field_at_the_end_of_each_record_is_dropped(tmp_path: Path) -> None:
    content = "text,label\n" + "".join(f"{text},{label},\n" for text, label in zip(TEXTS, LABELS, strict=True))
    report = look(tmp_path, content)
    assert (report.n_examples, report.labels) == (N, {"pos": 20, "neg": 20, "neu": 20})


@pytest.mark.parametrize("names", [("Text", "Kategorie"), ("Satz", "Klasse"), ("Klasse", "Satz"), ("文本", "类别")])
def test_header_of_two_unknown_names_is_not_an_example(names: tuple[str, str], tmp_path: Path) -> None:
    rows = [names, *((LABELS[i], TEXTS[i]) if names[0] == "Klasse" else (TEXTS[i], LABELS[i]) for i in range(N))]
    report = look(tmp_path, table(rows, "\t"), "x.txt")
    assert (report.n_examples, report.labels) == (N, {"pos": 20, "neg": 20, "neu": 20})


def test_first_example_with_a_label_of_others_is_not_a_header(tmp_path: Path) -> None:
    rows = [("Splendid", "pos"), *zip(TEXTS, LABELS, strict=True)]
    assert look(tmp_path, table(rows, "\t"), "x.txt").n_examples == N + 1


@pytest.mark.parametrize(
    ("separator", "name"),
    [*((one, name) for one in "^~\x01\x1f" for name in ("x.txt", "x.csv")), (" ::: ", "x.txt"), (":::", "x.txt")],
)
def test_rare_delimiters_are_recognized(separator: str, name: str, tmp_path: Path) -> None:
    rows = [f"{text}{separator}{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    report = look(tmp_path, "\n".join(rows) + "\n", name)
    assert (report.task, report.n_examples) == ("classify", N)
    assert report.labels == {"pos": 20, "neg": 20, "neu": 20}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("blank", ["", "\n"])
def test_labels_in_lines_of_their_own_are_an_error(n: int, blank: str, tmp_path: Path) -> None:
    middle = "hall\n" * (n - 2)
    content = "".join(f"{text}\n{middle}{label}\n{blank}" for text, label in zip(TEXTS, LABELS, strict=True))
    report = look(tmp_path, content, "x.txt")
    assert f"texts with a label, such as 'pos', in each {('second', 'third')[n - 2]} line. Write label" in errors(
        report
    )
    verse = "".join(f"{text}\n{TEXTS[-i]} again\n" for i, text in enumerate(TEXTS))
    assert look(tmp_path, verse, "x.txt").task == "lm"


def test_what_is_known_about_an_author_is_not_a_text(tmp_path: Path) -> None:
    records = [{"id": i, "full_text": TEXTS[i], "user": {"name": "Ada", "description": "I write"}, "label": LABELS[i]}
               for i in range(N)]  # fmt: skip
    assert look(tmp_path, lines(records), "x.jsonl").columns == {"text": "'full_text'", "label": "'label'"}


def test_answers_of_several_annotators_are_not_labels(tmp_path: Path) -> None:
    rows = [(TEXTS[i], i % 2, int(i % 3 == 0), int(i % 5 == 0)) for i in range(N)]
    report = look(tmp_path, table([("text", "annotator_1", "annotator_2", "annotator_3"), *rows]))
    assert report.task is None
    assert "Pass its name, as in --label-column annotator_1." in report.why


def test_labels_with_a_color_are_their_names(tmp_path: Path) -> None:
    records = [{"body": TEXTS[i], "labels": [{"id": 1, "name": label, "color": "f00"} for label in SEVERAL[i]]}
               for i in range(N)]  # fmt: skip
    report = look(tmp_path, json.dumps(records), "x.json", multilabel=True)
    assert (report.task, report.labels) == ("classify", dict(COUNTS.most_common()))


def test_arrays_of_many_objects_are_not_splits(tmp_path: Path) -> None:
    content = {f"{i}_gab": {"annotators": [{"label": "x", "annotator_id": 1}]} for i in range(30)}
    report = look(tmp_path, json.dumps(content), "x.json")
    assert report.task is None
    assert "has an array of records in each of 30 objects, such as '0_gab.annotators'. Write an array" in report.why


def test_translation_memory_of_short_sentences_is_for_translate(tmp_path: Path) -> None:
    pair = '<tu><tuv xml:lang="en"><seg>Page {i}</seg></tuv><tuv xml:lang="de"><seg>Seite {i}</seg></tuv></tu>\n'
    units = "".join(pair.format(i=i) for i in range(N))
    report = look(tmp_path, f'<?xml version="1.0"?>\n<tmx version="1.4"><body>\n{units}</body></tmx>', "x.tmx")
    assert (report.task, report.n_examples) == ("translate", N)


# --- chat models ------------------------------------------------------------------------------------------------------


def test_few_short_completions_are_labels(tmp_path: Path) -> None:
    records = [{"prompt": TEXTS[i], "completion": f" {LABELS[i]}"} for i in range(N)]
    report = look(tmp_path, lines(records), "x.jsonl")
    assert (report.task, report.labels) == ("classify", {"pos": 20, "neg": 20, "neu": 20})
    assert [example.text for example in read_examples(tmp_path / "x.jsonl")] == TEXTS
    records = [{"prompt": TEXTS[i], "completion": f"an answer to {TEXTS[i]}"} for i in range(N)]
    assert look(tmp_path, lines(records), "x.jsonl").task == "converse"


def test_texts_below_one_instruction_are_classified(tmp_path: Path) -> None:
    records = [{"instruction": "Name the sentiment", "input": TEXTS[i], "output": LABELS[i]} for i in range(N)]
    report = look(tmp_path, json.dumps(records), "x.json")
    assert (report.task, report.columns) == ("classify", {"text": "'input'", "label": "'output'"})
    assert [example.text for example in read_examples(tmp_path / "x.json")] == TEXTS


# --- annotations ------------------------------------------------------------------------------------------------------

SENTENCE = "Ada met Bob in Rome"
SPANS = [(0, 3, "PER"), (8, 11, "PER"), (15, 19, "LOC")]


@pytest.mark.parametrize(
    "span",
    [
        lambda s, e, label: {"start": s, "end": e, "type": label},
        lambda s, e, label: {"start": s, "end": e, "value": SENTENCE[s:e], "tag": label, "tag_id": "7"},
        lambda s, e, label: {"entity": label, "start": s, "end": e, "body": SENTENCE[s:e], "value": SENTENCE[s:e]},
        lambda s, e, label: {"entity_group": label, "score": 0.9, "word": SENTENCE[s:e], "start": s, "end": e},
    ],
    ids=["type", "LightTag", "Wit.ai", "pipeline"],
)
def test_spans_of_tools_are_tags(span: Any, tmp_path: Path) -> None:
    records = [
        {"text": SENTENCE, "annotations": [span(*one) for one in SPANS], "intent": "ab"[i % 2]} for i in range(N)
    ]
    report = look(tmp_path, lines(records), "x.jsonl")
    assert (report.task, report.n_examples) == ("tag", N)
    assert report.labels == {"B-PER": 2 * N, "O": 2 * N, "B-LOC": N}
    assert "('catena train classify' reads 'intent' as labels)" in report.why


def test_annotations_without_positions_have_a_cure(tmp_path: Path) -> None:
    records = [{"text": TEXTS[i], "entities": [{"text": "Ada", "label": "PER"}]} for i in range(N)]
    report = look(tmp_path, lines(records), "x.jsonl")
    assert report.task is None
    assert "'entities' has annotations in a form that is not read. Write them as lists of [start, end" in report.why


def test_intent_among_entities_is_a_label(tmp_path: Path) -> None:
    records = [{"text": TEXTS[i], "entities": [{"entity": "intent", "value": f'"{LABELS[i]}"'}]} for i in range(N)]
    report = look(tmp_path, json.dumps({"data": records}), "x.json")
    assert (report.task, report.labels) == ("classify", {"pos": 20, "neg": 20, "neu": 20})


def test_types_of_mongodb_are_not_names(tmp_path: Path) -> None:
    records = [
        {"_id": {"$oid": f"{i:024x}"}, "review": TEXTS[i], "stars": {"$numberInt": str(i % 5)}} for i in range(N)
    ]
    report = look(tmp_path, lines(records), "x.json")
    assert (report.task, report.columns["label"]) == ("classify", "'stars'")
    assert report.labels == {str(k): 12 for k in range(5)}


WEBANNO = "#FORMAT=WebAnno TSV 3.3\n\n\n#Text=Ada met\n1-1\t0-3\tAda\tPER\t\n1-2\t4-7\tmet\t_\t\n"
TREETAGGER = "the\tDT\tthe\ncats\tNNS\tcat\nsat\tVBD\tsit\non\tIN\ton\nthe\tDT\tthe\nmat\tNN\tmat\n.\tSENT\t.\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (WEBANNO,
         "is annotations in WebAnno TSV, as INCEpTION exports them. Export it as CoNLL 2002"),
        ("#FORMAT 4\n#BOS 1 0 0 0\nDas\tART\t--\tNK\t500\n#EOS 1\n", "is a treebank in the export format of NEGRA."),
        ("S A dogs barks .\nA 1 2|||R:NOUN|||dog|||REQUIRED\n\n" * 20, "corrections in the format M2. Write"),
        (TREETAGGER * 20, "is output of TreeTagger without blank lines between sentences. Write a blank line"),
        ((TREETAGGER + "\n") * 20, "has lemmas in the last column and tags in column 1. Pass --tags-column 1"),
    ],
    ids=["WebAnno", "NEGRA", "M2", "TreeTagger", "lemmas"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["x.tsv", "x.txt"])
def test_other_annotations_are_named_with_a_cure(content: str, words: str, name: str, tmp_path: Path) -> None:
    report = look(tmp_path, content, name)
    assert report.task is None
    assert words in report.why


# --- tags -------------------------------------------------------------------------------------------------------------

WORDS = ["the", "big", "cats", "sleep", "here", "."]
POS = ["DT", "JJ", "NNS", "VBP", "RB", "."]


@pytest.mark.parametrize("tags", [["at", "jj", "nns", "vb", "rb", "."], ["r", "a", "n", "v", "d", "w"]])
def test_tags_in_small_letters_follow_a_slash(tags: list[str], tmp_path: Path) -> None:
    """As in the Brown corpus and in the corpus of the University of Peking."""
    sentence = " ".join(f"{word}/{tag}" for word, tag in zip(WORDS, tags, strict=True))
    report = look(tmp_path, "".join(f"Day{i}/np {sentence}\n" for i in range(N)), "x.txt")
    assert (report.task, report.n_examples) == ("tag", N)
    assert report.labels == dict.fromkeys(["np", *tags], N)
    assert look(tmp_path, "".join(f"pictures/{('cat', 'dog')[i % 2]}\n" for i in range(N)), "x.txt").task != "tag"


def test_tags_of_a_sentence_in_one_cell_have_their_name(tmp_path: Path) -> None:
    rows = [(" ".join([*WORDS, f"w{i}"]), " ".join([*POS, "NN"])) for i in range(N)]
    report = look(tmp_path, table([("tokens", "pos"), *rows]))
    assert (report.task, report.n_examples, report.labels) == ("tag", N, dict.fromkeys([*POS, "NN"], N))


def test_column_of_tags_next_to_heads_is_one_with_tags(tmp_path: Path) -> None:
    heads = [3, 3, 4, 0, 4, 4]
    rows = [[str(i), word, word, word, tag, tag, "_", "_", str(head), str(head), "x", "x", "_", "_"]
            for i, (word, tag, head) in enumerate(zip(WORDS, POS, heads, strict=True), start=1)]  # fmt: skip
    report = look(tmp_path, ("".join("\t".join(row) + "\n" for row in rows) + "\n") * 20, "x.txt")
    assert report.task is None
    assert "--tags-column 4'" in report.why


@pytest.mark.parametrize("names", [("word", "lemma"), ("form", "lemma"), ("lemma", "form")])
def test_words_and_lemmas_are_pairs_in_their_order(names: tuple[str, str], tmp_path: Path) -> None:
    report = look(tmp_path, table([names, *((f"walk{i}s", f"walk{i}") for i in range(N))]))
    assert (report.task, report.n_examples) == ("transduce", N)
    pairs = [(pair.source, pair.target) for pair in read_pairs(tmp_path / "x.csv")]
    assert pairs == [(f"walk{i}s", f"walk{i}") for i in range(N)]
