"""``catena resume``: a killed run ends like an uninterrupted one; errors of runs that cannot be resumed."""

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

from catena.checkpoint import open_checkpoint, parse_step
from catena.tasks.classify.task import ClassifyTask
from tests.cli.conftest import NETWORK, Catena, environment, matches

CNN = ("--model", "cnn", "--d", "8", "--filters", "4", "--batch-size", "4", "--max-epochs", "6", "--patience", "0")
STEPS = 14  # in an epoch: 54 of the 60 texts, 4 at a time


def killed_in_the_middle_of_an_epoch(command: list[str], run: Path) -> None:
    """Start a training and kill it after it has saved a step in the middle of a later epoch.

    It is stopped first, so that it cannot reach the next epoch between the check and the kill.
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
        assert process.returncode == -signal.SIGKILL, "it ended before it was killed"


def last_step(run: Path) -> int:
    return parse_step(Path(os.readlink(run / "last"))) if (run / "last").is_symlink() else 0


def test_killed_and_resumed_run_has_the_same_weights_and_metrics(catena: Catena, files: Path, tmp_path: Path) -> None:
    words = ["train", files / "train.tsv", *CNN, "--save-every", "3", "--threads", "1"]
    assert catena(*words, "-q", "-o", "whole").code == 0
    killed = tmp_path / "killed"
    killed_in_the_middle_of_an_epoch([sys.executable, "-m", "catena", *map(str, words), "-o", str(killed)], killed)
    before = parse_step(open_checkpoint(killed / "last").folder)
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


def test_killed_fine_tuning_resumes_from_the_old_weights(
    catena: Catena, files: Path, trained_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", files / "dev.tsv", "--init-from", trained_network, "--max-epochs", "1", "-q"]
    assert catena(*words, "-o", "whole").code == 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt  # a second Ctrl-C: nothing more is saved

    with monkeypatch.context() as patched:
        patched.setattr(ClassifyTask, "loss", interrupt)
        assert catena(*words, "-o", "killed").code == 130
    assert catena("resume", "killed", "-q").code == 0
    one, two = (open_checkpoint(Path(name)).weights() for name in ("whole", "killed"))
    assert all(torch.equal(tensor, two[key]) for key, tensor in one.items())


def test_finished_run_is_unchanged_by_resume(catena: Catena, files: Path) -> None:
    assert catena("train", files / "train.tsv", "--test", files / "dev.tsv", *NETWORK, "-q", "-o", "run").code == 0
    metrics, best = Path("run/metrics.jsonl").read_text(encoding="utf-8"), os.readlink("run/best")
    said = catena("resume", "run")
    assert said.code == 0
    assert "max_epochs reached after step 4" in said.out
    assert said.out.splitlines()[-1].startswith("test: accuracy ")
    assert Path("run/metrics.jsonl").read_text(encoding="utf-8") == metrics
    assert os.readlink("run/best") == best


def test_resume_with_changed_data_prints_error(catena: Catena, files: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.tsv"
    shutil.copy(files / "train.tsv", mine)
    assert catena("train", mine, *NETWORK, "-q", "-o", "run").code == 0
    mine.write_text(mine.read_text(encoding="utf-8") + "weather\tone more\n", encoding="utf-8")
    said = catena("resume", "run")
    assert said.code == 1
    assert matches(
        said.sentence, "The run run cannot be resumed exactly: its data has changed since it started (train …"
    )


def test_damaged_checkpoint_is_rejected_and_last_falls_back(catena: Catena, files: Path) -> None:
    words = ["train", files / "train.tsv", *NETWORK, "--keep-last", "2", "-q", "-o", "run"]
    assert catena(*words).code == 0
    flip_a_bit(open_checkpoint(Path("run/last")).folder / "model.safetensors")
    said = catena("resume", "run")
    assert said.code == 0
    assert "model.safetensors is damaged: its sha256 differs from the manifest" in said.out
    assert "Falling back to the newest complete checkpoint, run/checkpoints/step-000002" in said.out
    assert "resumed after step 2" in said.out
    for folder in Path("run/checkpoints").iterdir():
        flip_a_bit(folder / "model.safetensors")
    for verb in (["resume", "run"], ["predict", "run"], ["evaluate", "run", files / "dev.tsv"], ["inspect", "run"]):
        said = catena(*verb)
        assert said.code == 1
        assert "model.safetensors is damaged: its sha256 differs from the manifest" in said.sentence


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_resume_of_other_paths_prints_error(catena: Catena, files: Path, trained: Path) -> None:
    assert catena("resume", "nowhere").sentence.startswith("Run not found: nowhere in ")
    assert matches(
        catena("resume", files).sentence, f"{files} is not a run: it has no meta.json. Pass the folder that …"
    )
    assert matches(catena("resume", files / "train.tsv").sentence, f"{files / 'train.tsv'} is not a run: …")
    assert "is not a run" in catena("resume", trained / "best").sentence
    assert catena("resume", trained.with_name("smal")).sentence.endswith(f"Did you mean {trained}?")


# --- an edited config.toml --------------------------------------------------------------------------------------------


def edit(run: str, old: str, new: str) -> None:
    path = Path(run) / "config.toml"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def state_of(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("\nseed = 0\n", "\nseed = 7\n", "seed must be 0, got 7. "),
        ("learning_rate = 0.003", "learning_rate = 0.9", "training.learning_rate must be 0.003, got 0.9. "),
        ("dev_fraction = 0.1", "dev_fraction = 0.3", "data.dev_fraction must be 0.1, got 0.3. "),
        ('values = "binary"', 'values = "counts"', 'model.features.values must be "binary", got "counts". '),
        ("clip_value = 0.0\n", "", "training.clip_value must be 0.0, got nothing. "),
    ],
)
def test_resume_rejects_a_config_that_decides_another_result(
    catena: Catena, files: Path, old: str, new: str, said: str
) -> None:
    assert catena("train", files / "train.tsv", *NETWORK, "-q", "-o", "run").code == 0
    edit("run", old, new)
    edit("run", "max_epochs = 2", "max_epochs = 3")
    before = state_of(Path("run"))
    found = catena("resume", "run")
    assert found.code == 1
    assert found.sentence.startswith("run/config.toml differs from the config that step-000004 was trained with: ")
    assert said in found.sentence
    assert "Copy run/checkpoints/step-000004/config.toml over it, or train a new run with --init-from" in found.sentence
    assert state_of(Path("run")) == before


def test_resume_rejects_a_truncated_config(catena: Catena, files: Path) -> None:
    assert catena("train", files / "train.tsv", *NETWORK, "-q", "-o", "run").code == 0
    path = Path("run/config.toml")
    path.write_text(path.read_text(encoding="utf-8").partition("[training]")[0], encoding="utf-8")
    found = catena("resume", "run")
    assert found.code == 1
    assert 'training.optimizer must be "adam", got nothing' in found.sentence


def test_resume_accepts_other_limits_and_devices_in_config(catena: Catena, files: Path) -> None:
    assert catena("train", files / "train.tsv", *NETWORK, "-q", "-o", "run").code == 0
    edit("run", "max_epochs = 2", "max_epochs = 3")
    edit("run", "patience = 5", "patience = 4")
    edit("run", 'device = "auto"', 'device = "cpu"')
    assert "max_epochs reached after step 6" in catena("resume", "run").out


def test_resume_for_longer_equals_an_uninterrupted_run(catena: Catena, files: Path, tmp_path: Path) -> None:
    words = ("train", files / "train.tsv", "--test", files / "dev.tsv", "--model", "mlp", "--threads", "1", "-q")
    assert catena(*words, "--max-epochs", "2", "-o", "run").code == 0
    assert catena(*words, "--max-epochs", "5", "-o", "whole").code == 0
    said = catena("resume", "run", "--max-epochs", "5")
    assert said.code == 0, said.err
    assert "resumed after step 4" in said.out
    for name in ("best", "last"):
        one, two = open_checkpoint(tmp_path / "whole" / name), open_checkpoint(tmp_path / "run" / name)
        assert one.folder.name == two.folder.name
        assert all(torch.equal(tensor, two.weights()[key]) for key, tensor in one.weights().items())
    assert "max_epochs = 5" in Path("run/config.toml").read_text(encoding="utf-8")
    assert Path("run/config.toml").read_bytes() == Path("whole/config.toml").read_bytes()


def test_resume_accepts_steps_time_and_patience(catena: Catena, files: Path) -> None:
    words = ("train", files / "train.tsv", "--model", "mlp", "--threads", "1", "-q", "-o", "run")
    assert catena(*words, "--max-steps", "4").code == 0
    assert "max_steps reached after step 7" in catena("resume", "run", "--max-steps", "7").out
    assert "max_steps reached after step 9" in catena("resume", "run", "--max-steps", "9", "--max-time", "1h").out
    assert catena("resume", "run", "--patience", "3", "-q").code == 0
    text = Path("run/config.toml").read_text(encoding="utf-8")
    assert all(line in text for line in ("max_steps = 9\n", 'max_time = "1h"\n', "patience = 3\n"))
    said = catena("resume", "run", "--max-steps", "0")
    assert (said.code, said.sentence) == (2, "--max-steps must be 1 or more, got 0. See --help.")
    assert catena("resume", "run", "--max-time", "soon").code == 1
    assert Path("run/config.toml").read_text(encoding="utf-8") == text


def test_resume_with_longer_schedule_prints_note(catena: Catena, files: Path) -> None:
    words = ("train", files / "train.tsv", *NETWORK, "--schedule", "cosine", "-q", "-o", "run")
    assert catena(*words).code == 0
    assert (
        "the cosine learning rate schedule now ends at the new last step"
        in catena("resume", "run", "--max-epochs", "3").out
    )


def test_resume_rejects_removed_data(catena: Catena, files: Path) -> None:
    words = ("train", files / "train.tsv", "--dev", files / "dev.tsv", *NETWORK, "-q", "-o", "run")
    assert catena(*words).code == 0
    edit("run", f'dev = "{files / "dev.tsv"}"', 'dev = "none"')
    found = catena("resume", "run", "--max-epochs", "3")
    assert found.code == 1
    assert f"dev ({files / 'dev.tsv'}) is left out" in found.sentence


def test_resume_accepts_moved_data(catena: Catena, files: Path, tmp_path: Path) -> None:
    shutil.copy(files / "train.tsv", "a.tsv")
    assert catena("train", "a.tsv", *NETWORK, "-q", "-o", "run").code == 0
    Path("a.tsv").rename("b.tsv")
    found = catena("resume", "run")
    assert found.code == 1
    assert "a.tsv" in found.sentence
    edit("run", f'train = ["{tmp_path / "a.tsv"}"]', f'train = ["{tmp_path / "b.tsv"}"]')
    assert catena("resume", "run", "--max-epochs", "3").code == 0


def test_models_without_steps_reject_limits(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("the cat sat\na dog ran\n" * 20, encoding="utf-8")
    assert catena("train", "lm", "x.txt", "--model", "ngram", "--model.order", "3", "-q", "-o", "counted").code == 0
    said = catena("resume", "counted", "--max-epochs", "3")
    assert said.code == 1
    assert said.sentence.startswith(
        "max_epochs must be left out for a model of kind 'ngram', which is made in one pass"
    )
    assert catena("resume", "counted", "-q").code == 0
    edit("counted", "order = 3", "order = 2")
    assert "model.order must be 3, got 2" in catena("resume", "counted").sentence
    words = ("train", "embed", "x.txt", "--min-count", "1", "--epochs", "2", "--threads", "1", "-q")
    assert catena(*words, "-o", "vectors").code == 0
    assert "max_epochs must not be set for word vectors" in catena("resume", "vectors", "--max-epochs", "3").sentence
    edit("vectors", "epochs = 2", "epochs = 4")
    assert "training.epochs must be 2, got 4" in catena("resume", "vectors").sentence


def test_feature_tagger_trains_for_longer(catena: Catena, tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("the\tD\ncat\tN\nsat\tV\n\na\tD\ndog\tN\nran\tV\n\n" * 10, encoding="utf-8")
    words = ("train", "tag", "x.conll", "--model", "features", "--patience", "0", "-q", "--threads", "1")
    assert catena(*words, "--max-steps", "2", "-o", "run").code == 0
    assert catena(*words, "--max-steps", "4", "-o", "whole").code == 0
    assert catena("resume", "run", "--max-steps", "4", "-q").code == 0
    one, two = (open_checkpoint(tmp_path / name / "last") for name in ("whole", "run"))
    assert one.folder.name == two.folder.name
    assert all(torch.equal(tensor, two.weights()[key]) for key, tensor in one.weights().items())
