"""``catena demo``, which runs three commands."""

from __future__ import annotations

import re
from pathlib import Path

from catena.cli.demo import QUESTIONS
from tests.cli.conftest import Catena, matches


def test_demo_shows_three_commands_and_their_output(catena: Catena) -> None:
    said = catena("demo", "--model", "loglinear", "--threads", "1", "-o", "demo")
    assert said.code == 0
    commands = re.findall(r"^\$ catena (\w+) ", said.out, re.M)
    assert commands == ["train", "evaluate", "predict"]
    assert "737 texts" in said.out
    accuracy = re.search(r"^accuracy (0\.\d+) \(95 % interval", said.out, re.M)
    assert accuracy
    assert 0.7 < float(accuracy[1]) < 0.95, "better than random, on a corpus that is not too easy"
    answers = said.out.splitlines()[-len(QUESTIONS) - 2 : -2]
    assert [line.split("\t")[2] for line in answers] == list(QUESTIONS)
    assert Path("demo/best").exists()


def test_invalid_options_print_error(catena: Catena) -> None:
    said = catena("demo", "--model", "cnnn")
    assert said.code == 1
    assert "did you mean 'cnn'?" in said.err
    assert matches(catena("demo", "me").sentence, "Unexpected argument 'me'. Usage: catena demo [--options].")


def test_demo_leaves_its_run_and_a_command_that_uses_it(catena: Catena) -> None:
    for name in ("demo", "demo-2"):
        said = catena("demo", "--model", "loglinear", "--threads", "1")
        command = said.out.strip().splitlines()[-1].split(" | catena ")[1].split()
        assert command == ["predict", f"runs/{name}"]
        Path("query.txt").write_text("play some jazz\n", encoding="utf-8")
        assert catena(*command, "query.txt").code == 0
