"""Averages of weights over time and over folders."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from catena.checkpoint import open_checkpoint, write_checkpoint
from catena.errors import CheckpointError
from catena.training.average import (
    MeanOfLast,
    MovingAverage,
    TriggeredAverage,
    average,
    mean,
    snapshot,
    using,
    write_average,
)


class Counting(nn.Module):
    """Tied weights, a buffer of counts, and a plain weight."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("count", torch.tensor(0))


def save(folder: Path, value: float, words: str = "[]", rows: int = 2) -> Path:
    def rest(target: Path) -> None:
        (target / "config.toml").write_text(f"value = {value}\n", encoding="utf-8")
        (target / "vocabulary.json").write_text(words, encoding="utf-8")

    weights = {"w": torch.full((rows, 2), value), "n": torch.tensor(int(value))}
    return write_checkpoint(folder, weights, rest, training={}, state={"step": 1}).folder


def test_write_average_of_folders(tmp_path: Path) -> None:
    folders = [save(tmp_path / str(v), v) for v in (1.0, 2.0, 6.0)]
    assert average(folders)["w"].tolist() == [[3.0, 3.0]] * 2
    assert average(folders)["n"].item() == 6
    written = write_average(folders, tmp_path / "mean")
    found = open_checkpoint(tmp_path / "mean")
    assert found.weights()["w"].tolist() == [[3.0, 3.0]] * 2
    assert (found.folder / "config.toml").read_text() == "value = 6.0\n"
    assert found.state() == {"average_of": [str(folder) for folder in folders]}
    assert "training.safetensors" not in written.manifest["files"]
    with pytest.raises(CheckpointError, match=r"exists already. Choose another --output"):
        write_average(folders, tmp_path / "mean")


def test_average_of_different_models_raises_error(tmp_path: Path) -> None:
    one = save(tmp_path / "one", 1.0)
    for other in (save(tmp_path / "rows", 2.0, rows=3), save(tmp_path / "words", 2.0, words='["x"]')):
        with pytest.raises(CheckpointError, match=rf"Cannot average .*{other.name} and .*one: they are diff"):
            average([one, other])
    with pytest.raises(CheckpointError, match="must be 2 or more, got 0"):
        average([])


def test_mean_of_half_precision_is_exact() -> None:
    tenth = {"w": torch.full((3,), 0.1)}
    assert torch.equal(mean([tenth] * 7)["w"], tenth["w"])


def test_mean_of_last_keeps_tied_weights_after_resume(tmp_path: Path) -> None:
    def moved(kept: MeanOfLast, model: Counting, value: float) -> None:
        with torch.no_grad():
            model.a.weight.fill_(value)
        kept.before_evaluation()

    model, other = Counting(), Counting()
    kept, later = MeanOfLast(model, 3), MeanOfLast(other, 3)
    for value in (1.0, 2.0, 4.0):
        moved(kept, model, value)
    later.load(kept.tensors())
    moved(later, other, 6.0)
    for averaging, value in ((kept, 7 / 3), (later, 4.0)):
        weights = averaging.weights()
        assert weights is not None
        assert weights["a.weight"][0, 0].item() == pytest.approx(value)
        assert weights["b.weight"] is weights["a.weight"]
        written = write_checkpoint(tmp_path / str(value), weights, lambda _: None)
        assert written.manifest["model"]["shared"] == {"b.weight": "a.weight"}
        read = written.weights()
        assert read["b.weight"] is read["a.weight"]


def test_mean_ties_only_weights_tied_everywhere() -> None:
    one, two = torch.ones(2), torch.zeros(2)
    found = mean([{"a": one, "b": one}, {"a": one, "b": two}])
    assert found["a"].tolist() == [1.0, 1.0]
    assert found["b"].tolist() == [0.5, 0.5]


def test_moving_average_handles_tied_weights_and_integer_buffers() -> None:
    model = Counting()
    with torch.no_grad():
        model.a.weight.fill_(0.0)
    moving = MovingAverage(model, decay=0.1)
    with torch.no_grad():
        model.a.weight.fill_(1.0)
        model.count.fill_(5)
    moving.after_step()
    weights = moving.weights()
    assert weights is not None
    assert weights["a.weight"][0, 0].item() == pytest.approx(0.9)
    assert weights["b.weight"] is weights["a.weight"]
    assert weights["count"].item() == 5


def test_using_restores_weights_after_error() -> None:
    model = nn.Linear(2, 2)
    own = snapshot(model)
    other = {name: t + 1 for name, t in own.items()}

    def fails() -> None:
        with using(model, other):
            assert torch.equal(model.weight, other["weight"])
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails()
    assert torch.equal(model.weight, own["weight"])
    with using(model, None):
        assert torch.equal(model.weight, own["weight"])


class TestAverageOnceStuck:
    def model(self) -> nn.Module:
        return nn.Linear(2, 1)

    def test_average_begins_without_new_best_and_is_mean_of_later_steps(self) -> None:
        model = self.model()
        averaging = TriggeredAverage(model, 2)
        for is_best in (True, False, True, False):
            averaging.after_step()
            averaging.evaluated(is_best)
            assert averaging.weights() is None
        averaging.evaluated(False)
        assert averaging.weights() is None, "no step was taken since then"
        kept = []
        for value in (1.0, 4.0, 10.0):
            with torch.no_grad():
                model.weight.fill_(value)
            kept.append(value)
            averaging.after_step()
            averaging.evaluated(True)
            found = averaging.weights()
            assert found is not None
            torch.testing.assert_close(found["weight"], torch.full((1, 2), sum(kept) / len(kept)))

    def test_average_resumes_from_checkpoint(self) -> None:
        model = self.model()
        one, other = TriggeredAverage(model, 1), TriggeredAverage(model, 1)
        one.evaluated(False)
        one.after_step()
        other.load(one.tensors())
        with torch.no_grad():
            model.weight.add_(1.0)
        for averaging in (one, other):
            averaging.after_step()
        torch.testing.assert_close(one.weights(), other.weights())
        fresh = TriggeredAverage(model, 1)
        fresh.load(TriggeredAverage(model, 1).tensors())
        assert fresh.weights() is None
