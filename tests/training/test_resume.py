"""A run that is killed at any point and resumed ends like an uninterrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from catena.checkpoint import open_checkpoint
from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.loop import resume, train
from catena.training.report import LinesReporter, SilentReporter
from catena.training.run import RunFolder, open_run
from tests.laws.resume_laws import Doomed, Killed, die, fresh_run, go_on, killed_anywhere_ends_the_same, same_end
from tests.python_path import python_path
from tests.training.tiny import TiedModel, TinyTask, make_settings, make_task

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam", "eval_every": 4},
        {"optimizer": "adamw", "weight_decay": 0.1, "save_every": 3},
        {"optimizer": "sgd", "momentum": 0.9, "eval_every": 5, "schedule": "cosine", "warmup_steps": 3},
        {"optimizer": "adagrad", "eval_every": 4, "accumulate": 2, "average_last": 2},
        {"optimizer": "adadelta", "ema": 0.9, "save_every": 4, "max_norm": 0.5},
        {"optimizer": "adam", "schedule": "plateau", "plateau_patience": 3, "eval_every": 1, "keep_best": 2},
    ],
    ids=lambda s: "-".join(str(v) for v in s.values()),
)
def test_run_killed_at_any_step_resumes_exactly(settings: dict, tmp_path: Path) -> None:
    whole = TrainingConfig(**{"max_epochs": 3, "patience": 0, **settings})
    killed_anywhere_ends_the_same(lambda: TinyTask(seed=1), whole, tmp_path, kills=[1, 5, 9, 17])


@pytest.mark.parametrize("average", [{}, {"ema": 0.9}, {"average_last": 3}])
def test_tied_weights_and_buffers_are_restored(average: dict, tmp_path: Path) -> None:
    def tied() -> TinyTask:
        task = TinyTask(seed=1)
        torch.manual_seed(2)
        task._model = TiedModel()
        return task

    settings = TrainingConfig(max_epochs=3, eval_every=2, **average)
    killed_anywhere_ends_the_same(tied, settings, tmp_path, kills=[8])
    fresh = tied()
    open_checkpoint(tmp_path / "whole").load_into(fresh.model)
    assert fresh.model.get_buffer("batches").item() > 0


def test_run_killed_repeatedly_resumes_exactly(tmp_path: Path) -> None:
    settings = make_settings()
    whole, run = fresh_run(tmp_path / "whole"), fresh_run(tmp_path / "killed")
    train(make_task(), settings, whole, Randomness(5), SilentReporter())
    with pytest.raises(Killed):
        train(Doomed(make_task(), 3, die), settings, run, Randomness(5), SilentReporter())
    for at in (6, 5, 5, 7):
        with pytest.raises(Killed):
            go_on(Doomed(make_task(), at, die), settings, run)
    go_on(make_task(), settings, run)
    same_end(whole, run)


@pytest.mark.parametrize("call", range(0, 60, 4))
def test_run_killed_while_saving_resumes_exactly(call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies inside one of the calls that flush or rename files."""
    settings = make_settings()
    whole, run = fresh_run(tmp_path / "whole"), fresh_run(tmp_path / "killed")
    train(make_task(), settings, whole, Randomness(5), SilentReporter())
    calls = 0

    def dying(real):
        def wrapped(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls > call:
                raise Killed  # and everything after it fails too: a dead process cleans nothing up
            return real(*arguments, **named)

        return wrapped

    with monkeypatch.context() as patch:
        for name in ("fsync", "rename", "replace", "unlink", "rmdir"):
            patch.setattr(os, name, dying(getattr(os, name)))
        with pytest.raises(Killed):
            train(make_task(), settings, run, Randomness(5), SilentReporter())
    go_on(make_task(), settings, run)
    same_end(whole, run)
    assert not list(run.path.rglob(".unfinished-*")), "what the killed writing left behind is still there"


def test_folder_used_again_after_a_failure_has_no_old_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first evaluation is written to metrics.jsonl, and then the first checkpoint fails."""
    settings = make_settings()
    whole, run = fresh_run(tmp_path / "whole"), fresh_run(tmp_path / "again")
    train(make_task(), settings, whole, Randomness(5), SilentReporter())
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write", lambda *_: die())
        with pytest.raises(Killed):
            train(make_task(), settings, run, Randomness(5), SilentReporter())
    assert run.metrics()
    train(make_task(), settings, run, Randomness(5), SilentReporter())
    assert [row["step"] for row in run.metrics()] == [row["step"] for row in whole.metrics()]
    same_end(whole, run)


def test_initial_weights_of_older_run_are_saved(tmp_path: Path) -> None:
    """A run that starts from older weights resumes from these, not from new ones."""
    settings = make_settings()

    def tuned() -> TinyTask:
        task = TinyTask(seed=3)
        torch.nn.init.constant_(task.model.get_parameter("output.weight"), 0.25)
        return task

    whole, run = fresh_run(tmp_path / "whole"), fresh_run(tmp_path / "killed")
    train(tuned(), settings, whole, Randomness(5), SilentReporter(), save_start=True)
    with pytest.raises(Killed):
        train(Doomed(tuned(), 2, die), settings, run, Randomness(5), SilentReporter(), save_start=True)
    go_on(make_task(), settings, run)
    same_end(whole, run)


def test_finished_run_is_unchanged(tmp_path: Path) -> None:
    run = fresh_run(tmp_path / "run")
    first = train(make_task(), make_settings(), run, Randomness(5), SilentReporter())
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*.safetensors")}
    again = go_on(make_task(), make_settings(), run)
    assert (again.reason, again.steps, again.scores) == (first.reason, first.steps, first.scores)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*.safetensors")} == before


def test_changed_threads_and_damaged_last_are_reported(tmp_path: Path) -> None:
    run = fresh_run(tmp_path / "run")
    settings = make_settings().model_copy(update={"keep_last": 2})
    with pytest.raises(Killed):
        train(Doomed(make_task(), 15, die), settings, run, Randomness(5), SilentReporter())
    meta = run.path / "meta.json"
    meta.write_text(meta.read_text().replace('"threads": 1', '"threads": 7'))
    weights = run.folder_of(12) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    lines: list[str] = []
    resume(make_task(), settings, run, Randomness(5), LinesReporter(lines.append))
    assert lines[0].startswith("the run started with 7 threads and continues with 1")
    assert "To make it exact, set machine.threads = 7 in its config.toml" in lines[0]
    assert "model.safetensors is damaged" in lines[1]
    assert "Falling back to the newest complete checkpoint" in lines[1]
    assert "resumed after step 8" in lines
    whole = fresh_run(tmp_path / "whole")
    train(make_task(), settings, whole, Randomness(5), SilentReporter())
    same_end(whole, run)


def start(run: Path, *rest: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.laws.resume_laws", "tests.training.tiny", str(run), *rest]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": python_path(ROOT, ROOT / "src")})


def test_process_killed_by_sigkill_resumes_exactly(tmp_path: Path) -> None:
    whole = fresh_run(tmp_path / "whole")
    train(make_task(), make_settings(), whole, Randomness(5), SilentReporter())
    child = start(tmp_path / "killed", "--die-at", "15")
    assert child.wait(timeout=120) == -signal.SIGKILL
    run = open_run(tmp_path / "killed")
    assert run.metrics()[-1]["step"] == 12
    go_on(make_task(), make_settings(), run)
    same_end(whole, run)


def test_process_killed_at_any_time_resumes_exactly(tmp_path: Path) -> None:
    whole = fresh_run(tmp_path / "whole")
    train(make_task(), make_settings(), whole, Randomness(5), SilentReporter())
    run = tmp_path / "killed"
    child = start(run)
    deadline = time.monotonic() + 120
    while not (run / "last").is_symlink() and time.monotonic() < deadline:
        time.sleep(0.0005)
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=60)
    go_on(make_task(), make_settings(), open_run(run))
    same_end(whole, open_run(run))
