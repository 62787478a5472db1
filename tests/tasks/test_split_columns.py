"""A column of splits is used by every task that reads tables: to learn from train only, and to score test only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena.data.reading import ReadCounter
from catena.tasks.sources import Sources, read_scored
from tests.cli.conftest import (
    Catena,
    catena,  # noqa: F401
)

SPLITS = ["train"] * 12 + ["valid"] * 3 + ["test"] * 5
CASES: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("classify", "text,label", "the dog {i} sleeps,{ab}", ("--model", "loglinear", "--max-steps", "1")),
    ("regress", "text,value", "the dog {i} sleeps,{i}.5", ("--model", "ridge")),
    ("transduce", "source,target", "dog{i},god{i}", ("--model", "joint")),
    ("converse", "question,answer", "how is the dog {i},it sleeps well {i}", ("--model", "bm25")),
    ("lm", "text", "the dog {i} sleeps", ("--model", "ngram", "--input-format", "csv")),
]


def written(folder: Path, header: str, row: str) -> Path:
    path = folder / "x.csv"
    rows = [row.replace("{i}", str(i)).replace("{ab}", "ab"[i % 2]) + f",{split}" for i, split in enumerate(SPLITS)]
    path.write_text("\n".join([f"{header},split", *rows]) + "\n")
    return path


@pytest.mark.parametrize(("task", "header", "row", "options"), CASES, ids=[case[0] for case in CASES])
def test_examples_are_of_the_split_of_their_row(
    task: str,
    header: str,
    row: str,
    options: tuple[str, ...],
    catena: Catena,  # noqa: F811
    tmp_path: Path,
) -> None:
    path = written(tmp_path, header, row)
    trained = catena("train", task, str(path), *options, "-o", str(tmp_path / "run"))
    assert trained.code == 0, trained.err
    assert "assigns 12 to train, 3 to dev and 5 to test" in trained.out
    assert task == "lm" or "used 20; dropped 0" in trained.out
    scored = catena("evaluate", str(tmp_path / "run"), str(path), "--format", "json")
    counts = json.loads(scored.out)["counts"]
    assert "12 of the split 'train'" in counts
    assert "3 of the split 'dev'" in counts


def toy(path: Path, **data: Any) -> tuple[Any, Any]:
    """The task and the config of a classifier of a file."""
    from catena.tasks.spec import TASKS

    config = TASKS["classify"].config_class().model_validate({"data": {"train": [str(path)], **data}})
    return TASKS["classify"].family(config), config


def test_own_files_of_dev_and_test_come_first(tmp_path: Path) -> None:
    path = written(tmp_path, *CASES[0][1:3])
    other = tmp_path / "dev.csv"
    other.write_text("text,label\nanother dog,a\n")
    family, config = toy(path, dev=str(other))
    sources: Sources[Any] = Sources(family, config)
    parts = sources.split()
    assert [len(part) for part in (parts.train, parts.dev, parts.test)] == [12, 1, 5]
    assert sources.counter.counts(18).dropped == {"of the split 'dev'": 3}


def test_without_a_test_set_the_dev_set_is_scored(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label,split\n" + "".join(f"dog {i},{'ab'[i % 2]},{s}\n" for i, s in enumerate(SPLITS[:15])))
    family, config = toy(path)
    assert [example.location.line for example in read_scored(family, config, path, ReadCounter())] == [14, 15, 16]
