"""``catena average``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from catena.checkpoint import open_checkpoint
from tests.cli.conftest import NETWORK, Catena, matches


def test_average_of_two_checkpoints_can_be_loaded(catena: Catena, files: Path) -> None:
    words = ["train", files / "train.tsv", "--dev", files / "dev.tsv", *NETWORK, "--keep-last", "2", "-q", "-o", "run"]
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
        ([], 2, "The number of checkpoints must be 2 or more and -o must be set, got 0 …"),
        (["RUN", "-o", "x"], 2, "The number of checkpoints must be 2 or more and -o must be set, got 1 …"),
        (["RUN", "RUN"], 2, "The number of checkpoints must be 2 or more and -o must be set, got 2 …"),
        (["RUN", "nowhere", "-o", "x"], 1, "Run or checkpoint not found: nowhere in …"),
        (["RUN", "RUN", "-o", "."], 1, ". exists already. Choose another --output."),
    ],
)
def test_invalid_average_prints_error(
    catena: Catena, trained: Path, words: list[str], code: int, sentence: str
) -> None:
    said = catena("average", *[trained if word == "RUN" else word for word in words])
    assert said.code == code
    assert matches(said.sentence, sentence)


def test_average_of_different_models_prints_error(catena: Catena, files: Path, trained: Path) -> None:
    assert catena("train", files / "dev.tsv", *NETWORK, "-q", "-o", "other").code == 0
    said = catena("average", trained, "other", "-o", "x")
    assert said.code == 1
    assert "they are different models" in said.sentence
    assert not Path("x").exists()
