"""``catena init``: a commented config that trains."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from catena.config import parse, read_toml
from catena.tasks.classify.config import ClassifyConfig
from tests.cli.conftest import Catena, matches


def test_it_prints_a_whole_config_with_a_comment_for_each_key(catena: Catena) -> None:
    said = catena("init", "classify")
    assert said.code == 0
    assert said.out.startswith("# A config of the task classify: texts into classes.\n")
    Path("x.toml").write_text(said.out, encoding="utf-8")
    assert parse(ClassifyConfig, read_toml(Path("x.toml"))[0]) == ClassifyConfig()
    lines = said.out.splitlines()
    for before, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert before.startswith("#"), f"{line} has no comment"


@pytest.mark.parametrize("words", [["classify", "--model", "transformer"], ["--model", "transformer", "classify"]])
def test_flags_change_its_values(catena: Catena, words: list[str]) -> None:
    assert catena("init", *words, "-o", "x.toml").out == "wrote x.toml\nnext: catena train -c x.toml FILES…\n"
    config = parse(ClassifyConfig, read_toml(Path("x.toml"))[0])
    assert (config.model.kind, config.training.optimizer) == ("transformer", "adamw")


def test_a_file_is_replaced_only_when_asked(catena: Catena) -> None:
    Path("x.toml").write_text("mine", encoding="utf-8")
    said = catena("init", "classify", "-o", "x.toml")
    assert (said.code, said.sentence) == (1, "x.toml exists: name another file, or give --overwrite")
    assert Path("x.toml").read_text(encoding="utf-8") == "mine"
    assert catena("init", "classify", "-o", "x.toml", "--overwrite").code == 0
    assert Path("x.toml").read_text(encoding="utf-8").startswith("# A config")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["clasify"], 2, "'clasify' is no task: did you mean 'classify'?"),
        (["classify", "more"], 2, "'more' is one word too many: …"),
        (["classify", "--outptu", "x"], 2, "there is no flag --outptu: did you mean --output?"),
        (["classify", "-o", "."], 2, ". is a folder: name a file in it, such as config.toml"),
        (["classify", "-o", "no/x.toml"], 2, "no/x.toml cannot be written: there is no folder no"),
    ],
)
def test_what_cannot_be_written(catena: Catena, words: list[str], code: int, sentence: str) -> None:
    said = catena("init", *words)
    assert said.code == code
    assert matches(said.sentence, sentence)


def test_wrong_values_are_told_as_training_tells_them(catena: Catena) -> None:
    said = catena("init", "classify", "--model", "cnnn")
    assert said.code == 1
    assert "model.kind is 'cnnn': did you mean 'cnn'?" in said.err
