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
from catena.errors import CheckpointError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.application import PredictOptions
from catena.tasks.point.application import PointApplication
from catena.tasks.point.config import PointConfig
from catena.tasks.point.predictor import PointPredictor
from catena.tasks.point.task import PointTask, load_encoding
from catena.training.report import SilentReporter
from tests.laws.blank_laws import blank_is_answered_by_nothing
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


def train(made: PointConfig, folder: Path) -> PointPredictor:
    PointApplication().train(made, folder, SilentReporter())
    model = PointApplication().load(folder, "cpu")
    assert isinstance(model, PointPredictor)
    return model


def task_of(made: PointConfig) -> PointTask:
    data = PointApplication().prepare(made, Randomness(SEED), None, None)
    task = PointApplication().task(made, data, torch.device("cpu"), Randomness(SEED))
    assert isinstance(task, PointTask)
    return task


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> PointPredictor:
    made = config(steps=120, data={"size": 4, "values": 20, "n_train": 3840}, batches={"batch_size": 64})
    return train(made, tmp_path_factory.mktemp("runs") / "sort")


@pytest.mark.parametrize("problem", ["hull", "delaunay", "tsp"])
def test_every_problem_trains_loads_scores_and_plots(problem: str, tmp_path: Path) -> None:
    model = train(config(problem, search={"width": 2}), tmp_path / "run")
    lines = ["0,0 1,0 1,1 0,1", "0.5,0.5", "3,3 3,3 3,3", "0,0 1,1 2,2 3,3", ""]
    answers = model.predict(lines)
    assert answers[4].positions == ()
    for answer in answers[:4]:
        assert set(answer.positions[0]) <= set(range(len(answer.item.things)))
        if problem == "tsp":
            assert sorted(answer.positions[0]) == list(range(len(answer.item.things)))
        if problem == "hull":
            assert answer.positions[0][0] == answer.positions[0][-1]
        if problem == "delaunay":
            assert len(answer.positions[0]) % 3 == 0
    file = tmp_path / "sets.tsv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = model.evaluate(file)
    assert report.lines[0] == "4 sets of 1 to 4"
    found = model.answers(file)
    assert found.measure(found.right, found.given) == pytest.approx(next(iter(report.scores.values())))
    assert "<svg" in model.picture(lines[0]).svg
    assert model.sketch(lines[0]).splitlines()[0].split() == ["3", "2"]
    assert f"problem {problem}" in model.describe(3)[1]
    assert PointApplication().load(tmp_path / "run", "cpu").predict(lines) == answers


