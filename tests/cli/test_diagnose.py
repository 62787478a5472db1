"""``catena diagnose``: numbers, words and a picture of where gradients go."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.conftest import Catena, matches


def test_a_run_is_looked_at_with_its_own_text(catena: Catena, language_model: Path) -> None:
    said = catena("diagnose", language_model, "--steps", "6", "--sequences", "4", "-o", "flow.svg")
    assert said.code == 0, said.err
    assert said.out.startswith("4 pieces of 6 tokens")
    for word in ("inputs: the gradient", "layer 1: the gradient", "spectral radius", "forget:", "best step", "Hessian"):
        assert word in said.out
    assert ET.parse("flow.svg").getroot().tag.endswith("svg")


def test_the_numbers_can_be_had(catena: Catena, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("the cat sat\na dog ran\n" * 3, encoding="utf-8")
    words = ("diagnose", language_model, "x.txt", "--steps", "5", "--format", "json", "--iterations", "3")
    found = json.loads(catena(*words).out)
    assert len(found["flow"]["inputs"]) == 5
    (layer,) = found["flow"]["layers"]
    assert len(layer["gradients"]) == 5
    assert all(norm >= 0 for norm in layer["gradients"])
    assert 0 <= layer["gates"]["forget"]["open"] <= 1
    assert found["curvature"]["largest"]["value"] >= found["curvature"]["smallest"]["value"]
    assert json.loads(catena(*words).out) == found


def test_a_recurrence_can_be_simulated(catena: Catena) -> None:
    said = catena("diagnose", "--simulate", "linear", "--steps", "10", "-o", "sim.svg")
    assert said.code == 0, said.err
    rows = {line.split()[0]: float(line.split()[2]) for line in said.out.splitlines()[2:]}
    assert {name: pytest.approx(float(name) ** 10, rel=1e-3) for name in rows} == rows
    assert Path("sim.svg").read_text().count("<path") + Path("sim.svg").read_text().count("<polyline") >= 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name either a run or --simulate: …"),
        (("RUN", "--simulate", "tanh"), "name either a run or --simulate: …"),
        (("RUN", "--steps", "1"), "--steps must be 2 or more, and is 1"),
        (("RUN", "-o", "x.gif"), "--save must end in .svg or .png, and is x.gif"),
        (("RUN", "-o", "no/x.svg"), "no/x.svg cannot be written: there is no folder no"),
    ],
)
def test_wrong_words(catena: Catena, language_model: Path, words: tuple[str, ...], sentence: str) -> None:
    said = catena("diagnose", *(language_model if word == "RUN" else word for word in words))
    assert said.code == 2
    assert matches(said.sentence, sentence)


def test_other_models_are_refused(catena: Catena, trained: Path) -> None:
    said = catena("diagnose", trained)
    assert said.code == 2
    assert "is no language model" in said.sentence


def test_a_text_too_short_is_refused(catena: Catena, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("\n", encoding="utf-8")
    said = catena("diagnose", language_model, "x.txt")
    assert said.code == 1
    assert said.sentence == "x.txt must have at least 2 tokens, got 1. Use a longer text."


def test_the_help_tells_of_both_uses_before_the_flags(catena: Catena) -> None:
    head = catena("diagnose", "--help").out.split("options")[0]
    assert "usage: catena diagnose [-h] [OPTIONS] RUN [FILE]\n" in head
    assert "Without a run: catena diagnose --simulate tanh" in " ".join(head.split())
