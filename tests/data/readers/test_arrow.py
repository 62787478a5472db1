"""Parquet, Arrow files and streams, and datasets folders: written with pyarrow, read back as examples."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from catena.data.readers import arrow
from catena.data.reading import ReadCounter
from catena.data.records import read_examples
from catena.errors import FormatError, MissingExtraError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [{"id": i, "review": f"text {i} é", "label": ["no", "yes"][i % 2]} for i in range(3000)]


def as_parquet(path: Path, table: Any) -> None:
    pq.write_table(table, path, row_group_size=700)


def as_arrow_file(path: Path, table: Any) -> None:
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=700)


def as_arrow_stream(path: Path, table: Any) -> None:
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=700)


every_kind = pytest.mark.parametrize("store", [as_parquet, as_arrow_file, as_arrow_stream])


@every_kind
def test_round_trip_over_several_batches(store, tmp_path: Path) -> None:
    path = tmp_path / "data"
    store(path, pa.Table.from_pylist(ROWS))
    found = list(read_examples(path, format="parquet"))
    assert [(e.text, e.labels) for e in found] == [(row["review"], (row["label"],)) for row in ROWS]
    assert [e.location.line for e in found] == list(range(1, 3001))
    assert str(found[-1].location) == f"{path}:3000"


@every_kind
def test_compressed_once_more(store, tmp_path: Path) -> None:
    path = tmp_path / "data"
    store(path, pa.Table.from_pylist(ROWS[:5]))
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert len(list(read_examples(path, format="parquet"))) == 5


def test_numbered_classes_get_their_names(tmp_path: Path) -> None:
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "text": {"_type": "Value"}}
    schema = pa.schema({"text": pa.string(), "label": pa.int64()})
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "label": [1, 0]}, schema=schema), path)
    assert [e.labels for e in read_examples(path, format="parquet")] == [("pos",), ("neg",)]
    pq.write_table(pa.table({"text": ["a", "b"], "label": [1, 2]}, schema=schema), path)
    with pytest.raises(FormatError, match=r"data.parquet:2 is a record with class 2, outside the 2 classes"):
        list(read_examples(path, format="parquet"))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([["a", "b"], []], [("a", "b"), ()]),
        ([[1, 2], [0]], [("1", "2"), ("0",)]),
        ([True, False], [("true",), ("false",)]),
    ],
)
def test_labels_of_every_kind(values: list, found: list[tuple[str, ...]], tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"text": ["x", "y"], "labels": values}), path)
    assert [e.labels for e in read_examples(path, format="parquet", multilabel=True)] == found


def test_texts_without_labels_and_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": ["y|z"]}), path)
    (example,) = read_examples(path, format="parquet", columns={"text": "a"}, labeled=False)
    assert (example.text, example.labels) == ("x", ())
    (example,) = read_examples(path, format="parquet", columns={"text": "a", "label": "b"}, separator="|")
    assert example.labels == ("y", "z")
    with pytest.raises(FormatError, match="has no text column with a common name, only 'a', 'b'"):
        list(read_examples(path, format="parquet"))


def test_missing_value_is_dropped_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"text": ["x", None, "z"], "label": ["a", "b", None]}), path)
    counter = ReadCounter()
    assert [e.text for e in read_examples(path, counter=counter)] == ["x"]
    assert [(d.location.line, d.reason) for d in counter.dropped] == [(2, "empty"), (3, "without a label")]


@every_kind
def test_truncated_or_other_file_raises_error(store, tmp_path: Path) -> None:
    path = tmp_path / "data"
    store(path, pa.Table.from_pylist(ROWS))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FormatError, match=r"Cannot read .* as Parquet or Arrow"):
        list(read_examples(path, format="parquet"))
    path.write_text("label\ttext\na\tone\nb\ttwo\n")
    with pytest.raises(FormatError, match=r"Cannot read .* as Parquet or Arrow .*pass another --input-format"):
        list(read_examples(path, format="parquet"))


def test_missing_package_raises_error_with_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"needs the package pyarrow.*pip install pyarrow"):
        list(read_examples(tmp_path / "x.parquet", format="parquet"))


# --- datasets folders ---------------------------------------------------------------------------------------


def save_to_disk(folder: Path, rows: list[dict[str, Any]], features: dict[str, Any] | None = None) -> Path:
    """A folder of two files as Hugging Face datasets writes it."""
    folder.mkdir(parents=True)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    for i, name in enumerate(names):
        as_arrow_stream(folder / name, pa.Table.from_pylist(rows[i::2]))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    return folder


def test_a_saved_dataset_of_several_files(tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "saved", ROWS[:10])
    found = list(read_examples(folder, format="datasets"))
    expected = ROWS[0:10:2] + ROWS[1:10:2]
    assert [(e.text, e.labels) for e in found] == [(row["review"], (row["label"],)) for row in expected]
    assert [e.location.line for e in found] == list(range(1, 11))


def test_classes_are_named_by_dataset_info(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
    features = {"label": {"names": ["ham", "spam"], "_type": "ClassLabel"}}
    folder = save_to_disk(tmp_path / "saved", rows, features=features)
    assert [e.labels for e in read_examples(folder, format="datasets")] == [("ham",), ("spam",)]


def test_a_folder_of_splits(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "all" / "train", ROWS[:6])
    save_to_disk(tmp_path / "all" / "test", ROWS[6:10])
    (tmp_path / "all" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert arrow.splits(tmp_path / "all") == ["train", "test"]
    assert len(list(read_examples(tmp_path / "all", format="datasets", options={"split": "test"}))) == 4
    assert len(list(read_examples(tmp_path / "all" / "train", format="datasets"))) == 6
    with pytest.raises(FormatError, match=r"has the splits 'train', 'test'\. Choose one, or pass .*train"):
        list(read_examples(tmp_path / "all", format="datasets"))
    with pytest.raises(FormatError, match=r"has no split 'tset': did you mean 'test'"):
        list(read_examples(tmp_path / "all", format="datasets", options={"split": "tset"}))
    with pytest.raises(FormatError, match=r"has no splits, got split 'dev'"):
        list(read_examples(tmp_path / "all" / "train", format="datasets", options={"split": "dev"}))


OUTSIDE = '{"_data_files": [{"filename": "../x"}]}'


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda f: (f / "state.json").write_text("{"), "Cannot read .*state.json as JSON"),
        (lambda f: (f / "state.json").write_text("[]"), "state.json must be a JSON object, got a list"),
        (lambda f: (f / "state.json").write_text("{}"), "state.json does not list the data files"),
        (lambda f: (f / "state.json").write_text(OUTSIDE), "state.json does not list the data files"),
        (lambda f: (f / "state.json").unlink(), "File not found: .*state.json, which save_to_disk writes"),
        (lambda f: (f / "data-00000-of-00002.arrow").unlink(), "has no data-00000-of-00002.arrow"),
    ],
)
def test_damaged_folder_raises_error(damage, problem: str, tmp_path: Path) -> None:
    folder = save_to_disk(tmp_path / "saved", ROWS[:4])
    damage(folder)
    with pytest.raises(FormatError, match=problem):
        list(read_examples(folder, format="datasets"))


def test_folder_without_dataset_raises_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"is a folder without state.json or dataset_dict.json"):
        list(read_examples(tmp_path, format="datasets"))
