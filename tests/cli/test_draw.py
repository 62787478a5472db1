"""Errors of ``catena draw``. The pictures are tested with each task."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena import config as configs
from catena.cli.draw import _of_texts
from catena.tasks.point.application import PointApplication
from catena.tasks.point.config import PointConfig
from catena.training.report import SilentReporter
from tests.cli.conftest import Catena, matches


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["RUN", "a", "-o", "x.pdf"], "-o must end in .svg or .png, got x.pdf. Rename the file."),
        (["RUN", "a", "--file", "FILE"], "Texts and --file cannot be combined. Remove one of them."),
        (["RUN", "a", "--n-best", "0"], "--n-best must be 1 or more, got 0. Pass 1 or more."),
        (
            ["RUN", "a", "--n-best", "2", "--samples", "2"],
            "--n-best and --samples cannot be combined. Remove one of them.",
        ),
        (
            ["RUN", "a", "--beam-size", "3", "--samples", "2"],
            "--beam-size and --samples cannot be combined. Remove one of them.",
        ),
        (
            ["RUN", "a", "--length-penalty", "0", "--samples", "2"],
            "--length-penalty and --samples cannot be combined. Remove one of them.",
        ),
    ],
)
def test_invalid_options_print_error(
    catena: Catena, files: Path, trained: Path, words: list[str], sentence: str
) -> None:
    places = {"RUN": trained, "FILE": files / "texts.txt"}
    said = catena("draw", *[places.get(word, word) for word in words])
    assert said.code == 2
    assert matches(said.sentence, sentence)


def test_errors_about_standard_input_are_reworded_for_texts() -> None:
    for said, meant in (
        ("standard input:2 has 3 fields", "text 2 has 3 fields"),
        ("line 2 of standard input has 3 fields", "text 2 has 3 fields"),
        ("the first line of standard input has", "the first text has"),
    ):
        assert _of_texts(said) == meant


def test_error_names_the_invalid_text(catena: Catena, tmp_path: Path) -> None:
    made = {"d": 8, "encoder": {"d": 8}, "decoder": {"d": 8}}
    data = {"problem": "sort", "size": 3, "n_train": 8, "n_dev": 4, "n_test": 4}
    training = {"max_steps": 1, "optimizer": "adam"}
    config = configs.parse(PointConfig, {"data": data, "model": made, "training": training})
    PointApplication().train(config, tmp_path / "run", SilentReporter())
    said = catena("draw", tmp_path / "run", "1 2 3", "1 x 3")
    assert said.code == 1
    assert said.sentence.startswith("text 2 ")


def test_draw_file_name_as_text_prints_error(catena: Catena, files: Path, trained: Path) -> None:
    path = files / "texts.txt"
    said = catena("draw", trained, path)
    assert said.code == 2
    assert matches(said.sentence, f"{path} is a file, not a text. Pass it as --file {path}.")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "a model of the task classify cannot draw its predictions. Use 'catena predict' instead."),
        (
            ["--alignment"],
            "--alignment is not an option of a model of the task classify. Remove it. Supported options: none.",
        ),
    ],
)
def test_draw_with_task_without_pictures_prints_error(
    catena: Catena, files: Path, trained: Path, words: list[str], sentence: str
) -> None:
    said = catena("draw", trained, "a text", *words)
    assert said.code == 1
    assert matches(said.sentence, sentence)
