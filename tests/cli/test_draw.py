"""Errors of ``catena draw``. The pictures are tested with each task."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena import config as configs
from catena.tasks.point.config import PointConfig
from catena.tasks.runs import train_run
from catena.training.report import SilentReporter
from tests.cli.conftest import Catena, matches


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["RUN", "a", "-o", "x.pdf"], "-o must end in .svg or .png, got x.pdf. Rename the file."),
        (["RUN", "a", "--file", "FILE"], "Texts and --file cannot be combined. Remove one of them."),
        (["RUN", "a", "--n-best", "0"], "--n-best must be 1 or more, got 0. See --help."),
        (["RUN", "a", "--alignment"], "Unknown option --alignment. See --help."),
    ],
)
def test_invalid_options_print_error(
    catena: Catena, files: Path, trained: Path, words: list[str], sentence: str
) -> None:
    places = {"RUN": trained, "FILE": files / "texts.txt"}
    said = catena("draw", *[places.get(word, word) for word in words])
    assert said.code == 2
    assert matches(said.sentence, sentence)


def test_error_names_the_invalid_text(catena: Catena, tmp_path: Path) -> None:
    made = {"d": 8, "encoder": {"d": 8}, "decoder": {"d": 8}}
    data = {"problem": "sort", "size": 3, "n_train": 8, "n_dev": 4, "n_test": 4}
    training = {"max_steps": 1, "optimizer": "adam"}
    config = configs.parse(PointConfig, {"data": data, "model": made, "training": training})
    train_run(config, tmp_path / "run", SilentReporter())
    said = catena("draw", tmp_path / "run", "1 2 3", "1 x 3")
    assert said.code == 1
    assert "the line is '1 x 3'" in said.sentence


def test_draw_file_name_as_text_prints_error(catena: Catena, files: Path, trained: Path) -> None:
    path = files / "texts.txt"
    said = catena("draw", trained, path)
    assert said.code == 2
    assert matches(said.sentence, f"{path} is a file, not a text. Pass it as --file {path}.")


def test_draw_with_task_without_pictures_prints_error(catena: Catena, trained: Path) -> None:
    said = catena("draw", trained, "a text")
    assert said.code == 1
    assert said.sentence == "A model of the task classify cannot draw its predictions. Use 'catena predict' instead."
