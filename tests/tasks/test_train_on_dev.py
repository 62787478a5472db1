"""Every task can train on the dev set that it split off, as a search does with its winner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import catena

TREE = "(S (NP (DT the) (NN dog{i})) (VP (VBZ sleeps)))\n"
SMALL = {"max_steps": 2}
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("tag", "x.conll", "dog{i} NOUN\nsleeps VERB\n\n", {"model": "features", "max_epochs": 2}),
    ("tag", "x.conll", "dog{i} NOUN\nsleeps VERB\n\n", {"model": "neural", **SMALL}),
    ("parse", "x.mrg", TREE, {"model": "pcfg"}),
    ("transduce", "x.tsv", "dog{i}\tgod{i}\n", {"model": "joint"}),
    ("regress", "x.tsv", "{i}.5\tdog{i} sleeps\n", {"model": "ridge"}),
    ("translate", "x.tsv", "dog {i}\tHund {i}\n", {"model": "recurrent", "tokenizer": "words", **SMALL}),
    ("lm", "x.txt", "dog {i} sleeps\n", {"model": "lstm", **SMALL}),
    ("converse", "x.tsv", "how is dog {i}\tdog {i} sleeps\n", {"model": "bm25"}),
]


@pytest.mark.parametrize(("task", "file", "example", "options"), CASES, ids=[f"{c[0]}-{c[3]['model']}" for c in CASES])
def test_train_on_dev_trains(task: str, file: str, example: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text("".join(example.replace("{i}", str(i)) for i in range(20)), encoding="utf-8")
    catena.train(path, task, {**options, "dev_fraction": 0.25, "train_on_dev": True}, output=tmp_path / "run")
    assert (tmp_path / "run" / "best").exists()
