"""Variations differ from the best candidate in the options that its table varies, and keep those of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.checkpoint import open_checkpoint
from catena.config import parse
from catena.tasks.auto.record import Trial
from catena.tasks.auto.table import DataSize, read_candidates, suitable
from catena.tasks.auto.trials import Outcome, Slice, run_job
from catena.tasks.auto.variations import values_on_all_data, vary
from catena.tasks.spec import TASKS, get_spec

TABLES = [(task, candidate.name) for task in TASKS for candidate in read_candidates(task) if candidate.vary]


def base(task: str, name: str, **values: Any) -> Trial:
    candidate = next(one for one in read_candidates(task) if one.name == name)
    return Trial(name, "it", {**candidate.config, **values})


def test_log_linear_variations_differ_and_have_names_of_their_own() -> None:
    found = vary("classify", base("classify", "log-linear"), 8, 0)
    assert [trial.name for trial in found] == [f"log-linear-{i:03d}" for i in range(1, 9)]
    assert len({str(trial.values) for trial in found}) == 8
    assert {trial.varies for trial in found} == {"log-linear"}
    assert {trial.values["training"]["learning_rate"] for trial in found} == {0.03, 0.1}
    assert vary("classify", base("classify", "log-linear"), 8, 0) == found


def test_options_of_the_user_are_not_varied() -> None:
    found = vary("classify", base("classify", "log-linear", training={"learning_rate": 0.07}), 8, 0)
    assert {trial.values["training"]["learning_rate"] for trial in found} == {0.07}
    assert len({trial.values["training"]["weight_decay"] for trial in found}) == 2


def test_networks_without_options_to_vary_are_trained_again_with_a_falling_rate() -> None:
    trial = base("classify", "gru")
    trial.is_network = True
    assert [one.name for one in vary("classify", trial, 4, 0)] == ["gru-same"]
    trial.is_network = False
    assert vary("classify", trial, 4, 0) == []
    assert vary("classify", Trial("001", "of tune", {}, is_network=True), 4, 0) == []
    assert vary("classify", base("classify", "log-linear"), 0, 0) == []


@pytest.mark.parametrize(("task", "name"), TABLES)
def test_variations_of_all_tables_are_valid(task: str, name: str) -> None:
    spec = get_spec(task)
    sizes = [DataSize(n, n_words=n * words) for n in (50, 1000, 100_000) for words in (1, 10)]
    rows = {one.name: (one, values) for size in sizes for one, values in suitable(spec, {}, size, 1e9)}
    _, values = rows[name] if name in rows else (None, base(task, name).values)
    found = vary(task, Trial(name, "it", values), 12, 0)
    assert len(found) >= 2
    for trial in found:
        parse(spec.config_class(), trial.values)


@pytest.mark.parametrize("kind", ["tfidf", "cnn"])
def test_training_on_all_data_keeps_the_temperature_of_a_dev_set_that_was_not_seen(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{'xy'[i % 2]}\t{'ab'[i % 3 // 2]} c{i}\n" for i in range(60)), encoding="utf-8")
    small = {"embedding": {"d": 4}, "convolution": {"filters": 2}} if kind == "cnn" else {}
    values: dict[str, Any] = {
        "data": {"train": [str(path)], "dev_fraction": 0.3}, "model": {"kind": kind, **small},
        "training": {"max_steps": 3} if kind == "cnn" else {}, "machine": {"device": "cpu"},
    }  # fmt: skip
    run_job(Slice("classify", values, tmp_path / "first", 100.0))
    again = values_on_all_data("classify", values, tmp_path / "first", {})
    assert again["data"] == {**values["data"], "train_on_dev": True}
    run_job(Slice("classify", again, tmp_path / "again", 100.0))
    first, second = (float(open_checkpoint(tmp_path / name).arrays()["temperature"]) for name in ("first", "again"))
    assert first == second == pytest.approx(again["evaluation"]["temperature"])
    assert first != 1.0, "it was fitted"
    if kind == "tfidf":
        numbers = [open_checkpoint(tmp_path / name).training_arrays()["numbers"] for name in ("first", "again")]
        assert numbers[0][0] == numbers[1][0] == again["model"]["penalty"] > 0
    fixed = values_on_all_data("classify", {**values, "evaluation": {"temperature": 2.0}}, tmp_path / "first", {})
    assert fixed["evaluation"] == {"temperature": 2.0}, "options of the user are kept"


@pytest.mark.parametrize("kind", ["ridge", "kernel_ridge"])
def test_training_on_all_data_keeps_what_a_regression_chose_by_dev(kind: str, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "train.csv"
    rows = rng.normal(size=(60, 8))
    lines = [",".join(map(str, (*row, value))) for row, value in zip(rows, rng.normal(size=60), strict=True)]
    path.write_text("\n".join([",".join([*"abcdefgh", "value"]), *lines]) + "\n", encoding="utf-8")
    values: dict[str, Any] = {"data": {"train": [str(path)], "dev_fraction": 0.3}, "model": {"kind": kind}}
    outcome = run_job(Slice("regress", values, tmp_path / "first", 100.0))
    assert isinstance(outcome, Outcome)
    again = values_on_all_data("regress", values, tmp_path / "first", outcome.scores)
    run_job(Slice("regress", again, tmp_path / "again", 100.0))
    first, second = (open_checkpoint(tmp_path / name).arrays() for name in ("first", "again"))
    assert float(second["deviation"]) == pytest.approx(float(first["deviation"]), rel=1e-6)
    assert float(first["chosen.alpha"]) == float(second["chosen.alpha"]) == again["model"]["alpha"][0]
    assert first.get("chosen.relative_gamma") == second.get("chosen.relative_gamma")
    run_job(Slice("regress", {**values, "data": again["data"]}, tmp_path / "seen", 100.0))
    seen = open_checkpoint(tmp_path / "seen").arrays()
    assert float(seen["deviation"]) < float(first["deviation"]), "of training data, it is too small"
