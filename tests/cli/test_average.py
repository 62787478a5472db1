"""``catena average``: one model from several."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from catena.checkpoint import open_checkpoint
from tests.cli.conftest import TINY, Catena, matches


def test_the_mean_of_two_checkpoints_is_a_model_of_its_own(catena: Catena, files: Path) -> None:
    words = ["train", files / "train.tsv", "--dev", files / "dev.tsv", *TINY, "--keep-last", "2", "-q", "-o", "run"]
    assert catena(*words).code == 0
    parts = sorted(Path("run/checkpoints").iterdir())
    assert len(parts) == 2
    assert catena("average", *parts, "-o", "mean").out == "wrote mean, the mean of 2 models\n"
    one, two, mean = (open_checkpoint(path).weights() for path in (*parts, Path("mean")))
    assert not torch.equal(next(iter(one.values())), next(iter(two.values())))
    for name, tensor in mean.items():
        assert torch.allclose(tensor.double(), (one[name].double() + two[name].double()) / 2)
    Path("mean").rename("moved")
    assert catena("predict", "moved", files / "texts.txt").code == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 2, "an average needs two or more checkpoints and a folder to write into: …"),
        (["RUN", "-o", "x"], 2, "an average needs two or more checkpoints …"),
        (["RUN", "RUN"], 2, "an average needs two or more checkpoints …"),
        (["RUN", "nowhere", "-o", "x"], 1, "there is no run or checkpoint nowhere in …"),
        (["RUN", "RUN", "-o", "."], 1, ". is there already: choose another --output"),
    ],
)
def test_what_cannot_be_averaged(catena: Catena, trained: Path, words: list[str], code: int, sentence: str) -> None:
    said = catena("average", *[trained if word == "RUN" else word for word in words])
    assert said.code == code
    assert matches(said.sentence, sentence)


def test_models_of_different_make_are_not_mixed(catena: Catena, files: Path, trained: Path) -> None:
    assert catena("train", files / "dev.tsv", *TINY, "-q", "-o", "other").code == 0
    said = catena("average", trained, "other", "-o", "x")
    assert said.code == 1
    assert "cannot be averaged: they are of different models" in said.sentence
    assert not Path("x").exists()
