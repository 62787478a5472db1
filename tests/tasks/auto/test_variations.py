"""Variations differ from the best candidate in the options that its table varies, and keep those of the user."""

from __future__ import annotations

from typing import Any

import pytest

from catena.config import parse
from catena.tasks.auto.record import Trial
from catena.tasks.auto.table import DataSize, read_candidates, suitable
from catena.tasks.auto.variations import vary
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
