"""145 files as common tools write them: training, evaluation and prediction read what the inspection reports.

``train`` and ``evaluate`` read by the same function, so it is called without training a model.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from catena.config import parse
from catena.data.inspection import FileReport, inspect
from catena.data.reading import ReadCounter
from catena.errors import CatenaError
from catena.tasks.spec import TASKS, detect_spec
from tests.data.test_messy_files import OPTIONS

DROPPED_IN_TRAINING = {"long2.tsv": 1, "u_heads.conllu": 1}
"""Records that are read, and dropped only for training: a long text, and a tree with two roots."""


class Agreement(NamedTuple):
    """What is read from one file: by the inspection, for training and evaluation, and for prediction."""

    report: FileReport
    gold: ReadCounter | None
    n_gold: int
    inputs: ReadCounter | None
    n_inputs: int
    detected: str | None


def config_values(folder: Path, name: str) -> dict[str, Any]:
    """The section ``data`` of a config with the options of a file."""
    options: dict[str, Any] = OPTIONS.get(name, {})
    if "target" in options:
        return {"source": [str(folder / name)], "target": [str(folder / options["target"])]}
    data: dict[str, Any] = {"train": [str(folder / name)]}
    data |= {key: options[key] for key in ("encoding", "multilabel", "label_separator") if key in options}
    if "label_separator" in options:
        data["multilabel"] = True
    if "columns" in options:
        data["label_column"] = options["columns"]["label"]
    return data | ({"unit": "paragraph"} if options.get("paragraphs") else {})


def read(folder: Path, name: str) -> Agreement:
    options = dict(OPTIONS.get(name, {}))
    if "target" in options:
        options["target"] = folder / options["target"]
    report = inspect([folder / name], **options).files[0]
    if report.task is None:
        return Agreement(report, None, 0, None, 0, None)
    spec, data, path = TASKS[report.task], config_values(folder, name), folder / name
    config: Any = parse(spec.config_class(), {**spec.choose_kind({"data": data}, [path]), "data": data})
    family, gold, inputs = spec.family(config), ReadCounter(), ReadCounter()
    detected = detect_spec(path, options.get("encoding"), labeled="columns" in options).name
    try:
        examples = list(family.read(config, path, gold))
    except CatenaError:
        return Agreement(report, None, 0, None, 0, detected)
    n_gold = len(examples) if spec.name != "converse" else len({example.location for example in examples})
    n_inputs = len(list(family.read(config, path, inputs, gold=False)))
    return Agreement(report, gold, n_gold, inputs, n_inputs, detected)


@pytest.fixture(scope="module")
def agreements(real_data: Path) -> dict[str, Agreement]:
    folder = real_data / "messy_files"
    if not (folder / "expected.tsv").exists():
        pytest.skip("CATENA_DATA has no folder messy_files")
    with (folder / "expected.tsv").open(encoding="utf-8", newline="") as file:
        names = [row["file"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return {name: read(folder, name) for name in names}


def test_inspection_fails_if_and_only_if_training_cannot_read(agreements: dict[str, Agreement]) -> None:
    assert len(agreements) == 145
    refused = {name for name, found in agreements.items() if found.gold is None}
    assert len(refused) < 20
    assert {name for name in refused if agreements[name].report.is_usable} == set()
    unusable = {name for name, found in agreements.items() if not found.report.is_usable} - refused
    assert unusable == {"one1.tsv", "one2.csv", "one3.txt", "long1.txt", "c_nobl.conll"}, "too few to learn from"


def test_task_is_detected_the_same(agreements: dict[str, Agreement]) -> None:
    found = {name: (one.report.task, one.detected) for name, one in agreements.items() if one.gold is not None}
    assert len(found) > 120
    differ = {name for name, (inspected, trained) in found.items() if inspected != trained}
    assert differ == {"p_moses.en", "p_moses.fr"}, "a second file makes them pairs"


def test_inspection_and_training_count_the_same(agreements: dict[str, Agreement]) -> None:
    wrong = {}
    read = {name: found for name, found in agreements.items() if found.gold is not None}
    assert len(read) > 120
    for name, found in read.items():
        assert found.gold is not None
        report, later = found.report, DROPPED_IN_TRAINING.get(name, 0)
        if found.n_gold - later != report.n_examples or (
            report.task != "converse" and found.gold.read != report.n_read
        ):
            wrong[name] = (found.gold.read, found.n_gold, report.n_read, report.n_examples)
    assert not wrong


def test_prediction_has_an_input_for_every_record(agreements: dict[str, Agreement]) -> None:
    wrong = {}
    read = {name: found for name, found in agreements.items() if found.inputs is not None}
    assert len(read) > 120
    for name, found in read.items():
        assert found.inputs is not None
        if found.n_inputs != found.inputs.used or found.n_inputs < found.n_gold:
            wrong[name] = (found.n_inputs, found.inputs.used, found.n_gold)
    assert not wrong
