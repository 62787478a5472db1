from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers import delimited
from catena.data.readers.delimited import read_csv, read_tsv
from catena.errors import FormatError
from tests.data.readers.writing import file_with, labels, texts


def quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"'


fields = st.lists(st.one_of(texts(), st.just("two\nlines"), st.just('say "no", he'))).map("".join)


@given(st.lists(st.tuples(labels, fields), min_size=1), st.sampled_from(",;|\t"))
def test_csv_round_trip_with_quotes_delimiters_and_line_ends_inside(
    examples: list[tuple[str, str]], delimiter: str
) -> None:
    rows = [("id", "label", "text"), *(("7", label, text) for label, text in examples)]
    content = "".join(delimiter.join(map(quoted, row)) + "\n" for row in rows)
    with file_with(content) as path:
        found = list(read_csv(path, delimiter=delimiter))
    assert [(e.labels, e.text) for e in found] == [((label,), text) for label, text in examples]
    begins = [2]
    for _, text in examples:
        begins.append(begins[-1] + 1 + text.count("\n"))
    assert [e.place.line for e in found] == begins[:-1]


@given(st.lists(st.tuples(labels, texts(without="\t")), min_size=1))
def test_tsv_round_trip_with_quotes_as_plain_characters(examples: list[tuple[str, str]]) -> None:
    content = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for label, text in examples)
    with file_with(content) as path:
        found = list(read_tsv(path))
    assert [(e.labels, e.text) for e in found] == [((label,), text) for label, text in examples]


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("Review,Sentiment", "x", "y"),
        ("category , utterance", "y", "x"),
        ("label,title,sentence", "z", "x"),
        ("sentence,text,label", "y", "z"),
    ],
)
def test_columns_are_detected_by_common_names(header: str, text: str, label: str) -> None:
    row = ",".join("xyz"[: header.count(",") + 1])
    with file_with(f"{header}\n{row}\n") as path:
        (example,) = read_csv(path)
    assert (example.text, example.labels) == (text, (label,))


def test_columns_are_set_by_name_or_number() -> None:
    with file_with("a,b,c\n1,2,3\n") as path:
        (example,) = read_csv(path, text_column="c", label_column="a")
        assert (example.text, example.labels) == ("3", ("1",))
        first, second = read_csv(path, header=False, text_column="2", label_column="3")
        assert (first.text, first.labels, first.place.line) == ("b", ("c",), 1)
        assert (second.text, second.labels) == ("2", ("3",))


def test_texts_without_labels() -> None:
    with file_with("text\nhello\nyou\n") as path:
        assert [(e.text, e.labels) for e in read_csv(path, labeled=False)] == [("hello", ()), ("you", ())]


def test_multilabel_and_empty_records() -> None:
    with file_with('text,labels\nx,"a, b"\ny,\n,\n\n') as path:
        found = [(e.text, e.labels) for e in read_csv(path, separator=",")]
        assert found == [("x", ("a", "b")), ("y", ()), ("", ()), ("", ())]
        with pytest.raises(FormatError, match="txt:3 has no labels"):
            list(read_csv(path))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,b\n1,2\n", r"txt:1 has no text column with a common name, only 'a', 'b'\. Set one by text_column"),
        ("text,b\n1,2\n", r"txt:1 has no label column with a common name, only 'text', 'b'\. Set one by label_col"),
        ("text,label\n1,2\n1,2,3\n", r"txt:3 must have 2 fields \('text', 'label'\) as in the first record, got 3"),
        ("text,label\n1,\n", r"txt:2 has no label; the line is '1,'\. Fill it in"),
        ('text,label\n"open,2\n3,4\n', r"txt:2 begins a record with invalid quotes \(unexpected end.*at line 3\)"),
        ('text,label\n"a"b,2\n', r"txt:2 begins a record with invalid quotes"),
    ],
)
def test_invalid_table_raises_error(content: str, problem: str) -> None:
    with file_with(content) as path, pytest.raises(FormatError, match=problem):
        list(read_csv(path))


def test_unknown_column_suggests_nearest() -> None:
    problem = "no column 'lable': did you mean 'label'"
    with file_with("text,label\n1,2\n") as path, pytest.raises(FormatError, match=problem):
        list(read_csv(path, label_column="lable"))


def test_stray_quote_does_not_consume_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MOST_LINES", 10)
    problem = "txt:2 opens a quote that is not closed within 10 lines"
    with file_with('text,label\n"stray,2\n' + "3,4\n" * 50) as path, pytest.raises(FormatError, match=problem):
        list(read_csv(path))
    with file_with('text,label\n"nine' + "\n" * 9 + 'lines",2\n' + "3,4\n" * 50) as path:
        assert len(list(read_csv(path))) == 51


def test_delimiter_must_be_one_character() -> None:
    with file_with("a,b\n") as path, pytest.raises(FormatError, match="delimiter must be one character"):
        list(read_csv(path, delimiter="::"))
