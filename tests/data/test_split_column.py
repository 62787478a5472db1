"""Columns that assign the records of a table to train, dev and test, against plain counting."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from catena.data.inspection import inspect
from catena.data.splits import find_split_column

NAMES = {"train": "train", "training": "train", "val": "dev", "validation": "dev", "dev": "dev", "TEST": "test"}
SPLITS = ["train", "train", "training", "val", "validation", "dev", "TEST", "train"] * 5
ROWS = [(f"the text number {i} of all", "ab"[i % 2], split) for i, split in enumerate(SPLITS)]


def written(folder: Path, name: str, rows: list[tuple[str, str, str]], column: str = "split") -> Path:
    path = folder / name
    records = [dict(zip(("text", "label", column), row, strict=True)) for row in rows]
    if name.endswith("jsonl"):
        content = "".join(json.dumps(record) + "\n" for record in records)
    else:
        content = f"text,label,{column}\n" + "".join(",".join(row) + "\n" for row in rows)
    path.write_text(content)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_records_have_the_split_of_their_line(name: str, tmp_path: Path) -> None:
    column = find_split_column(written(tmp_path, name, ROWS))
    assert column is not None
    first = 2 if name == "x.csv" else 1
    assert dict(column.splits) == {first + i: NAMES[split] for i, split in enumerate(SPLITS)}
    assert column.counts() == Counter(NAMES[split] for split in SPLITS)


def test_values_show_a_column_of_any_name(tmp_path: Path) -> None:
    column = find_split_column(written(tmp_path, "x.csv", ROWS, "used for"))
    assert column is not None
    assert column.name == "used for"


@pytest.mark.parametrize(
    "splits",
    [
        ["train"] * 40,  # nothing else
        ["dev", "test"] * 20,  # no train
        ["train", "test"] * 19 + ["train", "other"],  # another value
        ["train", "test"] * 19 + ["train", ""],  # no value
    ],
)
def test_other_columns_split_nothing(splits: list[str], tmp_path: Path) -> None:
    rows = [(text, label, split) for (text, label, _), split in zip(ROWS, splits, strict=True)]
    assert find_split_column(written(tmp_path, "x.csv", rows)) is None


def test_split_that_begins_below_the_sample_is_found(tmp_path: Path) -> None:
    rows = [(f"the text number {i} of all", "ab"[i % 2], "train" if i < 3000 else "test") for i in range(3010)]
    column = find_split_column(written(tmp_path, "x.csv", rows))
    assert column is not None
    assert column.counts() == {"train": 3000, "test": 10}


def test_inspection_reports_the_splits_and_no_split_is_a_label(tmp_path: Path) -> None:
    report = inspect([written(tmp_path, "x.csv", ROWS)]).files[0]
    assert (report.task, report.n_examples, sorted(report.labels)) == ("classify", 40, ["a", "b"])
    assert [finding.kind for finding in report.findings if finding.kind == "splits"] == ["splits"]
    path = tmp_path / "y.csv"
    path.write_text("sentence,split\n" + "".join(f"{text},{split}\n" for text, _, split in ROWS))
    assert inspect([path]).files[0].task is None
