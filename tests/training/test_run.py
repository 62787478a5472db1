"""Run folders: metadata, metrics, checkpoints and errors."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from catena.checkpoint import open_checkpoint
from catena.errors import CheckpointError
from catena.files import file_sha256
from catena.training.run import RunFolder, create_run, open_run
from catena.version import __version__


def write(run: RunFolder, step: int) -> None:
    run.write(step, {"w": torch.tensor([float(step)])}, lambda folder: None, {}, {"step": step})


def test_new_run_records_metadata(tmp_path: Path) -> None:
    data = tmp_path / "train.tsv"
    data.write_text("yes\ta\n", encoding="utf-8")
    run = create_run(tmp_path / "runs" / "a", "x = 1\n", seed=7, command=["catena", "train"], data={"train": data})
    meta = json.loads((run.path / "meta.json").read_text(encoding="utf-8"))
    assert meta["format_version"] == 2
    assert (meta["seed"], meta["command"]) == (7, ["catena", "train"])
    assert meta["catena"] == __version__
    assert meta["torch"].partition("+")[0] == torch.__version__.partition("+")[0]  # builds differ in what follows +
    assert meta["threads"] == torch.get_num_threads()
    assert meta["data"] == {"train": {"path": str(data), "size": 6, "sha256": file_sha256(data)}}
    assert (run.path / "config.toml").read_text(encoding="utf-8") == "x = 1\n"
    assert open_run(run.path).meta == meta


def test_changed_data_raises_error(tmp_path: Path) -> None:
    data = tmp_path / "train.tsv"
    data.write_text("yes\ta\n", encoding="utf-8")
    run = create_run(tmp_path / "a", "", seed=0, data={"train": data})
    run.check_data({"train": data})
    data.write_text("yes\tb\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"its data has changed since it started \(train \(.*train\.tsv\)\)"):
        run.check_data({"train": data})


def test_run_is_overwritten_only_with_option(tmp_path: Path) -> None:
    run = create_run(tmp_path / "a", "old\n", seed=0)
    write(run, 5)
    run.point_best(5)
    with pytest.raises(CheckpointError, match=r"it contains a run\. Continue it with 'catena resume .*a'"):
        create_run(tmp_path / "a", "new\n", seed=0)
    assert (run.path / "config.toml").read_text() == "old\n"
    create_run(tmp_path / "a", "new\n", seed=0, overwrite=True)
    assert sorted(p.name for p in run.path.iterdir()) == ["checkpoints", "config.toml", "meta.json", "metrics.jsonl"]
    assert not list((run.path / "checkpoints").iterdir())


def test_run_that_could_not_be_written_does_not_block_its_folder(tmp_path: Path) -> None:
    """A full disk leaves the folder of the checkpoints, which is made first."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert create_run(tmp_path / "run", "", seed=0).meta["seed"] == 0
    (tmp_path / "other" / "checkpoints" / "mine").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="does not contain a run"):
        create_run(tmp_path / "other", "", seed=0)


def test_other_folders_are_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(CheckpointError, match=r"does not contain a run\. It was not changed"):
            create_run(tmp_path, "", seed=0, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "years of work"
    with pytest.raises(CheckpointError, match=r"thesis\.tex: it is a file"):
        create_run(tmp_path / "thesis.tex", "", seed=0)
    (tmp_path / "empty").mkdir()
    create_run(tmp_path / "empty", "", seed=0)


def test_open_run_of_other_folder_raises_error(tmp_path: Path) -> None:
    create_run(tmp_path / "mr-cnn", "", seed=0)
    with pytest.raises(CheckpointError, match=r"Run not found: .*mr-cmn\. Did you mean .*mr-cnn\?"):
        open_run(tmp_path / "mr-cmn")
    with pytest.raises(CheckpointError, match=r"is not a run: it has no meta\.json"):
        open_run(tmp_path)
    (tmp_path / "mr-cnn" / "meta.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"meta\.json is damaged"):
        open_run(tmp_path / "mr-cnn")


def test_metrics_are_cut_and_partial_line_is_ignored(tmp_path: Path) -> None:
    run = create_run(tmp_path / "a", "", seed=0)
    for step in (2, 4, 6):
        run.append_metrics({"step": step, "scores": {"f1": math.nan if step == 2 else 0.5}})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 8, "sco')
    assert [row["step"] for row in run.metrics()] == [2, 4, 6]
    assert run.metrics()[0]["scores"]["f1"] is None
    run.cut_metrics(4)
    assert [row["step"] for row in run.metrics()] == [2, 4]
    run.append_metrics({"step": 6})
    assert [row["step"] for row in run.metrics()] == [2, 4, 6]


def test_prune_keeps_given_steps_and_removes_unfinished(tmp_path: Path) -> None:
    run = create_run(tmp_path / "a", "", seed=0)
    for step in (2, 4, 6):
        write(run, step)
    (run.path / "checkpoints" / ".unfinished-abc" / "inner").mkdir(parents=True)
    (run.path / ".unfinished-def").write_text("", encoding="utf-8")
    run.prune([4, 6])
    assert sorted(p.name for p in (run.path / "checkpoints").iterdir()) == ["step-000004", "step-000006"]
    assert not list(run.path.rglob(".unfinished*"))


def test_point_back_after_lost_checkpoint(tmp_path: Path) -> None:
    run = create_run(tmp_path / "a", "", seed=0)
    for step in (2, 4):
        write(run, step)
    run.point_back(4, best_step=2)
    assert (run.best(), open_checkpoint(run.path / "last").folder) == (run.folder_of(2), run.folder_of(4))
    run.point_back(4, best_step=3)
    assert run.best() == run.folder_of(4)


def test_run_without_checkpoints_has_no_last(tmp_path: Path) -> None:
    run = create_run(tmp_path / "a", "", seed=0)
    assert run.last(pytest.fail) is None
    assert run.best() is None
