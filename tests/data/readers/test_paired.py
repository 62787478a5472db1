"""Pairs in tables and JSON lines: which columns they are, and what is wrong with a file in one sentence."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from catena.data.readers.names import PairColumns
from catena.data.readers.paired import FOUND, find_pair_columns, has_columns, pair_layout, read_kind
from catena.errors import FormatError

ENGLISH = ["A man sleeps here.", 'He said "no" again.', "Yes, they all do."]
GERMAN = ["Ein Mann schläft hier.", "Er sagte wieder „nein“.", "Ja, sie alle tun es."]


def table(path: Path, rows: Sequence[Sequence[str]], delimiter: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def pairs_of(path: Path, columns: PairColumns = FOUND, with_targets: bool = True) -> list[tuple[str, str]]:
    _, found = read_kind(path, pair_layout(path, None, columns), columns, with_targets=with_targets)
    return [(pair.source, pair.target) for pair in found]


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_csv_is_read_with_its_quotes(delimiter: str, tmp_path: Path) -> None:
    rows = [("Yes, please.", "Ja; bitte."), ('He said "no".', "Er, er sagte\n„nein“."), ("", ""), ("a", ""), ("b", "c")]
    path = table(tmp_path / "x.csv", rows, delimiter)
    found = [*read_kind(path, "csv")[1]]
    texts = [(pair.source, pair.target) for pair in found]
    assert texts == [(a, " ".join(b.split())) for a, b in rows], "a text is one line"
    assert [pair.place.line for pair in found] == [1, 2, 4, 5, 6]


def test_csv_of_sources_alone_has_one_column(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('"Yes, please."\n\nNo.\n', encoding="utf-8")
    assert pairs_of(path, with_targets=False) == [("Yes, please.", ""), ("", ""), ("No.", "")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\nc,d\nYes, please.,Ja.\n", r"x\.csv:3 must have 2 fields separated by ',', got 3; .*in double quotes"),
        (
            "a,b\nc,d\nno comma\n",
            r"x\.csv:3 must have 2 fields separated by ',', got 1; .* two columns, source and target",
        ),
        ('a,b\n"Yes" please,Ja\n', r"x\.csv:2 begins a record with invalid quotes .*Double a quote"),
        ('a,b\n"Yes,Ja\n', r"x\.csv:2 begins a record with invalid quotes"),
        (
            "id,en,de\n1,a b\n2,a,b\n3,a,b\n",
            r"x\.csv:2 must have 3 fields separated by ',', got 2; .*fill in all columns of every row",
        ),
        (
            "id,first,the second one\n1,a,b\n",
            r"x\.csv has 3 columns, and their names do not show which two are the pairs: they begin with 'id', "
            r".*--source-column id --target-column first, or by number: --source-column 1 --target-column 2\.$",
        ),
    ],
)
def test_table_without_pairs_raises_error(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=words):
        pairs_of(tmp_path / "x.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("names", "columns", "told"),
    [
        (("id", "en", "de", "note"), FOUND, "en, de"),
        (("Note", "English", "no", "German sentence"), FOUND, "English, German sentence"),
        (("summary", "url", "Text", "id"), FOUND, "Text, summary"),
        (("a", "b", "c", "d"), PairColumns("d", "b"), "d, b"),
    ],
)
def test_two_columns_of_many_by_their_names(
    names: Sequence[str], columns: PairColumns, told: str, delimiter: str, tmp_path: Path
) -> None:
    sides = [names.index(name) for name in told.split(", ")]
    rows = [["7" if i not in sides else (ENGLISH, GERMAN)[sides.index(i)][n] for i in range(4)] for n in range(3)]
    path = table(tmp_path / ("x.tsv" if delimiter == "\t" else "x.csv"), [names, *rows], delimiter)
    said, _ = read_kind(path, pair_layout(path), columns)
    assert said == f"{path}:1 is a header ({told}), not a pair"
    assert pairs_of(path, columns) == [*zip(ENGLISH, GERMAN, strict=True)]


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    rows = [*zip(ENGLISH, GERMAN, ("CC-BY", "CC-BY", "CC0"), strict=True)]
    path = table(tmp_path / "deu.txt", rows, "\t")
    assert pairs_of(path, PairColumns("2", "1")) == [*zip(GERMAN, ENGLISH, strict=True)]
    assert pairs_of(path, PairColumns("2"), with_targets=False) == [(text, "") for text in GERMAN]
    named = table(tmp_path / "named.txt", [("en", "de", "license"), *rows], "\t")
    assert pairs_of(named, PairColumns("1", "2")) == [*zip(ENGLISH, GERMAN, strict=True)], "names are no pair"
    with pytest.raises(FormatError, match=r"deu\.txt has 3 columns.*--source-column 1 --target-column 2\.$"):
        pairs_of(path)
    for lost in ("4", "0", "en"):
        with pytest.raises(FormatError, match=rf"has no column '{lost}': .*column numbers from 1 to 3"):
            pairs_of(path, PairColumns("1", lost))
    assert has_columns(named, "tsv", PairColumns("license", "en"))
    assert has_columns(path, "tsv", PairColumns("3", "1"))
    assert not has_columns(path, "tsv", PairColumns("4", "1"))
    assert not has_columns(path, "tsv", PairColumns("en", "de"))


def test_names_determine_the_source_column(tmp_path: Path) -> None:
    for names, swapped in (("source,target", False), ("target,source", True), ("de,en", False)):
        path = tmp_path / "x.csv"
        path.write_text(names + "\nA man is here.,Ein Mann ist hier.\n", encoding="utf-8")
        pair = ("A man is here.", "Ein Mann ist hier.")
        assert pairs_of(path) == [pair[::-1] if swapped else pair]


@pytest.mark.parametrize(
    ("text", "kind", "pair"),
    [
        ('"He said ""no"" again."\t"x"\n"b"\t"c"\n', "tsv", ('He said "no" again.', "x")),
        ('"two\nlines"\tone\nb\tc\n', "tsv", ("two lines", "one")),
        ('"No," he said.\t"x"\nb\tc\n', "lines", None),
        ('"No."\t"Nein."\nb\tc\n', "tsv", ("No.", "Nein.")),
        ('a\t"Nein."\nb\tc\n', "lines", None),
        ("a\tb\nc\td\te\n", "lines", None),
    ],
)
def test_spreadsheet_quotes_are_removed(text: str, kind: str, pair: tuple[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(text, encoding="utf-8")
    assert pair_layout(path) == kind
    if pair is not None:
        assert pairs_of(path)[0] == pair


def test_json_lines_by_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"

    def written(*things: object) -> Path:
        path.write_text("\n\n".join(map(json.dumps, things)) + "\n", encoding="utf-8")
        return path

    assert pairs_of(written({"de": " b\nc ", "en": "a"}, {"en": "d", "de": None})) == [("b c", "a"), ("", "d")]
    assert pairs_of(written({"id": 1, "summary": "s", "article": ["t", "u"]})) == [("t u", "s")]
    assert pairs_of(written({"x": 1, "translation": {"en": "a", "de": "b"}})) == [("a", "b")]
    assert pairs_of(written({"x": {"p": "a"}, "y": "b"}), PairColumns("y", "x.p")) == [("b", "a")]
    for alone in ({"text": "a", "n": 1}, {"anything": "a"}):
        assert pairs_of(written(alone), with_targets=False) == [("a", "")]
    assert pairs_of(written({"y": "b"}), PairColumns("y", "z"), with_targets=False) == [("b", "")]
    assert has_columns(path, "jsonl", PairColumns("y", "z"))
    assert not has_columns(path, "jsonl", PairColumns("z", "y"))
    for things, columns, words in (
        (
            [{"a": "1", "b": "2"}],
            FOUND,
            r"keys of the objects in .* do not show which two are the pairs: 'a', 'b'\. Set them by --source",
        ),
        ([{"a": "1", "b": "2"}], PairColumns("a", "bb"), r"has no key 'bb': did you mean 'b'"),
        ([{"en": "1", "de": "2"}, {"en": "1"}], FOUND, r"x\.jsonl:3 has no key 'de', only 'en'.*keys of the first"),
        ([{"en": "1", "de": 2}], FOUND, r"x\.jsonl:1 has a key 'de' that is a int, not a string.*Make it a string"),
        ([{"en": "1", "de": "2"}, 3], FOUND, r"x\.jsonl:3 is not a JSON object"),
    ):
        with pytest.raises(FormatError, match=words):
            pairs_of(written(*things), columns)
    path.write_text("", encoding="utf-8")
    assert [*read_kind(path, "jsonl")[1]] == []


@pytest.mark.parametrize(
    ("rows", "label", "found"),
    [
        ("en,de|A man sleeps.,Ein Mann schläft.", None, "en,de"),
        ("A man sleeps.,Ein Mann schläft.|He is here.,Er ist hier.", None, "A man sleeps.,Ein Mann schläft."),
        ("en,de|man,Mann", None, None),
        ("id,source,target,domain|1,A man sleeps.,Ein Mann schläft.,x", "domain", "source,target"),
        ("question,answer,category|When is it?,At nine.,x", "category", None),
        ("question,answer|Is it?,Yes.|Is he?,Yes.", None, "question,answer"),
        ("input,output|so good a film,pos|so bad,pos", "output", None),
        ("input,output|so good a film,a film so good", "output", "input,output"),
        ("text,label|so good a film,very good indeed", "label", None),
        ("a,b,c|so good a film,very good indeed,x", None, None),
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_pairs_are_distinguished_from_labeled_texts(
    name: str, rows: str, label: str | None, found: str | None, tmp_path: Path
) -> None:
    fields = [row.split(",") for row in rows.split("|")]
    if name == "x.jsonl":
        if found == rows.split("|")[0] and "." in found:
            return  # objects have names
        things = [dict(zip(fields[0], row, strict=True)) for row in fields[1:]]
        (tmp_path / name).write_text("".join(json.dumps(thing) + "\n" for thing in things))
    else:
        table(tmp_path / name, fields, "\t" if name == "x.tsv" else ",")
    told = find_pair_columns(tmp_path / name, {"label_column": label} if label else None)
    assert (f"{told.source},{told.target}" if told else None) == found
