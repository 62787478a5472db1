"""``catena tune``: every value of a list is tried, the best becomes the run, and wrong ranges are one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.config import load
from catena.tasks.classify.config import ClassifyConfig
from tests.cli.conftest import TINY, Catena, matches


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"bread\tdough oven {i}\nbike\twheel chain {i}\n" for i in range(20)), encoding="utf-8")
    return path


def test_tune_tries_each_value_and_keeps_one_as_run(catena: Catena, table: Path, tmp_path: Path) -> None:
    assert catena("train", table, *TINY, "-o", tmp_path / "first").code == 0
    words = ("tune", tmp_path / "first", "--over", "min_count=1,30", "--max-time", "60s", "-o", tmp_path / "tuned")
    said = catena(*words)
    assert said.code == 0
    assert "2 of 2 tried" in said.err + said.out
    config = load(ClassifyConfig, tmp_path / "tuned" / "config.toml")
    assert config.vocabulary.min_count == 1, "no word occurs 30 times"
    meta = json.loads((tmp_path / "tuned" / "meta.json").read_text(encoding="utf-8"))
    assert meta["command"][:2] == ["catena", "tune"]
    assert catena("predict", tmp_path / "tuned", stdin=b"wheel chain\n").out.startswith("bike")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "--over is missing. Usage: catena tune RUN|CONFIG --over KEY=VALUES… [--max-time TIME]."),
        (("--over", "nonsense=1,2"), "Unknown config key nonsense in --over. …"),
        (("--over", "seed=5..1"), "--over seed must be a range LOW..HIGH of positive numbers, got '5..1'. …"),
        (("--over", "seed"), "--over must be KEY=VALUES, got 'seed'. …"),
    ],
)
def test_wrong_ranges_are_one_sentence(
    catena: Catena, table: Path, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    assert catena("train", table, *TINY, "-o", tmp_path / "first").code == 0
    said = catena("tune", tmp_path / "first", *words, "-o", tmp_path / "tuned")
    assert said.code
    assert matches(said.sentence, sentence)
    assert not (tmp_path / "tuned").exists()
