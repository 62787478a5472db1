"""``catena resume``: a run that was killed ends as if it had never been; what cannot be resumed is said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from catena.checkpoint import open_checkpoint, step_of
from catena.tasks.classify.task import ClassifyTask
from tests.cli.conftest import TINY, Catena, environment, matches

CNN = ("--model", "cnn", "--d", "8", "--filters", "4", "--batch-size", "4", "--max-epochs", "6", "--patience", "0")
STEPS = 14  # in an epoch: 54 of the 60 texts, 4 at a time


def killed_in_the_middle_of_an_epoch(command: list[str], run: Path) -> None:
    """Start a training, and kill it without warning once it has saved a step in the middle of a later epoch.

    It is held first, so that it cannot reach the next epoch between the look and the blow.
    """
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            time.sleep(0.01)
            if last_step(run) < STEPS:
                continue
            process.send_signal(signal.SIGSTOP)
            if last_step(run) % STEPS and last_step(run) > STEPS:
                process.kill()
            process.send_signal(signal.SIGCONT)
        assert process.returncode == -signal.SIGKILL, "it came to its end before it was killed"


def last_step(run: Path) -> int:
    return step_of(Path(os.readlink(run / "last"))) if (run / "last").is_symlink() else 0


def test_killed_and_resumed_a_run_ends_with_the_same_weights_and_measurements(
    catena: Catena, files: Path, tmp_path: Path
) -> None:
    words = ["train", files / "train.tsv", *CNN, "--save-every", "3", "--threads", "1"]
    assert catena(*words, "-q", "-o", "whole").code == 0
    killed = tmp_path / "killed"
    killed_in_the_middle_of_an_epoch([sys.executable, "-m", "catena", *map(str, words), "-o", str(killed)], killed)
    before = step_of(open_checkpoint(killed / "last").folder)
    assert before % STEPS > 0
    said = catena("resume", killed)
    assert said.code == 0, said.err
    assert f"resumed after step {before}" in said.out
    for name in ("best", "last"):
        one, two = open_checkpoint(tmp_path / "whole" / name), open_checkpoint(killed / name)
        assert one.folder.name == two.folder.name
        assert all(torch.equal(tensor, two.weights()[key]) for key, tensor in one.weights().items())
        assert all(torch.equal(tensor, two.training()[key]) for key, tensor in one.training().items())
    assert measured(killed) == measured(tmp_path / "whole")


def measured(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_a_fine_tuning_that_is_killed_before_its_first_checkpoint_goes_on_from_the_old_weights(
    catena: Catena, files: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", files / "dev.tsv", "--from", trained, "--max-epochs", "1", "-q"]
    assert catena(*words, "-o", "whole").code == 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt  # a second Ctrl-C: nothing more is saved

    with monkeypatch.context() as patched:
        patched.setattr(ClassifyTask, "loss", interrupt)
        assert catena(*words, "-o", "killed").code == 130
    assert catena("resume", "killed", "-q").code == 0
    one, two = (open_checkpoint(Path(name)).weights() for name in ("whole", "killed"))
    assert all(torch.equal(tensor, two[key]) for key, tensor in one.items())


def test_a_run_that_is_done_is_left_as_it_is(catena: Catena, files: Path) -> None:
    assert catena("train", files / "train.tsv", "--test", files / "dev.tsv", *TINY, "-q", "-o", "run").code == 0
    metrics, best = Path("run/metrics.jsonl").read_text(encoding="utf-8"), os.readlink("run/best")
    said = catena("resume", "run")
    assert said.code == 0
    assert "max_epochs reached after step 4" in said.out
    assert said.out.splitlines()[-1].startswith("test: accuracy ")
    assert Path("run/metrics.jsonl").read_text(encoding="utf-8") == metrics
    assert os.readlink("run/best") == best


def test_other_data_is_refused(catena: Catena, files: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.tsv"
    shutil.copy(files / "train.tsv", mine)
    assert catena("train", mine, *TINY, "-q", "-o", "run").code == 0
    mine.write_text(mine.read_text(encoding="utf-8") + "weather\tone more\n", encoding="utf-8")
    said = catena("resume", "run")
    assert said.code == 1
    assert matches(said.sentence, "the run run cannot be resumed exactly: its data has changed since it began (train …")


def test_a_damaged_checkpoint_is_refused_and_last_falls_back(catena: Catena, files: Path) -> None:
    words = ["train", files / "train.tsv", *TINY, "--keep-last", "2", "-q", "-o", "run"]
    assert catena(*words).code == 0
    flip_a_bit(open_checkpoint(Path("run/last")).folder / "model.safetensors")
    said = catena("resume", "run")
    assert said.code == 0
    assert "model.safetensors is damaged: its sha256 is not that of what was written" in said.out
    assert "Falling back to the newest whole one, run/checkpoints/step-000002" in said.out
    assert "resumed after step 2" in said.out
    for folder in Path("run/checkpoints").iterdir():
        flip_a_bit(folder / "model.safetensors")
    for verb in (["resume", "run"], ["predict", "run"], ["evaluate", "run", files / "dev.tsv"], ["inspect", "run"]):
        said = catena(*verb)
        assert said.code == 1
        assert "model.safetensors is damaged: its sha256 is not that of what was written" in said.sentence


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_what_is_no_run(catena: Catena, files: Path, trained: Path) -> None:
    assert catena("resume", "nowhere").sentence.startswith("there is no run nowhere in ")
    assert matches(
        catena("resume", files).sentence, f"{files} is not a run: it has no meta.json. Name the folder that …"
    )
    assert matches(catena("resume", files / "train.tsv").sentence, f"{files / 'train.tsv'} is not a run: …")
    assert "is not a run" in catena("resume", trained / "best").sentence
    assert catena("resume", trained.with_name("smal")).sentence.endswith(f"did you mean {trained}?")
