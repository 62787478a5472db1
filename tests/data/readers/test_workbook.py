"""Excel workbooks: written here by hand, and by openpyxl where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.detect import detect_format
from catena.data.reading import ReadCounter
from catena.data.records import read_examples, read_records
from catena.data.roles import LABEL, TEXT
from catena.errors import FormatError
from tests.data.readers.workbooks import workbook

ROWS = [["a good film & more", "yes"], ["a <bad> film", "no"], ["fine", "yes"], ["dull", "no"]]


def written(folder: Path, sheets: dict, name: str = "x.xlsx") -> Path:
    path = folder / name
    path.write_bytes(workbook(sheets))
    return path


def test_first_sheet_is_read_with_its_row_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, {"reviews": [["text", "label"], *ROWS], "notes": [["x"], ["y"]]})
    found = list(read_examples(path))
    assert [(e.text, e.labels) for e in found] == [(text, (label,)) for text, label in ROWS]
    assert [e.location.line for e in found] == [2, 3, 4, 5]
    assert "the sheet 'reviews' (not read: 'notes') of an Excel workbook" in detect_format(path).why


@pytest.mark.parametrize("note", ["seen", None])
def test_column_without_a_name_at_the_end_of_a_sheet_is_read(note: str | None, tmp_path: Path) -> None:
    path = written(tmp_path, {"reviews": [["text", "label"], *([*row, note] for row in ROWS)]})
    assert [(e.text, e.labels[0]) for e in read_examples(path)] == [tuple(row) for row in ROWS]
    assert [record.columns.get("3") for record in read_records(path, (TEXT, LABEL))] == [note] * len(ROWS)


def test_titles_gaps_and_wide_rows(tmp_path: Path) -> None:
    rows = [
        ["Survey 2024"],
        [],
        [None, "id", "text", None, "label"],
        *([None, i, text, None, label] for i, (text, label) in enumerate(ROWS)),
    ]
    rows.append([None, 9, "no label"])
    path = written(tmp_path, {"s": rows})
    counter = ReadCounter()
    found = list(read_records(path, (TEXT, LABEL), counter=counter))
    assert [(record["text"], record["label"]) for record in found] == [(text, (label,)) for text, label in ROWS]
    assert found[0].columns["id"] == "0"
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(1, "above the header"), (8, "without a label")]


def test_numbers_booleans_and_formulas(tmp_path: Path) -> None:
    path = written(tmp_path, {"s": [["text", "label"], ["=SUM(A1)", 1], ["two words", 1.0], ["x", 2.5], ["y", True]]})
    assert [(e.text, e.labels) for e in read_examples(path)] == [
        ("=SUM(A1)", ("1",)),
        ("two words", ("1.0",)),
        ("x", ("2.5",)),
        ("y", ("true",)),
    ]


def test_columns_after_z(tmp_path: Path) -> None:
    wide = [f"c{j}" for j in range(60)]
    path = written(tmp_path, {"s": [[*wide, "text", "label"], [*([None] * 60), "a b", "x"]]})
    assert [(e.text, e.labels) for e in read_examples(path)] == [("a b", ("x",))]


@pytest.mark.parametrize("rows", [[], [["text", "label"]], [[None]]])
def test_workbook_without_records_raises_error(rows: list, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no records"):
        list(read_examples(written(tmp_path, {"s": rows})))


def test_damaged_workbook_raises_error(tmp_path: Path) -> None:
    path = written(tmp_path, {"s": [["text", "label"], *ROWS]})
    path.write_bytes(path.read_bytes().replace(b"worksheets/s1.xml", b"worksheets/s9.xml"))
    with pytest.raises(FormatError, match=r"x\.xlsx.*(workbook|decompress)"):
        list(read_examples(path))


def test_other_office_documents_are_named(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "x.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", "<w/>")
    assert "is an office document" in detect_format(path).why


def test_workbook_of_openpyxl_is_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["text", "label"], *ROWS]:
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    assert [(e.text, e.labels[0]) for e in read_examples(tmp_path / "x.xlsx")] == [tuple(row) for row in ROWS]
