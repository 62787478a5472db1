"""Trials: slices that resume equal one long training, and jobs that fail are outcomes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from catena.tasks import fitted
from catena.tasks.auto.table import DataSize
from catena.tasks.auto.trials import Conclusion, CountJob, Outcome, Slice, run_job
from catena.training import stepwise

WORDS = {"lamp": "light bulb shine", "song": "sing tune chorus", "rain": "wet cloud drop"}


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "train.tsv"
    lines = [f"{label}\t{word} {i}" for label, words in WORDS.items() for word in words.split() for i in range(8)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = {"kind": "cnn", "embedding": {"d": 4}, "convolution": {"filters": 2}}
    return {
        "data": {"train": [str(path)], "test": str(path)},
        "model": model,
        "training": {"max_steps": 6, "eval_every": 2},
    }


def outcome(job: Any) -> Outcome:
    result = run_job(job)
    assert isinstance(result, Outcome)
    assert result.reason != "failed", result.lines
    return result


def test_examination_counts_examples_and_words(values: dict[str, Any]) -> None:
    values = values | {"machine": {"device": "cpu"}}
    lines = Path(values["data"]["train"][0]).read_text(encoding="utf-8").splitlines()
    n_characters = sum(len(line.split("\t")[1]) for line in lines)
    assert run_job(CountJob("classify", values)) == DataSize(72, 0, 144, n_test=72, n_characters=n_characters)


def test_slice_reports_scores_and_does_not_read_the_test_set(values: dict[str, Any], tmp_path: Path) -> None:
    found = outcome(Slice("classify", values, tmp_path / "run", 100.0))
    assert (found.reason, found.steps, found.metric, found.is_network) == ("max_steps", 6, "accuracy", True)
    assert found.best_step in (2, 4, 6)
    assert '"test"' not in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    last = outcome(Conclusion("classify", tmp_path / "run"))
    assert last.scores.keys() >= {"accuracy"}
    assert '"part": "test"' in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8")


def test_finished_slice_is_not_changed(values: dict[str, Any], tmp_path: Path) -> None:
    job = Slice("classify", values, tmp_path / "run", 100.0)
    first = outcome(job)
    weights = load_file(tmp_path / "run" / "last" / "model.safetensors")
    again = outcome(job)
    assert (again.steps, again.scores) == (first.steps, first.scores)
    after = load_file(tmp_path / "run" / "last" / "model.safetensors")
    assert weights.keys() == after.keys()
    assert all((weights[name] == after[name]).all() for name in weights)


def test_learning_rate_falls_to_zero_at_the_last_step(values: dict[str, Any], tmp_path: Path) -> None:
    outcome(Slice("classify", values, tmp_path / "run", 100.0))
    outcome(Slice("classify", values, tmp_path / "run", 100.0, steps=10, n_evaluations=5))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rates = {row["step"]: row["learning_rate"] for row in rows}
    assert rates[6] == 1e-3
    assert rates[8] == pytest.approx(1e-3 * 3 / 11)
    assert rates[10] == pytest.approx(1e-3 / 11)


def test_log_linear_models_are_trained_for_a_number_of_steps(values: dict[str, Any], tmp_path: Path) -> None:
    values = {**values, "model": {"kind": "loglinear"}, "training": {}}
    assert outcome(Slice("classify", values, tmp_path / "run", 100.0, steps=3, has_rate=False)).steps == 3


def test_limits_of_a_killed_slice_are_undone(values: dict[str, Any], tmp_path: Path) -> None:
    job = Slice("classify", values, tmp_path / "run", 100.0)
    outcome(job)
    config = tmp_path / "run" / "config.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('schedule = "constant"', 'schedule = "linear"'), encoding="utf-8")
    assert outcome(Slice("classify", values, tmp_path / "run", 100.0, steps=8)).steps == 8


def test_folder_without_checkpoint_is_trained_from_scratch(values: dict[str, Any], tmp_path: Path) -> None:
    job = Slice("classify", values, tmp_path / "run", 100.0)
    first = outcome(job)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "checkpoints").mkdir()
    assert outcome(job).scores == first.scores


@pytest.mark.parametrize("text", ["", "only text\n"])
def test_errors_are_outcomes(text: str, values: dict[str, Any], tmp_path: Path) -> None:
    Path(values["data"]["train"][0]).write_text(text, encoding="utf-8")
    found = run_job(Slice("classify", values, tmp_path / "run", 100.0))
    assert isinstance(found, Outcome)
    assert found.reason == "failed"
    assert found.lines[0].endswith(".")


_SERVE = """
import os, sys
from catena.tasks.auto import trials

class Closed:
    def recv(self):
        raise EOFError

assert "torch" not in sys.modules, "it reads the policy when it is loaded"
trials._serve(Closed(), os.getppid())
assert "torch" in sys.modules
print(os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("of_user", "used"), [({}, "1000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")]
)
def test_threads_of_a_worker_do_not_wait_for_long_on_a_core(of_user: dict[str, str], used: str) -> None:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | of_user
    done = subprocess.run([sys.executable, "-c", _SERVE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [used]


def test_threads_of_a_job_replace_those_of_the_values(values: dict[str, Any], tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        for threads, steps in ((2, 2), (1, 4)):
            outcome(Slice("classify", values, tmp_path / "run", 100.0, steps=steps, threads=threads))
            assert torch.get_num_threads() == threads
            assert f"threads = {threads}" in (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    finally:
        torch.set_num_threads(before)


def test_training_on_all_data_starts_from_the_best_weights(values: dict[str, Any], tmp_path: Path) -> None:
    outcome(Slice("classify", values, tmp_path / "first", 100.0))
    data = {**values["data"], "train_on_dev": True}
    again = Slice("classify", {**values, "data": data}, tmp_path / "again", 100.0, 1, start=tmp_path / "first")
    outcome(replace(again, values={**again.values, "training": {"learning_rate": 1e-9}}))
    first, last = (load_file(tmp_path / name / "best" / "model.safetensors") for name in ("first", "again"))
    assert first.keys() == last.keys()
    assert all(np.allclose(first[name], last[name], atol=1e-6) for name in first.keys() - {"temperature"})


@pytest.mark.parametrize(("task", "kind", "module"), [("lm", "ngram", fitted), ("classify", "tfidf", stepwise)])
def test_evaluation_of_models_without_gradient_steps_is_timed(
    task: str, kind: str, module: Any, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count()  # each look at it takes a second
    monkeypatch.setattr(module, "clock", SimpleNamespace(seconds=lambda: float(next(clock))))
    path = tmp_path / "text.txt"
    path.write_text("dogs sleep\ncats sleep\ndogs bark\n" * 20, encoding="utf-8")
    data = {"train": [str(path)]} if task == "lm" else values["data"]
    found = outcome(Slice(task, {"data": data, "model": {"kind": kind}}, tmp_path / "run", 1e9))
    assert not found.is_network
    assert found.evaluation_seconds == 1.0
