"""Records of delimited lines against Python's csv module, and lines that it cannot read."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers import delimited
from catena.data.readers.delimited import OPEN_QUOTE, Fields, TableLayout, split_records, unescape

FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=6)
ROWS = st.lists(st.lists(FIELDS, min_size=2, max_size=4), min_size=1, max_size=6)


def records(content: str, layout: TableLayout, width: int | None = None) -> list[Fields]:
    lines = content.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return list(split_records(enumerate(lines, start=1), layout, width))


@given(ROWS, st.sampled_from(",;|\t"), st.sampled_from(['"', "'"]))
def test_records_equal_the_csv_module(rows: list[list[str]], delimiter: str, quote: str) -> None:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, quotechar=quote, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    found = records(stream.getvalue(), TableLayout(delimiter, quote))
    assert [record.values for record in found] == rows
    begins = [1]
    for row in rows:
        begins.append(begins[-1] + 1 + sum(field.count("\n") for field in row))
    assert [record.line for record in found] == begins[:-1]


@given(st.lists(st.lists(FIELDS.filter(lambda f: "\\" not in f), min_size=2, max_size=3), min_size=1, max_size=5))
def test_quotes_escaped_by_a_backslash_come_back(rows: list[list[str]]) -> None:
    content = "".join(",".join('"' + f.replace('"', '\\"') + '"' for f in row) + "\n" for row in rows)
    assert [record.values for record in records(content, TableLayout(escape="\\"))] == rows


def test_quote_that_is_not_closed_is_a_character() -> None:
    content = 'a,b\n"open,c\nd,e\n"f, g",h\n5" wide,i\n"x" y,j\n'
    found = records(content, TableLayout(), 2)
    assert [(record.line, record.values, record.note) for record in found] == [
        (1, ["a", "b"], None),
        (2, ['"open', "c"], OPEN_QUOTE),
        (3, ["d", "e"], None),
        (4, ["f, g", "h"], None),
        (5, ['5" wide', "i"], None),
        (6, ['"x" y', "j"], OPEN_QUOTE),
    ]


def test_quote_that_swallows_records_is_a_character() -> None:
    content = 'a,b\n"open,c\nd,e\nf,"g"\n'
    found = records(content, TableLayout(), 2)
    assert [record.values for record in found] == [["a", "b"], ['"open', "c"], ["d", "e"], ["f", "g"]]


def test_many_open_quotes_do_not_read_the_file_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_OPEN_QUOTES", 5)
    reads = 0

    def lines():
        nonlocal reads
        for i in range(2000):
            reads += 1
            yield i + 1, f'"open {i},x'

    found = list(split_records(lines(), TableLayout(), 2))
    assert len(found) == 2000
    assert reads == 2000
    assert all(record.note == OPEN_QUOTE for record in found)


def test_record_of_too_many_lines_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD_LINES", 4)
    content = '"one\ntwo\nthree\nfour",x\n"one\ntwo\nthree\nfour\nfive",x\n'
    assert [len(record.values) for record in records(content, TableLayout(), 2)] == [2, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("content", "layout", "rows"),
    [
        ("a ||| b\nc ||| d\n", TableLayout("|||", None), [["a", "b"], ["c", "d"]]),
        ('"x" "y z"\n"1" "a b" "c"\n', TableLayout(" "), [["x", "y z"], ["1", "a b", "c"]]),
        (
            "+---+---+\n| a | b |\n+---+---+\n| c d | |\n+---+---+\n",
            TableLayout("|", None, boxed=True),
            [["a", "b"], ["c d", ""]],
        ),
        (" a | b \n---+---\n c | d \n", TableLayout("|", None, boxed=True), [["a", "b"], ["c", "d"]]),
        ("|a|b|\n|:--|--:|\n|c|d|\n", TableLayout("|", None, boxed=True), [["a", "b"], ["c", "d"]]),
        ("a\\tb\t\\N\nc\\\\n\td\n", TableLayout("\t", None, database=True), [["a\tb", "\\N"], ["c\\n", "d"]]),
    ],
)
def test_tables_of_other_programs(content: str, layout: TableLayout, rows: list[list[str]]) -> None:
    assert [record.values for record in records(content, layout)] == rows


@given(st.text(st.sampled_from("ab\t\n\r\\N"), max_size=10))
def test_unescape_inverts_the_escapes_of_databases(text: str) -> None:
    written = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    if written != "\\N":
        assert unescape(written) == text


def test_nul_bytes_are_a_problem_of_their_line() -> None:
    for layout in (TableLayout(), TableLayout("\t", None)):
        found = records(f'a{layout.delimiter}b\nc\0{layout.delimiter}d\n"x{layout.delimiter}\0\n', layout)
        assert [record.problem for record in found] == [None, "with a NUL byte", "with a NUL byte"] or (
            layout.quote and [record.problem for record in found][:2] == [None, "with a NUL byte"]
        )


def test_record_of_several_lines_has_the_location_of_its_first_line() -> None:
    lines = list(enumerate(['a,"b', 'c",d', "e,f,g"], start=1))
    assert [(record.line, record.values) for record in split_records(lines, TableLayout())] == [
        (1, ["a", "b\nc", "d"]),
        (3, ["e", "f", "g"]),
    ]
