"""Columns of tables, and values that are missing, not numbers or not finite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.data.quantities import parse_number
from catena.data.reading import ReadCounter
from catena.errors import FormatError
from catena.tasks.regress.config import RegressDataConfig
from catena.tasks.regress.data import RegressExample, open_values, read_values


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path, gold: bool = True, **data: object) -> tuple[list[RegressExample], ReadCounter]:
    counter = ReadCounter()
    return list(read_values(RegressDataConfig(**data), path, counter, gold=gold)), counter  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "text", "value", "numbers"),
    [
        ("text,rating", "text", "rating", ()),
        ("review,size,price", "review", "price", ()),
        ("a,b,y", None, "y", ("a", "b")),
        ("score,a,b", None, "score", ("a", "b")),
    ],
)
def test_columns_are_found_by_name_and_values(
    header: str, text: str | None, value: str, numbers: tuple[str, ...], tmp_path: Path
) -> None:
    names = header.split(",")
    cells = [["a good film"] if name in ("text", "review") else ["1.5"] for name in names]
    rows = "\n".join(",".join(cell for (cell,) in cells) for _ in range(4))
    _, columns = open_values(RegressDataConfig(), write(tmp_path, f"{header}\n{rows}\n"))
    assert (columns.text, columns.value, columns.numbers) == (text, value, numbers)


def test_numbers_next_to_a_text_are_read_if_named(tmp_path: Path) -> None:
    path = write(tmp_path, "text,size,price\na b,1,2.5\nc d,3,4\n")
    assert read(path)[0][0].numbers == ()
    assert "--number-columns size" in str(open_values(RegressDataConfig(), path)[1])
    first = read(path, number_columns=("Size",))[0][0]
    assert (first.text, first.numbers, first.value) == ("a b", (1.0,), 2.5)


def test_json_lines_and_files_without_a_header(tmp_path: Path) -> None:
    lines = [json.dumps({"text": "a b", "meta": {"price": x}}) for x in (1, 2.5)]
    path = write(tmp_path, "\n".join(lines) + "\n", "data.jsonl")
    assert [one.value for one in read(path, value_column="meta.price")[0]] == [1.0, 2.5]
    plain = write(tmp_path, "3.5\ta good film\n1.25\ta bad film\n" * 3, "data.tsv")
    found = read(plain)[0]
    assert (found[0].value, found[0].text) == (3.5, "a good film")


def test_unusable_records_are_counted_and_listed(tmp_path: Path) -> None:
    path = write(
        tmp_path, "a,b,y\n1,2,3\n1,2,\n1,2,nan\n1,2,inf\n1,2,many\n1,,3\n1,x,3\n1,-inf,3\n4,5,6\n" + "1,1,1\n" * 9
    )
    found, counter = read(path)
    assert len(found) == 11
    reasons = [(one.location.line, one.reason) for one in counter.dropped]
    assert reasons == [
        (3, "with a value that is missing"),
        (4, "with a value that is missing"),
        (5, "with a value that is not finite"),
        (6, "with a value that is not a number"),
        (7, "with b that is missing"),
        (8, "with b that is not a number"),
        (9, "with b that is not finite"),
    ]
    assert counter.counts(11).read == 18


def test_prices_and_decimal_commas_are_values(tmp_path: Path) -> None:
    rows = "".join(f'{["small", "big"][i % 2]} flat {i};"{30 + i},5";"1.{100 + i},50 €"\n' for i in range(20))
    (tmp_path / "x.csv").write_text("text;area;price\n" + rows)
    data = RegressDataConfig(number_columns=("area",))
    found = list(read_values(data, tmp_path / "x.csv", ReadCounter()))
    assert [(one.numbers[0], one.value) for one in found] == [(30.5 + i, 1100.5 + i) for i in range(20)]
    _, columns = open_values(data, tmp_path / "x.csv")
    assert "'1.100,50 €' of 'price' is read as 1100.5" in str(columns)
    assert "'30,5' of 'area' is read as 30.5" in str(columns)


def test_column_with_the_name_of_a_value_is_never_passed_over(tmp_path: Path) -> None:
    """The only column of numbers is not the value if another is named so; its cells are reported as they are."""
    path = write(tmp_path, "text,area,price\n" + "a big flat,30,on request\n" * 9)
    assert open_values(RegressDataConfig(), path)[1].value == "price"


def test_prediction_reads_every_record(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1,2\n,3\n")
    found, counter = read(path, gold=False, number_columns=("a", "b"))
    assert found[0].numbers == (1.0, 2.0)
    assert found[1].numbers[0] != found[1].numbers[0]  # nan
    assert not counter.dropped


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b,c\n1,2,3\n4,5,6\n", {}, "must show which column has the value to predict, .* Pass --value-column c"),
        ("a,y\n1,2\n3,4\n", {"value_column": "z"}, "has no column 'z' of the value"),
        ("a,y\n1,2\n3,4\n", {"number_columns": ("q",)}, "has no column 'q' of the number"),
        ("y\n1\n2\n3\n", {}, "has no column to predict from, only 'y'"),
    ],
)
def test_unclear_columns_are_an_error(content: str, options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        read(write(tmp_path, content), **options)


@pytest.mark.parametrize(
    ("cell", "number", "problem"),
    [
        ("3.5", 3.5, None), (" -1e3 ", -1000.0, None), (7, 7.0, None), ("", None, "missing"), (None, None, "missing"),
        ("NA", None, "missing"), ("inf", None, "not finite"), ("3,5", None, "not a number"), ("1,234", 1234.0, None),
        ([1], None, "not a number"),
    ],
)  # fmt: skip
def test_cells_are_parsed(cell: object, number: float | None, problem: str | None) -> None:
    found, wrong = parse_number(cell)
    assert wrong == problem
    assert found == number if number is not None else found != found
