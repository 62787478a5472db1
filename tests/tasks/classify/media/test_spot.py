"""Detection of a class of sounds in recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena.cli.main import main
from catena.data.audio import write_wav
from catena.data.samples.tones import make_tones
from catena.errors import ConfigError
from catena.tasks.classify.media.spot import LabelCurve, choose_label_threshold, score_label
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter
from tests.tasks.classify.media.conftest import make_config


def make_recording(path: Path, with_noise: bool, seed: int, n: int = 40) -> list[tuple[float, float]]:
    """Tones one after another. Returns the start and end of each noise in seconds."""
    sounds, labels = make_tones(n, 0.3, seed=seed)
    parts, spans, at = [], [], 0
    for samples, label in zip(sounds, labels, strict=True):
        if label == "noise" and not with_noise:
            continue
        if label == "noise":
            spans.append((at / 8000, (at + len(samples)) / 8000))
        parts.append(samples)
        at += len(samples)
    write_wav(path, np.concatenate(parts), 8000)
    return spans


def test_score_is_the_log_odds_of_each_frame(tasks: dict[str, Any], tmp_path: Path) -> None:
    task = tasks["sound"]
    make_recording(tmp_path / "x.wav", True, 1, 10)
    curve = score_label(task, tmp_path / "x.wav", "noise", smoothing=0.0)
    example = task.to_example(tmp_path / "x.wav")
    with torch.no_grad():
        batch = task.load_batch(task.encode([example]), np.array([0]))
        probabilities = task.network(batch).frames[0].double().softmax(-1)[:, task.names.id("noise")].numpy()
    np.testing.assert_allclose(curve.scores, np.log(probabilities / (1 - probabilities)), atol=2e-3)
    assert curve.hop == 0.01
    assert curve.seconds == pytest.approx(len(example.content) / 8000)


def test_noise_is_found_at_its_times(tasks: dict[str, Any], tmp_path: Path) -> None:
    spans = make_recording(tmp_path / "x.wav", True, 2)
    found = score_label(tasks["sound"], tmp_path / "x.wav", "noise").detections(0.0, 0.3)
    hits = [any(start - 0.1 <= one.time <= end + 0.1 for one in found) for start, end in spans]
    assert sum(hits) >= 0.75 * len(spans)


def test_threshold_allows_the_number_of_false_alarms() -> None:
    scores = np.zeros(1000)
    scores[[100, 300, 500, 700]] = [4.0, 3.0, 2.0, 1.0]
    curve = LabelCurve("x", scores, 0.01, 1800.0)  # half an hour
    chosen = choose_label_threshold([curve], 4.0, 0.5)
    assert (chosen.threshold, chosen.n_alarms, chosen.hours) == (3.0, 2, 0.5)
    assert [one.time for one in curve.detections(chosen.threshold, 0.5)] == pytest.approx([1.0, 3.0])
    assert choose_label_threshold([curve], 0.0, 0.5).threshold > 4.0


def test_label_of_another_model_is_an_error(tasks: dict[str, Any], tmp_path: Path) -> None:
    make_recording(tmp_path / "x.wav", True, 1, 5)
    with pytest.raises(ConfigError, match=r"label must be one of clicks, .* got 'word'"):
        score_label(tasks["sound"], tmp_path / "x.wav", "word")


def test_bidirectional_encoder_is_an_error(folders: dict[str, Path], tmp_path: Path) -> None:
    model = {"kind": "sound", "encoder": {"kind": "recurrent", "d": 4}}
    config = make_config("sound", folders["sound"], 1, model=model, training={"max_steps": 1, "max_epochs": None})
    train_run(config, tmp_path / "run", SilentReporter())
    make_recording(tmp_path / "x.wav", True, 1, 5)
    with pytest.raises(ConfigError):
        score_label(load_task(tmp_path / "run", "cpu"), tmp_path / "x.wav", "noise")  # type: ignore[arg-type]


def test_command_writes_times_curve_and_threshold(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recording(tmp_path / "with.wav", True, 3)
    make_recording(tmp_path / "without.wav", False, 4)
    words = ["--label", "noise", "--without", str(tmp_path / "without.wav"), "--dead-time", "0.3", "--device", "cpu"]
    curve = tmp_path / "curve.tsv"
    recording = str(tmp_path / "with.wav")
    assert main(["spot", str(runs["sound"]), recording, *words, "--format", "jsonl", "--curve", str(curve)]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert rows
    assert set(rows[0]) == {"file", "time", "score"}
    assert "for at most 1 false alarms an hour: 0 in 0.00" in printed.err
    lines = curve.read_text().splitlines()
    assert lines[0] == "file\ttime\tscore"
    scores = np.array([float(line.split("\t")[2]) for line in lines[1:]])
    assert rows[0]["score"] == pytest.approx(scores[round(rows[0]["time"] * 100)], abs=1e-3)


def test_command_needs_a_label_and_a_sound_model(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spot", str(runs["sound"]), "x.wav"]) == 2
    assert "--label is missing. Choose one of clicks, falling" in capsys.readouterr().err
    assert main(["spot", str(runs["sound"]), "x.wav", "--label", "word"]) == 2
    assert "--label must be one of clicks" in capsys.readouterr().err
    assert main(["spot", str(runs["picture"]), "x.wav"]) == 2
    assert "is not a classifier of sounds" in capsys.readouterr().err
    assert main(["spot", str(runs["sound"]), "x.wav", "--threshold", "1", "--without", "y.wav"]) == 2
    assert "Remove one of them." in capsys.readouterr().err
