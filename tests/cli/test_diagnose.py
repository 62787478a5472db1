"""``catena diagnose``: values, verdicts and a plot of gradient norms."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.conftest import Catena, matches


def test_diagnose_uses_dev_file_of_run(catena: Catena, language_model: Path) -> None:
    said = catena("diagnose", language_model, "--steps", "6", "--sequences", "4", "-o", "flow.svg")
    assert said.code == 0, said.err
    assert said.out.startswith("4 sequences of 6 tokens")
    for word in ("inputs: the gradient", "layer 1: the gradient", "spectral radius", "forget:", "best step", "Hessian"):
        assert word in said.out
    assert ET.parse("flow.svg").getroot().tag.endswith("svg")


def test_diagnose_json_has_all_values(catena: Catena, language_model: Path, tmp_path: Path) -> None:
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


def test_simulate_prints_norms(catena: Catena) -> None:
    said = catena("diagnose", "--simulate", "linear", "--steps", "10", "-o", "sim.svg")
    assert said.code == 0, said.err
    rows = {line.split()[0]: float(line.split()[2]) for line in said.out.splitlines()[2:]}
    assert {name: pytest.approx(float(name) ** 10, rel=1e-3) for name in rows} == rows
    assert Path("sim.svg").read_text().count("<path") + Path("sim.svg").read_text().count("<polyline") >= 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Pass exactly one of RUN and --simulate. …"),
        (("RUN", "--simulate", "tanh"), "Pass exactly one of RUN and --simulate. …"),
        (("RUN", "--steps", "1"), "--steps must be 2 or more, got 1. See --help."),
        (("RUN", "-o", "x.gif"), "-o must end in .svg or .png, got x.gif. Rename the file."),
        (("RUN", "-o", "no/x.svg"), "Cannot write no/x.svg: there is no folder no. Create it first."),
    ],
)
def test_invalid_options_print_error(
    catena: Catena, language_model: Path, words: tuple[str, ...], sentence: str
) -> None:
    said = catena("diagnose", *(language_model if word == "RUN" else word for word in words))
    assert said.code == 2
    assert matches(said.sentence, sentence)


def test_diagnose_with_other_models_prints_error(catena: Catena, trained: Path) -> None:
    said = catena("diagnose", trained)
    assert said.code == 2
    assert "is not a language model" in said.sentence


def test_diagnose_with_blank_text_prints_error(catena: Catena, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("\n", encoding="utf-8")
    said = catena("diagnose", language_model, "x.txt")
    assert said.code == 1
    assert said.sentence == "x.txt has only blank lines. Pass a file with text."


def test_help_shows_both_uses_before_options(catena: Catena) -> None:
    head = catena("diagnose", "--help").out.split("options")[0]
    assert "usage: catena diagnose RUN [FILE], or catena diagnose --simulate tanh\n" in head
    assert "Without a run: catena diagnose --simulate tanh" in " ".join(head.split())
