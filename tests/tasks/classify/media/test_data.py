"""Reading of pictures and sounds: folders, tables, the choice of a model, the estimator and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catena
from catena.cli.main import main
from catena.data.detect import detect_format
from catena.data.media import list_labeled_files
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError
from catena.tasks.classify.config import ClassifyDataConfig
from catena.tasks.classify.media.data import choose_kind, list_examples
from catena.tasks.classify.media.estimator import MediaClassifier
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter
from tests.tasks.classify.media.conftest import KINDS, make_config


def write_table(folder: Path, path: Path, header: str = "file,label") -> list[tuple[str, str]]:
    rows = [(str(file.path.relative_to(folder)), file.labels[0]) for file in list_labeled_files(folder)]
    lines = [header, *(f"{name},{label}" for name, label in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_folders_and_tables_choose_their_model(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    table = folders[kind] / "table.csv"
    write_table(folders[kind], table)
    try:
        assert detect_format(folders[kind]).format == f"{kind}s"
        assert detect_format(table).task == "classify"
        assert choose_kind([folders[kind]]) == choose_kind([table]) == kind
    finally:
        table.unlink()


def test_other_files_choose_no_model(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,label\nhello,a\nbye,b\n")
    (tmp_path / "both.csv").write_text("file,text,label\na.wav,hello,a\nb.wav,bye,b\n")
    assert choose_kind([tmp_path / "texts.csv"]) is None
    assert choose_kind([tmp_path / "both.csv"]) is None
    assert choose_kind([tmp_path / "both.csv"], "file") == "sound"
    assert choose_kind([tmp_path]) is None
    assert choose_kind([tmp_path / "missing"]) is None


def test_table_and_folder_list_the_same_files(folders: dict[str, Path]) -> None:
    table = folders["sound"] / "table.tsv"
    rows = write_table(folders["sound"], table, "path,class")
    table.write_text(table.read_text().replace(",", "\t"))
    try:
        listed = list(list_examples(ClassifyDataConfig(), table, ReadCounter()))
        assert [(str(one.path.relative_to(folders["sound"])), one.labels[0]) for one in listed] == rows
        renamed = ClassifyDataConfig(relabel=("noise=", "clicks=click"))
        counter = ReadCounter()
        labels = {one.labels[0] for one in list_examples(renamed, table, counter)}
        assert labels == {"click", "falling", "rising", "steady"}
        assert counter.counts(counter.used).dropped == {"with a label that is left out": 10}
    finally:
        table.unlink()


def test_missing_file_of_a_table_is_dropped(folders: dict[str, Path], tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    files = list_labeled_files(folders["sound"])
    lines = [f"{file.path},{file.labels[0]}" for file in files]
    table.write_text("\n".join(["file,label", "missing.wav,noise", *lines]) + "\n")
    train_run(make_config("sound", table, 1), tmp_path / "run", SilentReporter())
    dropped = (tmp_path / "run" / "dropped.tsv").read_text().splitlines()
    assert len(dropped) == 2
    assert "missing.wav" in dropped[1]


def test_several_labels_need_multilabel(folders: dict[str, Path], tmp_path: Path) -> None:
    files = list_labeled_files(folders["sound"])
    lines = [f"{file.path},{file.labels[0]}{'|loud' if i % 2 else ''}" for i, file in enumerate(files)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["file,label", *lines]) + "\n")
    data = {"multilabel": True, "label_separator": "|"}
    train_run(make_config("sound", table, 1, data=data), tmp_path / "run", SilentReporter())
    task: Any = load_task(tmp_path / "run", "cpu")
    assert task.labels == ("clicks", "falling", "loud", "noise", "rising", "steady")
    probabilities = np.exp(task.log_probabilities([files[0].path]))
    assert not np.isclose(probabilities.sum(), 1)


def test_decoded_pictures_are_cached(folders: dict[str, Path], tmp_path: Path) -> None:
    config = make_config("picture", folders["picture"], 1, data={"cache": str(tmp_path / "cache")})
    (tmp_path / "cache").mkdir()
    first = train_run(config, tmp_path / "one", SilentReporter()).scores
    (stored,) = (tmp_path / "cache").glob("*.npy")
    changed = stored.stat().st_mtime_ns
    assert train_run(config, tmp_path / "two", SilentReporter()).scores == first
    assert stored.stat().st_mtime_ns == changed


# --- the estimator ----------------------------------------------------------------------------------------------------


def test_estimator_fits_paths_and_labels_of_any_type(folders: dict[str, Path], tmp_path: Path) -> None:
    files = list_labeled_files(folders["sound"])
    names = sorted({file.labels[0] for file in files})
    paths, labels = [file.path for file in files], [names.index(file.labels[0]) for file in files]
    model = MediaClassifier(filters=16, max_epochs=4, batch_size=12, device="cpu").fit(paths, labels)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    predicted = model.predict(paths)
    assert predicted.dtype == model.classes_.dtype
    assert model.score(paths, labels) == pytest.approx(float((predicted == labels).mean()))
    assert model.predict_proba(paths[:3]).sum(1) == pytest.approx([1, 1, 1])
    model.save(tmp_path / "model")
    again = catena.load(tmp_path / "model", device="cpu")
    assert isinstance(again, MediaClassifier)
    np.testing.assert_array_equal(again.predict(paths), predicted)


def test_estimator_fits_a_folder(folders: dict[str, Path]) -> None:
    model = MediaClassifier(depth=8, max_epochs=1, device="cpu").fit(folders["picture"])
    assert model.classes_.tolist() == ["circle", "cross", "square", "triangle"]


def test_estimator_rejects_texts_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be files of pictures or sounds"):
        MediaClassifier().fit(["hello", "bye"], ["a", "b"])
    with pytest.raises(ConfigError, match="model must be 'picture' or 'sound', got 'cnn'"):
        MediaClassifier("cnn").fit(["a.png"], ["a"])
    with pytest.raises(DataError, match="File not found"):
        MediaClassifier().fit([tmp_path / "a.png", tmp_path / "b.png"], ["a", "b"])


# --- the command line -------------------------------------------------------------------------------------------------


def test_commands_train_evaluate_and_predict_a_folder(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    sounds = str(folders["sound"])
    words = ["--encoder", "convolution", "--filters", "16", "--max-epochs", "2", "--device", "cpu", "-o", run, "-q"]
    assert main(["train", "classify", sounds, *words]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, sounds, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == "read 50; used 50; dropped 0"
    assert "calibration_error" in report
    assert main(["predict", run, str(folders["sound"] / "noise"), "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 10
    assert all(row["file"].endswith(".wav") for row in rows)
    one = str(list_labeled_files(sounds)[0].path)
    assert main(["predict", run, one, "--format", "text"]) == 0
    assert capsys.readouterr().out.strip() in ("clicks", "falling", "noise", "rising", "steady")


def test_train_detects_the_task_of_a_folder(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--depth", "8", "--max-steps", "1", "--device", "cpu", "-o", str(tmp_path / "run")]
    assert main(["train", str(folders["picture"]), *words]) == 0
    assert "read as pictures" in capsys.readouterr().out
