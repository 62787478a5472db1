"""``catena init``: a commented config that can be trained."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from catena.config import parse, read_toml
from catena.tasks.classify.config import ClassifyConfig
from tests.cli.conftest import Catena, matches


def test_init_prints_config_with_comment_for_each_key(catena: Catena) -> None:
    said = catena("init", "classify")
    assert said.code == 0
    assert said.out.startswith("# Config of the task classify: texts, pictures or sounds into classes.\n")
    Path("x.toml").write_text(said.out, encoding="utf-8")
    assert parse(ClassifyConfig, read_toml(Path("x.toml"))[0]) == ClassifyConfig()
    lines = said.out.splitlines()
    for before, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert before.startswith("#"), f"{line} has no comment"


@pytest.mark.parametrize("words", [["classify", "--model", "transformer"], ["--model", "transformer", "classify"]])
def test_options_change_values(catena: Catena, words: list[str]) -> None:
    assert catena("init", *words, "-o", "x.toml").out == "wrote x.toml\nnext: catena train -c x.toml FILES…\n"
    config = parse(ClassifyConfig, read_toml(Path("x.toml"))[0])
    assert (config.model.kind, config.training.optimizer) == ("transformer", "adamw")


def test_file_is_replaced_only_with_overwrite(catena: Catena) -> None:
    Path("x.toml").write_text("mine", encoding="utf-8")
    said = catena("init", "classify", "-o", "x.toml")
    assert (said.code, said.sentence) == (1, "x.toml exists already. Pass another file, or add --overwrite.")
    assert Path("x.toml").read_text(encoding="utf-8") == "mine"
    assert catena("init", "classify", "-o", "x.toml", "--overwrite").code == 0
    assert Path("x.toml").read_text(encoding="utf-8").startswith("# Config")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["clasify"], 2, "Unknown task 'clasify': did you mean 'classify'?"),
        (["classify", "more"], 2, "Unexpected argument 'more'. …"),
        (["classify", "--outptu", "x"], 2, "Unknown option --outptu. Did you mean --output?"),
        (["classify", "-o", "."], 2, "-o must be a file, got the folder .. Use config.toml, for example."),
        (["classify", "-o", "no/x.toml"], 2, "Cannot write no/x.toml: there is no folder no. Create it first."),
    ],
)
def test_invalid_init_prints_error(catena: Catena, words: list[str], code: int, sentence: str) -> None:
    said = catena("init", *words)
    assert said.code == code
    assert matches(said.sentence, sentence)


def test_invalid_values_are_reported_as_in_training(catena: Catena) -> None:
    said = catena("init", "classify", "--model", "cnnn")
    assert said.code == 1
    assert "model.kind is 'cnnn': did you mean 'cnn'?" in said.err
