"""``catena draw``: refused before the work where it cannot end well. What is drawn is tested with each task."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Catena, matches


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["RUN", "a", "-o", "x.pdf"], "a picture is saved as .svg or .png, not as x.pdf"),
        (["RUN", "a", "--file", "FILE"], "give texts or --file, not both"),
        (["RUN", "a", "--nbest", "0"], "--nbest must be 1 or more, and is 0"),
        (
            ["RUN", "a", "--nbest", "2", "--samples", "2"],
            "--nbest asks for the best answers and --samples for drawn ones: leave one of them out",
        ),
    ],
)
def test_wrong_usage(catena: Catena, files: Path, trained: Path, words: list[str], sentence: str) -> None:
    places = {"RUN": trained, "FILE": files / "texts.txt"}
    said = catena("draw", *[places.get(word, word) for word in words])
    assert said.code == 2
    assert matches(said.sentence, sentence)


def test_the_name_of_a_file_is_not_drawn(catena: Catena, files: Path, trained: Path) -> None:
    path = files / "texts.txt"
    said = catena("draw", trained, path)
    assert said.code == 2
    assert matches(said.sentence, f"{path} is a file, and would be drawn as a text: give it as --file {path}")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "a model of the task classify draws no picture of its predictions: ask it by 'catena predict'"),
        (["--alignment"], "this model cannot be asked for --alignment; it answers none of these questions"),
    ],
)
def test_a_task_without_pictures_says_so(
    catena: Catena, files: Path, trained: Path, words: list[str], sentence: str
) -> None:
    said = catena("draw", trained, "a text", *words)
    assert said.code == 1
    assert matches(said.sentence, sentence)
