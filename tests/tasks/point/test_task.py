"""Pointer networks: train, resume, load, predict, evaluate, compare and plot."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.neural import NetworkTraining
from catena.tasks.point.config import PointConfig, PointOptions
from catena.tasks.point.data import PointEncoding
from catena.tasks.point.search import PointEvaluation
from catena.tasks.point.task import PointTask
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
from tests.laws.blank_laws import blank_gives_an_empty_prediction
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same

SMALL: dict[str, Any] = {
    "d": 16,
    "encoder": {"kind": "transformer", "d": 16, "n_heads": 2, "n_layers": 1, "d_ff": 16, "positions": "none"},
    "decoder": {"kind": "recurrent", "d": 16, "bidirectional": False},
}


def config(problem: str = "sort", steps: int = 4, **sections: Any) -> PointConfig:
    values: dict[str, Any] = {"machine": {"device": "cpu", "threads": 1}, "batches": {"batch_size": 32}}
    data = {"problem": problem, "size": 5, "n_train": 96, "n_dev": 20, "n_test": 20}
    values["data"] = {**data, **sections.pop("data", {})}
    values["model"] = {**SMALL, **sections.pop("model", {})}
    every = 4 if steps <= 8 else 40
    values["training"] = {"optimizer": "adam", "learning_rate": 0.01, "max_steps": steps, "eval_every": every}
    return configs.parse(PointConfig, {**values, **sections})


def train(made: PointConfig, folder: Path) -> PointTask:
    train_run(made, folder, SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, PointTask)
    return task


def training_of(made: PointConfig) -> NetworkTraining:
    return PointTask.prepare(made, Sources(PointTask, made), Origin(Randomness(SEED)))


def evaluate_file(task: PointTask, path: Path) -> PointEvaluation:
    return task.evaluate(task.read(task.config, path, ReadCounter()))  # type: ignore[return-value]


def lines_of(prediction: Any, format: str) -> list[str]:
    return list(PredictionWriter(format).lines(prediction))


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> PointTask:
    made = config(steps=120, data={"size": 4, "values": 20, "n_train": 3840}, batches={"batch_size": 64})
    return train(made, tmp_path_factory.mktemp("runs") / "sort")


@pytest.mark.parametrize("problem", ["hull", "delaunay", "tsp"])
def test_every_problem_trains_loads_scores_and_plots(problem: str, tmp_path: Path) -> None:
    model = train(config(problem, search={"beam_size": 2}), tmp_path / "run")
    lines = ["0,0 1,0 1,1 0,1", "0.5,0.5", "3,3 3,3 3,3", "0,0 1,1 2,2 3,3", ""]
    predictions = model.predict(lines)
    assert predictions[4].positions is None
    for one in predictions[:4]:
        assert one.positions is not None
        assert set(one.positions) <= set(range(len(one.item.things)))
        if problem == "tsp":
            assert sorted(one.positions) == list(range(len(one.item.things)))
        if problem == "hull":
            assert one.positions[0] == one.positions[-1]
        if problem == "delaunay":
            assert len(one.positions) % 3 == 0
    file = tmp_path / "sets.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = evaluate_file(model, file)
    assert result.lines()[0] == "4 sets of 1 to 4"
    paired = result.paired(model.metric)
    assert paired.metric(paired.references, paired.predictions) == pytest.approx(result.scores()[model.metric])
    square = model.to_example(lines[0])
    assert "<svg" in model.draw(square, PointOptions()).svg
    assert model.draw_text(square, PointOptions()).splitlines()[0].split() == ["3", "2"]
    assert f"problem {problem}" in model.describe(3)[1]
    assert load_task(tmp_path / "run", "cpu").predict(lines) == predictions


def test_sorter_predicts_with_every_option(sorter: PointTask, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sets = [rng.permutation(20)[:4].tolist() for _ in range(100)]
    orders = [list(one.positions or ()) for one in sorter.predict(sets)]
    assert sum(a == np.argsort(s).tolist() for s, a in zip(sets, orders, strict=True)) >= 90
    best = sorter.predict(["3 12 7 19"], PointOptions(n_best=3, scores=True))[0]
    assert str(best) == "0 2 1 3"
    assert len({one.positions for one in best.n_best}) == 3
    log_probs = [one.log_prob for one in best.n_best if one.log_prob is not None]
    assert log_probs == sorted(log_probs, reverse=True)
    assert best.log_prob == log_probs[0]
    assert math.fsum(map(math.exp, log_probs)) <= 1 + 1e-6
    assert lines_of(best, "text") == ["0 2 1 3"]
    rows = lines_of(best, "tsv")
    assert len(rows) == 3
    assert rows[0] == f"3 12 7 19\t0 2 1 3\t{log_probs[0]:.4f}"
    assert lines_of(sorter.predict(["3 12 7 19"])[0], "tsv") == ["3 12 7 19\t0 2 1 3"]
    (line,) = lines_of(best, "jsonl")
    row = json.loads(line)
    assert row["points"] == [[3.0], [12.0], [7.0], [19.0]]
    assert row["positions"] == row["n_best"][0]["positions"] == [0, 2, 1, 3]
    assert [one["truncated"] for one in row["n_best"]] == [False] * 3
    blank_gives_an_empty_prediction(sorter)
    the_network_answers(sorter, ["3 12 7 19"])
    example = sorter.to_example("3 12 7 19")
    assert sorter.draw_text(example, PointOptions()) == "3  12  7  19\n3  7  12  19"
    assert "<svg" in sorter.draw(example, PointOptions()).svg
    file = tmp_path / "a.tsv"
    file.write_text("3 12 7 19\n1 2 4 3\t0 1 3 2\n", encoding="utf-8")
    result = evaluate_file(sorter, file)
    assert result.scores() == {"exact": 1.0, "position_error": 0.0}
    paired = result.paired("position_error")
    assert paired.metric(paired.references, paired.predictions) == 0.0
    assert not paired.metric.higher_is_better
    assert [one.positions for one in sorter.predict_stream(iter(["3 12 7 19"]))] == [(0, 2, 1, 3)]
    assert sorter.search_options(PointOptions(beam_size=3)).config.search.beam_size == 3
    assert sorter.search_options(PointOptions()) is sorter


def test_truncated_outputs_are_marked(sorter: PointTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.point.search.most_steps", lambda rule, s, longest: 2)
    (prediction,) = sorter.predict(["3 12 7 19"])
    (line,) = lines_of(prediction, "jsonl")
    assert json.loads(line)["truncated"]
    (warning,) = sorter.warnings(prediction, PointOptions())
    assert warning.format(n=1, s="", was="was").startswith("1 output was truncated at the length of the longest")


def test_predict_invalid_input_raises(sorter: PointTask, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got 'area'"):
        sorter.find_metric("area")
    with pytest.raises(FormatError, match="points with 1 coordinates, as in training, got 2"):
        sorter.predict(["1,2 3,4"])
    with pytest.raises(FormatError, match="not a list of numbers"):
        sorter.predict(["a b"])
    with pytest.raises(DataError, match="predict must get a list, got one text: '1 2 3'"):
        sorter.predict("1 2 3")
    for draw in (sorter.draw, sorter.draw_text):
        with pytest.raises(DataError, match="nothing to draw"):
            draw(sorter.to_example(""), PointOptions())
    (tmp_path / "empty.tsv").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="There is no example to score"):
        evaluate_file(sorter, tmp_path / "empty.tsv")


def test_training_on_own_tokens(tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(0), []
    for _ in range(150):
        words = rng.permutation(["x", "y", "Ann", "Bob", "z"])[:4].tolist()
        found = [j for j, word in enumerate(words) if word[0].isupper()]
        lines.append(json.dumps({"tokens": words, "target": found}))
    file = tmp_path / "names.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = {"train": [str(file)], "rule": "some"}
    made = config("own", steps=80, data=data, model={"encoder": {**SMALL["encoder"], "positions": "learned"}})
    model = train(made, tmp_path / "run")
    assert evaluate_file(model, file).scores()["exact"] > 0.8
    assert model.encoding.kind == "tokens"
    assert "tokens" in model.describe(1)[0]
    assert len(model.predict(["x never Bob"])[0].positions or ()) <= 3
    bare = tmp_path / "bare.txt"
    bare.write_text("x Ann\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"has no target. Add one"):
        evaluate_file(model, bare)
    with pytest.raises(FormatError, match=r"must have tokens, as in training, got points"):
        model.predict(['{"points": [1, 2]}'])


def test_generated_batches_are_reproducible() -> None:
    task = training_of(config("tsp", data={"n_train": 90}))
    plan = task.epoch(2)
    assert len(plan) == 3
    again = training_of(config("tsp", data={"n_train": 90})).epoch(2).batch(2)
    last, first = plan.batch(2), plan.batch(0)
    assert len(last.lengths) == 90 - 64
    assert torch.equal(last.things.values, again.things.values)
    assert torch.equal(last.targets, again.targets)
    assert not torch.equal(first.things.values[:26], last.things.values)
    assert not torch.equal(task.epoch(1).batch(0).things.values, first.things.values), "fresh in each epoch"
    fixed = training_of(config("tsp", data={"fresh": False}))
    assert len(fixed.data.train) == 96
    assert fixed.describe_batch(first) == "32 sets of up to 5, longest target 6 steps"


@pytest.mark.parametrize(
    ("problem", "fresh", "objective"),
    [("hull", True, "likelihood"), ("hull", False, "likelihood"), ("tsp", True, "reinforce")],
)
def test_resume_after_kill_gives_the_same_model(problem: str, fresh: bool, objective: str, tmp_path: Path) -> None:
    made = config(problem, steps=8, data={"fresh": fresh}, learning={"objective": objective})
    killed_anywhere_ends_the_same(lambda: training_of(made), made.training, tmp_path, kills=[2, 6])


def test_training_starts_from_an_old_run_of_the_same_kind(tmp_path: Path) -> None:
    made = config(steps=2, data={"size": 4})
    train(made, tmp_path / "old")
    again = train_run(made, tmp_path / "new", SilentReporter(), init_from=tmp_path / "old")
    assert "exact" in again.test_scores
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(config(model={"glimpses": 0}), tmp_path / "x", SilentReporter(), init_from=tmp_path / "old")
    with pytest.raises(CheckpointError, match="cannot be read"):
        PointEncoding.load(tmp_path)
