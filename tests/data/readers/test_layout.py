"""Layouts of tables: delimiter, quotes, header and titles, as programs write them."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.readers.layout import find_layout

TEXTS = [f"sentence {i}, with some words" for i in range(12)]


def layout_of(content: str, kind: str = "csv", **options):
    found = find_layout(list(enumerate(content.split("\n")[:-1], start=1)), kind, **options)
    return found.layout if found is not None else None


def table(delimiter: str = ",", quoting: int = csv.QUOTE_MINIMAL, header: tuple[str, ...] = ("text", "label")) -> str:
    stream = io.StringIO()
    rows = [(text, "ab"[i % 2]) for i, text in enumerate(TEXTS)]
    csv.writer(stream, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue()


@given(st.sampled_from(",;|\t"), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
def test_layout_of_the_csv_module_is_found(delimiter: str, quoting: int) -> None:
    layout = layout_of(table(delimiter, quoting), "tsv" if delimiter == "\t" else "csv")
    assert (layout.delimiter, layout.names, layout.header) == (delimiter, ("text", "label"), 1)


@pytest.mark.parametrize(
    ("above", "header"),
    [
        ("sep=;\n", 2),
        ("Title of the survey\n", 2),
        ("Title\nMade;2024\n\n", 4),
        ("# comment\n# more\n", 3),
        ("\n\n", 3),
    ],
)
def test_lines_above_the_header_are_found(above: str, header: int) -> None:
    layout = layout_of(above + table(";"))
    assert (layout.delimiter, layout.header, layout.names) == (";", header, ("text", "label"))


def test_first_of_two_headers_counts() -> None:
    assert layout_of(table() + table()).header == 1


def test_rows_above_a_header_in_the_middle_are_not_titles() -> None:
    rows = "".join(f"one text {i},{'ab'[i % 2]}\n" for i in range(5))
    assert layout_of(rows + "text,label\n" + rows).header is None


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (
            "id,what,kind\n" + "".join(f"{i},a longer text {i},{'xy'[i % 2]}\n" for i in range(9)),
            ("id", "what", "kind"),
        ),
        ("a,b\n" + "".join(f"{i},{i * 2}\n" for i in range(9)), ("a", "b")),
        (",text,label\n0,a b,x\n1,c d,y\n", ("1", "text", "label")),
        ("text,label,,\na b,x,,\nc d,y,,\n", ("text", "label", "3", "4")),
        ("text,label,label\na b,x,y\nc d,y,z\n", ("text", "label", "label.3")),
        ("\ufefftext,label\na b,x\nc d,y\n", ("text", "label")),
        ("en,de\nthe dog sleeps here,der Hund\na cat,eine Katze\n", ("en", "de")),
        ("en,de\ndog,Hund\ncat,Katze\n", None),
        ("the dog sleeps,der Hund\na cat eats,eine Katze\n", None),
        ("Hi.,Salut.\nRun!,Cours !\nGo on now please,Allez\n", None),
        ("weather,will it rain here now\nmusic,play it once more\nweather,is it cold out there\n" * 4, None),
        ("1,a text of words\n2,another text of words\n", None),
        ("".join(f"question,what is it {i}\ncomment,so good {i}\n" for i in range(4)), None),
    ],
)
def test_header_is_distinguished_from_values(content: str, names: tuple[str, ...] | None) -> None:
    layout = layout_of(content)
    assert (layout.names if layout.header is not None else None) == names


def test_names_of_the_user_are_a_header() -> None:
    content = "was;art\nxx;yy\n"
    assert layout_of(content).header is None
    assert layout_of(content, named=("Art", "was")).names == ("was", "art")


@pytest.mark.parametrize(
    ("content", "quote", "escape"),
    [
        ('text,label\n"say \\"hi\\", he said",x\n"no, thanks",y\n', '"', "\\"),
        ("'text','label'\n'one, two','x'\n'three','y'\n", "'", None),
        ('text,label\n"one, ""two""",x\nthree,y\n', '"', None),
    ],
)
def test_quotes_are_found(content: str, quote: str, escape: str | None) -> None:
    layout = layout_of(content)
    assert (layout.quote, layout.escape, layout.names) == (quote, escape, ("text", "label"))


@pytest.mark.parametrize(
    ("content", "quote"),
    [
        ('text\tlabel\n"a ""b"""\tx\nc\ty\n', '"'),
        ('text\tlabel\n"a\nb"\tx\nc\ty\n', '"'),
        ('text\tlabel\n"a\tb"\tx\nc\ty\n', '"'),
        ('"text"\t"label"\n"a"\t"x"\n', '"'),
        ('text\tlabel\n"yes" he said\tx\n"no\ty\n', None),
        ('text\tlabel\n"whole text"\tx\nanother one\ty\nand more\ty\n', None),
    ],
)
def test_quotes_of_tab_separated_lines_count_only_if_needed(content: str, quote: str | None) -> None:
    assert layout_of(content, "tsv").quote == quote


def test_row_names_of_r_have_no_name() -> None:
    content = '"text" "label"\n"1" "one two" "x"\n"2" "three" "y"\n'
    layout = layout_of(content, "")
    assert (layout.delimiter, layout.names) == (" ", ("1", "text", "label"))


def test_text_without_delimiters_is_not_a_table() -> None:
    assert layout_of("just words\nand more\n", "") is None


FORM = "Timestamp,How satisfied are you with the service that you received?,Please explain why\n"
ANSWERS = "".join(
    f"2024/03/0{day} 9:00:11 AM GMT+1,{'Yes' if day % 2 else 'No'},dirty tables {day}\n" for day in range(1, 8)
)


def test_questions_above_dates_are_a_header() -> None:
    layout = layout_of(FORM + ANSWERS)
    assert layout.header == 1
    assert layout.names[2] == "Please explain why"
    assert layout_of(ANSWERS).header is None
    numbers = "".join(f"{i},{i % 2}.5,some words and more\n" for i in range(9))
    assert layout_of(numbers).header is None
    assert layout_of("which one,how much,what for\n" + numbers).header == 1


def test_rows_of_qualtrics_below_the_names_are_not_records() -> None:
    names = "StartDate,Q1,Q2\n"
    texts = "Start Date,Overall rating,Please explain\n"
    ids = '"{""ImportId"":""startDate""}","{""ImportId"":""QID1""}","{""ImportId"":""QID2""}"\n'
    layout = layout_of(names + texts + ids + "2024-01-02,good,nice\n2024-01-03,bad,not nice\n")
    assert (layout.names, layout.header, layout.start) == (("StartDate", "Q1", "Q2"), 1, 4)
