"""Ctrl-C saves and prints how to resume. The resumed run ends like an uninterrupted one."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from catena.checkpoint import open_checkpoint
from catena.randomness import Randomness
from catena.training.device import Interruption
from catena.training.loop import train
from catena.training.report import LinesReporter, SilentReporter
from tests.laws.resume_laws import SEED, Doomed, fresh_run, go_on, same_end
from tests.training.tiny import make_settings, make_task


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_prints_resume_command(tmp_path: Path, number: signal.Signals) -> None:
    whole, run = fresh_run(tmp_path / "whole"), fresh_run(tmp_path / "stopped")
    train(make_task(), make_settings(), whole, Randomness(SEED), SilentReporter())
    lines: list[str] = []
    before = signal.getsignal(number)
    task = Doomed(make_task(), 7, lambda: os.kill(os.getpid(), number))
    outcome = train(task, make_settings(), run, Randomness(SEED), LinesReporter(lines.append))
    assert outcome.interrupted
    assert outcome.steps == 7, "the current step is finished"
    assert open_checkpoint(run.path / "last").folder == run.folder_of(7)
    assert lines[-1] == f"to continue: catena resume {run.path}"
    assert signal.getsignal(number) is before
    go_on(make_task(), make_settings(), run)
    same_end(whole, run)


def test_ctrl_c_before_first_evaluation_leaves_only_last(tmp_path: Path) -> None:
    run = fresh_run(tmp_path / "stopped")
    task = Doomed(make_task(), 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    outcome = train(task, make_settings(), run, Randomness(SEED), SilentReporter())
    assert (outcome.best, outcome.best_step, outcome.scores) == (None, None, {})
    assert open_checkpoint(run.path).folder == run.folder_of(2)


def test_second_ctrl_c_stops_immediately(tmp_path: Path) -> None:
    run = fresh_run(tmp_path / "stopped")
    lines: list[str] = []

    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(Doomed(make_task(), 7, twice), make_settings(), run, Randomness(SEED), LinesReporter(lines.append))
    assert lines[-1] == f"stopped immediately: catena resume {run.path} continues from the last checkpoint"
    assert open_checkpoint(run.path / "last").folder == run.folder_of(4)
    assert signal.getsignal(signal.SIGINT) is before


def test_signals_are_ignored_in_other_threads() -> None:
    before = signal.getsignal(signal.SIGINT)
    found = []

    def enter() -> None:
        with Interruption():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]