def test_sorter_predicts_with_every_option(sorter: PointPredictor, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sets = [rng.permutation(20)[:4].tolist() for _ in range(100)]
    answers = [list(answer.positions[0]) for answer in sorter.predict(sets)]
    assert sum(a == np.argsort(s).tolist() for s, a in zip(sets, answers, strict=True)) >= 90
    answer = sorter.predict(["3 12 7 19"], PredictOptions(n_best=3, scores=True))[0]
    assert str(answer) == "0 2 1 3"
    assert len(set(answer.positions)) == 3
    assert list(answer.log_probs) == sorted(answer.log_probs, reverse=True)
    assert math.fsum(map(math.exp, answer.log_probs)) <= 1 + 1e-6
    assert sorter.write(answer, answer.item, "text") == "0 2 1 3"
    first = sorter.write(answer, answer.item, "tsv").splitlines()[0]
    assert first == f"3 12 7 19\t0 2 1 3\t{answer.log_probs[0]:.4f}"
    row = json.loads(sorter.write(answer, answer.item, "jsonl"))
    assert row["points"] == [[3.0], [12.0], [7.0], [19.0]]
    assert row["answers"][0]["positions"] == [0, 2, 1, 3]
    assert [one["finished"] for one in row["answers"]] == [True] * 3
    blank_is_answered_by_nothing(sorter, "answers")
    the_network_answers(sorter, ["3 12 7 19"])
    assert sorter.sketch("3 12 7 19") == "3  12  7  19\n3  7  12  19"
    assert "<svg" in sorter.picture("3 12 7 19").svg
    file = tmp_path / "a.tsv"
    file.write_text("3 12 7 19\n1 2 4 3\t0 1 3 2\n", encoding="utf-8")
    assert sorter.evaluate(file).scores["exact"] == 1.0
    found = sorter.answers(file, "position_error")
    assert found.measure(found.right, found.given) == 0.0
    assert [a.positions for a in sorter.predict_stream(iter(["3 12 7 19"]))] == [((0, 2, 1, 3),)]


def test_truncated_outputs_are_marked(sorter: PointPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.point.scoring.most_steps", lambda rule, s, longest: 2)
    (answer,) = sorter.predict(["3 12 7 19"])
    assert not json.loads(sorter.write(answer, answer.item, "jsonl"))["answers"][0]["finished"]
    (remark,) = sorter.remarks(answer)
    assert remark.format(n=1, s="", was="was").startswith("1 output was truncated at the length of the longest")


def test_predict_invalid_input_raises(sorter: PointPredictor, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Unknown metric 'area'"):
        sorter.answers(tmp_path / "a.tsv", "area")
    with pytest.raises(FormatError, match="points with 1 coordinates, as in training, got 2"):
        sorter.predict(["1,2 3,4"])
    with pytest.raises(FormatError, match="not a list of numbers"):
        sorter.predict(["a b"])
    with pytest.raises(DataError, match="items must be a list of sets"):
        sorter.predict("1 2 3")
    with pytest.raises(DataError, match="--alignment"):
        sorter.predict(["1 2"], PredictOptions(alignment=True))
    with pytest.raises(DataError, match="nothing to draw"):
        sorter.picture("")
    (tmp_path / "empty.tsv").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="no sets to score"):
        sorter.evaluate(tmp_path / "empty.tsv")


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
    assert model.evaluate(file).scores["exact"] > 0.8
    assert model.encoding.kind == "tokens"
    assert "tokens" in model.describe(1)[0]
    assert len(model.predict(["x never Bob"])[0].positions[0]) <= 3
    bare = tmp_path / "bare.txt"
    bare.write_text("x Ann\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"has no target. Add one"):
        model.evaluate(bare)
    with pytest.raises(FormatError, match=r"must have tokens, as in training, got points"):
        model.predict(['{"points": [1, 2]}'])


def test_generated_batches_are_reproducible() -> None:
    task = task_of(config("tsp", data={"n_train": 90}))
    plan = task.epoch(2)
    assert len(plan) == 3
    last, first, again = plan.batch(2), plan.batch(0), task_of(config("tsp", data={"n_train": 90})).epoch(2).batch(2)
    assert len(last.lengths) == 90 - 64
    assert torch.equal(last.things.values, again.things.values)
    assert torch.equal(last.targets, again.targets)
    assert not torch.equal(first.things.values[:26], last.things.values)
    assert not torch.equal(task.epoch(1).batch(0).things.values, first.things.values), "fresh in each epoch"
    fixed = task_of(config("tsp", data={"fresh": False}))
    assert fixed.data.train is not None
    assert len(fixed.data.train) == 96
    assert fixed.describe_batch(first) == "32 sets of up to 5, longest target 6 steps"


@pytest.mark.parametrize(
    ("problem", "fresh", "objective"),
    [("hull", True, "likelihood"), ("hull", False, "likelihood"), ("tsp", True, "reinforce")],
)
def test_resume_after_kill_gives_the_same_model(problem: str, fresh: bool, objective: str, tmp_path: Path) -> None:
    made = config(problem, steps=8, data={"fresh": fresh}, learning={"objective": objective})
    killed_anywhere_ends_the_same(lambda: task_of(made), made.training, tmp_path, kills=[2, 6])


def test_training_starts_from_an_old_run_of_the_same_kind(sorter: PointPredictor, tmp_path: Path) -> None:
    made = config(steps=2, data={"size": 4})
    train(made, tmp_path / "old")
    train_from = PointApplication().train
    again = train_from(made, tmp_path / "new", SilentReporter(), start_from=tmp_path / "old")
    assert "exact" in again.test_scores
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_from(config(model={"glimpses": 0}), tmp_path / "x", SilentReporter(), start_from=tmp_path / "old")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_encoding(tmp_path)


def test_fit_to_time_chooses_a_model() -> None:
    quick, lines = PointApplication().fit_to_time(config())
    assert "2 layers" in lines[0]
    assert isinstance(quick, PointConfig)
    assert quick.model.d == 64
