"""Tokens that do not occur in training."""

from __future__ import annotations

from pathlib import Path

from catena import config as configs
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.point.config import PointConfig
from catena.tasks.point.data import UNKNOWN
from catena.tasks.point.task import PointTask
from catena.tasks.sources import Sources


def test_tokens_of_held_out_sets_are_unknown_to_a_pointer(tmp_path: Path) -> None:
    path = tmp_path / "sets.tsv"
    path.write_text("".join(f"x{i} y\t0\n" for i in range(20)), encoding="utf-8")
    made = configs.parse(PointConfig, {"data": {"train": [str(path)], "dev_fraction": 0.2}})
    training = PointTask.prepare(made, Sources(PointTask, made), Origin(Randomness(0)))
    assert len(training.task.encoding.tokens) == 16 + 1
    assert {int(values[0]) for values in training.data.dev.values} == {UNKNOWN}
