"""Records of every format by role: what is written comes back, and what cannot be used is counted and listed."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from catena.data.reading import ReadCounter
from catena.data.records import open_records, read_examples, read_pairs, read_records, read_texts
from catena.data.roles import COMPOSED, FILE, ITEMS, LABEL, MISSING, TEXT, TITLE, known_roles
from catena.data.token_tables import read_columns
from catena.errors import FormatError
from tests.data.readers.writing import file_with, labels, texts

LABELS = labels.map(partial(unicodedata.normalize, "NFC")).filter(lambda label: label not in MISSING)
FILLED = texts(min_size=1).filter(lambda text: bool(text.strip()))
PAIRS = st.lists(st.tuples(LABELS, FILLED), min_size=1, max_size=8)


def written(folder: Path, content: str | bytes, name: str = "file.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pairs_of(path: Path, **options) -> list[tuple[str, tuple[str, ...]]]:
    return [(example.text, example.labels) for example in read_examples(path, **options)]


def as_csv(rows: list[tuple[str, ...]], delimiter: str = ",", quoting: int = csv.QUOTE_MINIMAL) -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
    return stream.getvalue()


# --- round trips ------------------------------------------------------------------------------------------------------


@given(PAIRS, st.sampled_from(",;|\t"))
def test_csv_comes_back_with_quotes_delimiters_and_line_ends_inside(pairs, delimiter: str) -> None:
    pairs = [(label, f'{text}\n"said" {delimiter}') for label, text in pairs]
    content = as_csv([("id", "label", "text"), *(("7", *pair) for pair in pairs)], delimiter, csv.QUOTE_ALL)
    with file_with(content) as path:
        found = list(read_examples(path, format="tsv" if delimiter == "\t" else "csv"))
    assert [(e.labels, e.text.lstrip()) for e in found] == [((label,), text.lstrip()) for label, text in pairs]
    assert [e.location.line for e in found] == [2 + 2 * i for i in range(len(pairs))]


@given(st.lists(st.tuples(LABELS, texts(without='\t"', min_size=1).filter(str.strip)), min_size=1, max_size=8))
def test_tsv_without_header_comes_back(pairs) -> None:
    assume(not any(map(known_roles, pairs)))  # the common name of a column makes a line the header
    lines = [f"{label}\t{text}" for label, text in pairs]
    with file_with("\n".join(lines)) as path:
        found = pairs_of(path, format="tsv", columns={"label": "1", "text": "2"})
    assert found == [(text, (label,)) for label, text in pairs]


@given(PAIRS, st.booleans())
def test_json_lines_and_arrays_come_back(pairs, ascii_only: bool) -> None:
    objects = [{"intent": label, "query": text} for label, text in pairs]
    lines = "\n".join(json.dumps(one, ensure_ascii=ascii_only) for one in objects)
    expected = [(text, (label,)) for label, text in pairs]
    with file_with(lines) as path:
        assert pairs_of(path, format="jsonl") == expected
    for document in (objects, {"version": 1, "data": objects}, {"a": {"b": objects}}):
        with file_with(json.dumps(document, indent=1)) as path:
            assert pairs_of(path, format="json") == expected


@given(PAIRS)
def test_first_word_and_fasttext_come_back(pairs) -> None:
    expected = [(text.strip(), (label,)) for label, text in pairs]
    with file_with("".join(f"{label} {text}\n" for label, text in pairs)) as path:
        assert pairs_of(path, format="first-word") == expected
    with file_with("".join(f"__label__{label} {text}\n" for label, text in pairs)) as path:
        assert pairs_of(path, format="fasttext") == [(text.strip(), (label,)) for label, text in pairs]


@given(st.lists(texts(), min_size=1))
def test_lines_of_text_come_back_as_they_were(lines: list[str]) -> None:
    with file_with("".join(line + "\n" for line in lines)) as path:
        found = list(read_texts(path, format="text"))
    expected = [line.removeprefix("\ufeff") for line in lines]  # byte-order marks are not text, also in joined files
    if lines[0].startswith("\ufeff"):
        expected[0] = expected[0].removeprefix("\ufeff")  # the decoder removes the one of the file
    assert [example.text if line.strip() else "" for example, line in zip(found, expected, strict=True)] == [
        line if line.strip() else "" for line in expected
    ]
    assert [example.location.line for example in found] == list(range(1, len(lines) + 1))


SIDES = texts(without='\t"\ufeff')


@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=8).filter(lambda pairs: any(a.strip() for a, _ in pairs)))
def test_pairs_of_lines_and_of_two_files_come_back(pairs) -> None:
    assume(not any(map(known_roles, pairs)))
    joined = [(" ".join(a.split()), " ".join(b.split())) for a, b in pairs]
    with file_with("\n".join(f"{a}\t{b}" for a, b in pairs)) as path:
        found = read_pairs(path, format="tsv", columns={"source": "1", "target": "2"})
        assert [(pair.source, pair.target) for pair in found] == joined
    with (
        file_with("".join(a + "\n" for a, _ in pairs)) as source,
        file_with("".join(b + "\n" for _, b in pairs)) as other,
    ):
        assert [(pair.source, pair.target) for pair in read_pairs(source, other)] == pairs


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", sorted(MISSING))
def test_missing_labels_are_dropped_and_listed(missing: str, tmp_path: Path) -> None:
    rows = [(f"text number {i}", "ab"[i % 2]) for i in range(9)]
    rows[4] = ("text number 4", missing)
    path = written(tmp_path, as_csv([("text", "label"), *rows]))
    counter = ReadCounter()
    found = list(read_examples(path, counter=counter))
    assert counter.counts(len(found)).sentence("") == "read 9; used 8; dropped 1 (1 without a label)"
    assert [(d.location.line, d.text) for d in counter.dropped] == [(6, "text number 4")]
    assert pairs_of(path)[4] == ("text number 4", ()), "without a counter nothing is dropped"
    assert len(pairs_of(path, labeled=False)) == 9


def test_words_like_missing_values_stay_in_texts(tmp_path: Path) -> None:
    path = written(tmp_path, "text,label\nNone,a\nNA,b\nnone,none\n")
    assert pairs_of(path) == [("None", ("a",)), ("NA", ("b",)), ("none", ("none",))]


def test_few_damaged_records_are_dropped_and_many_raise_error(tmp_path: Path) -> None:
    good = [f"text {i},{'ab'[i % 2]}" for i in range(40)]
    lines = ["text,label", *good[:20], "one, two,a", *good[20:]]
    counter = ReadCounter()
    path = written(tmp_path, "\n".join(lines))
    assert len(list(read_examples(path, counter=counter))) == 40
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(22, "with 3 fields instead of 2")]
    with pytest.raises(FormatError, match=r"file.csv:22 is a record with 3 fields instead of 2; .*in double quotes"):
        pairs_of(path)
    path = written(tmp_path, "\n".join([*lines, "x,y,z", "x,y,z"]))
    with pytest.raises(FormatError, match=r"3 of 43 records of .* cannot be read\. The first: .*csv:22"):
        list(read_examples(path, counter=ReadCounter()))


def test_blank_short_and_repeated_rows_have_reasons(tmp_path: Path) -> None:
    rows = "".join(f"a text {i},{'ab'[i % 2]}\n" for i in range(40))
    path = written(tmp_path, "text,label\n" + rows + "\n,\ntext,label\nlonely\n,b\n" + rows)
    counter = ReadCounter()
    used = len(list(read_examples(path, counter=counter)))
    assert counter.counts(used).dropped == {
        "empty": 3,
        "repeated header": 1,
        "with 1 field instead of 2": 1,
    }


@pytest.mark.parametrize("footer", ["Total,80", "Total:,3.5", "Sum,80 %"])
def test_row_of_totals_at_the_end_is_dropped(footer: str, tmp_path: Path) -> None:
    middle = "Total,80\n" if footer == "Total,80" else ""  # a record if others follow
    texts = "".join(f"a text {i},{'ab'[i % 2]}\n" for i in range(40))
    path = written(tmp_path, f"text,label\n{middle}{texts}{footer}\n")
    counter = ReadCounter()
    assert len(list(read_examples(path, counter=counter))) == 40 + bool(middle)
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(42 + bool(middle), "row of totals")]
    lines = "text,label\na b,music\nTotal,music\n"
    assert pairs_of(written(tmp_path, lines)) == [("a b", ("music",)), ("Total", ("music",))]


def test_counts_of_json_lines(tmp_path: Path) -> None:
    good = [json.dumps({"text": f"t {i}", "label": i % 2}) for i in range(60)]
    odd = ['{"text": "x", "label": null}', '{"text": null, "label": "a"}', '{"text": "x"', "", '{"label": "a"}']
    path = written(tmp_path, "\n".join([*good, *odd]) + "\n", "x.jsonl")
    counter = ReadCounter()
    used = len(list(read_examples(path, counter=counter)))
    assert counter.counts(used).dropped == {"without a label": 1, "empty": 3, "without a complete JSON object": 1}


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"a"', ("a",)),
        ("3", ("3",)),
        ("3.0", ("3",)),
        ("2.5", ("2.5",)),
        ("true", ("true",)),
        ('["a", 2, "a"]', ("a", "2")),
        ("[]", ()),
        ("NaN", ()),
        ('" a\u200b "', ("a",)),
        ("\"['a', 'b']\"", ("a", "b")),
        ('"[1] note"', ("[1] note",)),
    ],
)
def test_labels_of_every_kind(value: str, found: tuple[str, ...], tmp_path: Path) -> None:
    path = written(tmp_path, f'{{"text": "x", "label": {value}}}\n', "x.jsonl")
    assert pairs_of(path, multilabel=True) == [("x", found)]


def test_labels_with_a_separator(tmp_path: Path) -> None:
    path = written(tmp_path, 'text,labels\nx,"a, b,a"\ny,\nz,c\n')
    assert pairs_of(path, separator=",") == [("x", ("a", "b")), ("y", ()), ("z", ("c",))]


def test_integers_written_with_a_point_are_integers(tmp_path: Path) -> None:
    path = written(tmp_path, "text,label\na,0.0\nb,1.0\nc,\nd,1.0\n")
    assert pairs_of(path) == [("a", ("0",)), ("b", ("1",)), ("c", ()), ("d", ("1",))]
    path = written(tmp_path, "text,label\na,0.0\nb,1.5\n")
    assert pairs_of(path) == [("a", ("0.0",)), ("b", ("1.5",))]


def test_columns_of_zeros_and_ones_are_labels(tmp_path: Path) -> None:
    path = written(tmp_path, "id,comment_text,toxic,insult\n7,one text,1,0\n8,two texts,1,1\n9,three,0,0\n")
    assert pairs_of(path, multilabel=True) == [
        ("one text", ("toxic",)),
        ("two texts", ("toxic", "insult")),
        ("three", ()),
    ]
    given = {"label": "insult,toxic"}
    assert pairs_of(path, columns=given, multilabel=True)[1] == ("two texts", ("insult", "toxic"))


def test_rejected_examples_of_prodigy_are_dropped(tmp_path: Path) -> None:
    rows = [{"text": f"t {i}", "accept": ["ab"[i % 2]], "answer": "reject" if i == 3 else "accept"} for i in range(9)]
    path = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")
    counter = ReadCounter()
    assert len(list(read_examples(path, counter=counter))) == 8
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(4, "rejected or ignored in Prodigy")]


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_rejected_spans_and_labels_of_prodigy_are_dropped(tmp_path: Path, answer: str) -> None:
    rows: list[dict[str, object]] = [
        {"text": "Anna went to Rome", "spans": [{"start": 0, "end": 4, "label": "PER"}], "_task_hash": i, "answer": a}
        for i, a in enumerate(["accept", answer, "accept"])
    ]
    path = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "spans.jsonl")
    counter = ReadCounter()
    assert len(list(read_columns(path, separator="spans", counter=counter))) == 2
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(2, "rejected or ignored in Prodigy")]
    labels = [{"text": "t", "label": "a", "_input_hash": i, "answer": row["answer"]} for i, row in enumerate(rows)]
    path = written(tmp_path, json.dumps(labels), "labels.json")
    assert len(pairs_of(path)) == 2


def test_ids_dates_and_constants_are_not_texts_or_labels(tmp_path: Path) -> None:
    rows = [
        f"2024-01-{day:02},R_{day},yes,{'good' if day % 3 else 'bad'},the answer number {day}" for day in range(1, 9)
    ]
    path = written(tmp_path, "\n".join(["Date,Id,Done,Q1,Q2", *rows, ""]))
    assert pairs_of(path)[:3:2] == [("the answer number 1", ("good",)), ("the answer number 3", ("bad",))]


def test_column_of_the_longest_texts_is_suggested(tmp_path: Path) -> None:
    path = written(tmp_path, "Nr,A,B\n" + "".join(f"{i},some words {i},other and longer words {i}\n" for i in range(9)))
    with pytest.raises(FormatError, match=r"--text-column B"):
        pairs_of(path)


def test_answers_in_other_files_are_values(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "t", "label": "a", "answer": "reject"}\n' * 3, "x.jsonl")
    assert len(pairs_of(path)) == 3


# --- columns ----------------------------------------------------------------------------------------------------------


def test_other_columns_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path, "id,text,label,date\n7,a b,x,2024-01-01\n")
    (record,) = read_records(path, (TEXT, LABEL))
    assert (record["text"], record["label"], dict(record.columns)) == ("a b", ("x",), {"id": "7", "date": "2024-01-01"})


@pytest.mark.parametrize(
    "columns", [{"text": "c", "label": "a"}, {"text": "3", "label": "1"}, {"text": "C", "label": "A"}]
)
def test_columns_are_set_by_name_or_number(columns: dict[str, str], tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,c\n1,2,3\n4,5,6\n")
    found = pairs_of(path, columns=columns)
    assert found[-2:] == [("3", ("1",)), ("6", ("4",))]


@pytest.mark.parametrize("delimiter", list("\t,;|"))
def test_named_columns_select_a_table(delimiter: str, tmp_path: Path) -> None:
    rows = [("what", "kind"), ("one text", "x"), ("two texts", "y")]
    path = written(tmp_path, "\n".join(delimiter.join(row) for row in rows), "file")
    assert pairs_of(path, columns={"text": "what", "label": "kind"}) == [("one text", ("x",)), ("two texts", ("y",))]


def test_dotted_names_reach_into_objects_and_lists(tmp_path: Path) -> None:
    row = {"data": {"body": "a b"}, "marks": [{"value": {"kind": "x"}}, {"value": {"kind": "y"}}]}
    path = written(tmp_path, json.dumps(row) + "\n" + json.dumps(row) + "\n", "x.jsonl")
    given = {"text": "data.body", "label": "marks.1.value.kind"}
    assert pairs_of(path, columns=given) == [("a b", ("y",))] * 2


def test_keys_that_change_between_lines_are_alternatives(tmp_path: Path) -> None:
    rows = [{"text": "a b", "label": "x"}, {"sentence": "c d", "category": "y"}, {"text": "e f", "label": "x"}]
    path = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")
    assert pairs_of(path) == [("a b", ("x",)), ("c d", ("y",)), ("e f", ("x",))]


@pytest.mark.parametrize(
    ("content", "name", "columns", "problem"),
    [
        (
            "who,said,when,x\n1,2,3,4\n5,6,7,8\n",
            "x.csv",
            {},
            r"x\.csv has \d columns|no text column with a common name",
        ),
        (
            "text,other,more\na b c,2,3\n",
            "x.csv",
            {},
            r"no label column with a common name, only 'text', 'other', 'more'",
        ),
        ("text,label\n1,2\n", "x.csv", {"label": "lable"}, r"has no column 'lable': did you mean 'label'"),
        ("just text\nand more\n", "x.txt", {}, r"x\.txt has no label: it is plain text, one text in each line"),
        ("just text\nand more\n", "x.txt", {"text": "body"}, r"has no columns, got --text-column body"),
        ("(S (N a) (V b))\n", "x.mrg", {}, r"is trees in brackets.*has no texts in columns"),
        ("", "x.csv", {}, r"x\.csv is empty"),
        ("text,label\n", "x.csv", {}, r"x\.csv has a header and no records"),
        ('{"text": {"a": 1}, "label": "b"}\n' * 3, "x.jsonl", {}, "no text column"),
    ],
)
def test_file_without_the_roles_raises_error(
    content: str, name: str, columns: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=problem):
        pairs_of(written(tmp_path, content, name), columns=columns)


def test_likely_label_column_is_suggested(tmp_path: Path) -> None:
    rows = [(str(i), f"a longer text {i}", "Küche" if i % 2 else "Musik") for i in range(12)]
    path = written(tmp_path, as_csv([("Wert", "Text", "Klasse"), *rows], ";"))
    with pytest.raises(FormatError, match=r"'Klasse' repeats like a label\. Pass --label-column Klasse\."):
        pairs_of(path)
    assert len(pairs_of(path, columns={"label": "Klasse"})) == 12


def test_unknown_format_raises_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"must be one of csv, tsv, json, .*, got 'cvs'"):
        pairs_of(written(tmp_path, "a\n"), format="cvs")


def test_text_column_takes_surplus_tabs(tmp_path: Path) -> None:
    rows = [f"{'ab'[i % 2]}\ta text of words {i}" for i in range(30)]
    path = written(tmp_path, "\n".join(["label\ttext", *rows, "a\tone\ttwo"]), "x.tsv")
    assert pairs_of(path)[-1] == ("one\ttwo", ("a",))
    turned = ["\t".join(reversed(row.split("\t"))) for row in rows]
    path = written(tmp_path, "\n".join([*turned, "one\ttwo\ta"]), "y.tsv")
    assert pairs_of(path)[-1] == ("one\ttwo", ("a",))


# --- other roles ------------------------------------------------------------------------------------------------------


def test_lists_and_texts_of_lines(tmp_path: Path) -> None:
    rows = [
        {"title": "Tea", "ingredients": ["water", "tea"], "steps": ["Boil.", {"@type": "HowToStep", "text": "Pour."}]},
        {"title": "Soup", "ingredients": ["rice"], "steps": "Cook."},
        {"title": "Mess", "ingredients": "salt, water", "steps": "Stir."},
    ]
    path = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")
    counter = ReadCounter()
    found = list(read_records(path, (TITLE, ITEMS, COMPOSED), counter=counter))
    assert [tuple(record.values.values()) for record in found] == [
        ("Tea", ("water", "tea"), "Boil.\nPour."),
        ("Soup", ("rice",), "Cook."),
    ]
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(3, "with a text instead of a list of items")]


def test_file_role(tmp_path: Path) -> None:
    path = written(tmp_path, "filename,label\na.wav,dog\nb.wav,cat\n")
    found = list(read_records(path, (FILE, LABEL)))
    assert [(record["file"], record["label"]) for record in found] == [("a.wav", ("dog",)), ("b.wav", ("cat",))]


# --- storage ----------------------------------------------------------------------------------------------------------


def zipped(name: str) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr(name, content)
        return stream.getvalue()

    return pack


def test_zip_of_one_table_is_read_by_the_name_inside(tmp_path: Path) -> None:
    content = zipped("inner/data.csv")(b"text,label\none text,a\ntwo texts,b\n")
    assert len(pairs_of(written(tmp_path, content, "download.zip"))) == 2


def test_folders_of_texts_are_labels(tmp_path: Path) -> None:
    for label, texts_of in (("pos", ["good film", "very good\nindeed"]), ("neg", ["bad film"]), ("unsup", ["what"])):
        (tmp_path / "imdb" / label).mkdir(parents=True)
        for i, text in enumerate(texts_of):
            (tmp_path / "imdb" / label / f"{i}.txt").write_text(text)
    counter = ReadCounter()
    found = list(read_examples(tmp_path / "imdb", counter=counter))
    assert sorted((e.text, e.labels) for e in found) == [
        ("bad film", ("neg",)),
        ("good film", ("pos",)),
        ("very good\nindeed", ("pos",)),
    ]
    assert found[0].location.file.endswith("neg/0.txt")
    assert [d.reason for d in counter.dropped] == ["without a label"]


def test_translation_memory_is_pairs(tmp_path: Path) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="en-US"><seg>a <b>dog</b> {i}</seg></tuv><tuv lang="fr"><seg>chien {i}</seg></tuv></tu>\n'
        for i in range(3)
    )
    path = written(tmp_path, f'<?xml version="1.0"?>\n<tmx version="1.4"><body>\n{units}</body></tmx>\n', "x.tmx")
    assert [(pair.source, pair.target) for pair in read_pairs(path)] == [(f"a dog {i}", f"chien {i}") for i in range(3)]
    broken = written(tmp_path, f'<?xml version="1.0"?>\n<tmx version="1.4"><body>\n{units}', "y.tmx")
    with pytest.raises(FormatError, match=r"y\.tmx:\d+ is not valid XML"):
        list(read_pairs(broken))


def test_dictionary_has_words_and_phonemes(tmp_path: Path) -> None:
    content = ";;; a comment\ntomato  T AH0 M EY1 T OW2\ntomato(2)  T AH0 M AA1 T OW2\n'em AH0 M # short\nlonely\n"
    path = written(tmp_path, content, "words.dict")
    counter = ReadCounter()
    pairs = [
        (pair.source, pair.target, pair.location.line)
        for pair in read_pairs(path, format="dictionary", counter=counter)
    ]
    assert pairs == [("tomato", "T AH0 M EY1 T OW2", 2), ("tomato", "T AH0 M AA1 T OW2", 3), ("'em", "AH0 M", 4)]
    assert [d.reason for d in counter.dropped] == ["with an empty target"]


def test_real_dictionary(real_data: Path) -> None:
    pairs = list(read_pairs(real_data / "cmudict" / "cmudict.dict"))
    assert len(pairs) == 135_166
    assert len({pair.source for pair in pairs}) == 126_052
    assert not any("(" in pair.source or "#" in pair.target or not pair.target for pair in pairs)


def test_paragraphs_join_wrapped_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "It was a dark\nnight. Nobody\nslept.\n\n\nThe end.\n", "x.txt")
    found = [(text.text, text.location.line) for text in read_texts(path, paragraphs=True)]
    assert found == [("It was a dark night. Nobody slept.", 1), ("The end.", 6)]


@pytest.mark.parametrize(("n", "m"), [(3, 1), (1, 4), (0, 2), (2, 0)])
def test_parallel_files_of_different_lengths_raise_error(n: int, m: int, tmp_path: Path) -> None:
    source, target = written(tmp_path, "x\n" * n, "a.en"), written(tmp_path, "y\n" * m, "a.de")
    with pytest.raises(FormatError, match=rf"a\.en has {n} lines and .*a\.de has {m}: they must be parallel"):
        list(read_pairs(source, target))


def test_parallel_error_names_line_of_misalignment(tmp_path: Path) -> None:
    lines = ["x" * (7 + 31 * i % 50) for i in range(60)]
    source = written(tmp_path, "".join(f"{line}\n" for line in lines), "a.en")
    target = written(tmp_path, "".join(f"{line}\n" for i, line in enumerate(lines) if i != 40), "a.de")
    for first, second in ((source, target), (target, source)):
        with pytest.raises(FormatError, match=r"misalign at line 41, where line 41 is extra in .*a\.en\. Look there"):
            list(read_pairs(first, second))


def test_pairs_with_an_empty_side_are_dropped(tmp_path: Path) -> None:
    counter = ReadCounter()
    source, target = written(tmp_path, "a\n\nc\n", "a.en"), written(tmp_path, "x\ny\n \n", "a.de")
    assert [pair.source for pair in read_pairs(source, target, counter=counter)] == ["a"]
    assert [(d.location.line, d.reason) for d in counter.dropped] == [
        (2, "with an empty source"),
        (3, "with an empty target"),
    ]


def test_sources_without_targets_can_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, 'source\n"Yes, please."\nNo.\n')
    assert [pair.source for pair in read_pairs(path, with_targets=False)] == ["Yes, please.", "No."]
    with pytest.raises(FormatError, match=r"has no source column with a common name.*--source-column"):
        list(read_pairs(path))


def test_file_can_be_read_several_times(tmp_path: Path) -> None:
    file = open_records(written(tmp_path, "text,label\na,b\n"), (TEXT, LABEL))
    assert list(file.read()) == list(file.read())
    assert str(file.choices["text"]) == "'text'"


def test_empty_fields_after_the_last_column_are_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, "text,label\na b,x,\nc d,y, ,\n" + "e f,x\n" * 40)
    counter = ReadCounter()
    assert len(list(read_examples(path, counter=counter))) == 42
    assert counter.dropped == []


def test_repeated_header_is_not_a_record_without_a_counter(tmp_path: Path) -> None:
    path = written(tmp_path, "text,label\na b,x\ntext,label\nc d,y\n")
    assert [example.text for example in read_examples(path)] == ["a b", "c d"]


def test_blank_line_above_the_header_is_not_a_record(tmp_path: Path) -> None:
    path = written(tmp_path, "Mails of March\n\ntext,label\na b,x\n\nc d,y\n")
    assert [example.text for example in read_examples(path)] == ["a b", "", "c d"]


def test_comma_after_a_json_object_is_ignored(tmp_path: Path) -> None:
    path = written(tmp_path, '{"text": "a b", "label": "x"},\n{"text": "c d", "label": "y"}\n', "x.jsonl")
    assert [example.text for example in read_examples(path)] == ["a b", "c d"]


def test_repeated_header_with_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("text,label\na text,x\nanother,y\n".encode("utf-8-sig") * 2)
    assert [labels for _, labels in pairs_of(path)] == [("x",), ("y",)] * 2


def test_numbers_as_the_only_other_column_are_for_regress(tmp_path: Path) -> None:
    path = written(tmp_path, "text,price\n" + "".join(f"a text {i},{i / 8}\n" for i in range(40)))
    with pytest.raises(FormatError, match=r"'price' has numbers, not classes\. Use 'catena train regress .*'") as error:
        pairs_of(path)
    assert "--label-column" not in str(error.value)
