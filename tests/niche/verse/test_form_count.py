"""The counter of sonnets in form rejects each kind of fault."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SOUNDS = """\
the DH AH0
day D EY1
delay D IH0 L EY1
lay L EY1
away AH0 W EY1
sway S W EY1
tree T R IY1
free F R IY1
night N AY1 T
light L AY1 T
water W AO1 T ER0
wind W IH1 N D
wind(2) W AY1 N D
blind B L AY1 N D
"""
LINE = "the day the day the day the day the"


@pytest.fixture(scope="module")
def counter() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "compose_form", Path(__file__).parents[3] / "benchmarks" / "compose_form.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sounds(counter: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    path = tmp_path_factory.mktemp("sounds") / "own.dict"
    path.write_text(SOUNDS, encoding="utf-8")
    return counter.read_sounds(path)


@pytest.mark.parametrize(
    ("line", "iambic"),
    [
        (f"{LINE} day", True),
        (f"{LINE} away", False),
        ("the day the day the day the day away", True),
        ("the day the day the day the water lay", True),
        ("the day the day the day the day water", False),
        ("the day the day the day the day the boat", False),
        ("", False),
    ],
)
def test_iambic_lines(counter: ModuleType, sounds: dict[str, list[list[str]]], line: str, iambic: bool) -> None:
    assert counter.is_iambic(line, sounds) is iambic


@pytest.mark.parametrize(
    ("first", "second", "rhymes"),
    [
        ("day", "sway", True),
        ("the day", "away", True),
        ("delay", "day", True),
        ("delay", "lay", False),
        ("day", "day", False),
        ("day", "free", False),
        ("wind", "blind", True),
        ("day", "boat", False),
        ("", "day", False),
    ],
)
def test_rhymes(counter: ModuleType, sounds: dict[str, list[list[str]]], first: str, second: str, rhymes: bool) -> None:
    assert counter.rhyme(first, second, sounds) is rhymes
    assert counter.rhyme(second, first, sounds) is rhymes


def test_each_fault_of_a_sonnet_is_counted(counter: ModuleType, sounds: dict[str, list[list[str]]]) -> None:
    octave = ["sway", "free", "day", "tree", "night", "wind", "light", "blind"]
    sestet = ["day", "free", "sway", "tree", "night", "light"]
    sonnet = [f"{LINE} {word}" for word in (*octave, *sestet)]
    assert counter.judge(sonnet, sounds) == (True, True, True)
    assert counter.judge(sonnet[:13], sounds) == (False, True, False)
    assert counter.judge([*sonnet[:12], f"the {sonnet[12]}", sonnet[13]], sounds) == (True, False, True)
    assert counter.judge([*sonnet[:13], f"{LINE} day"], sounds) == (True, True, False)
    assert counter.judge([sonnet[0].replace("day", "boat", 1), *sonnet[1:]], sounds) == (False, False, True)


def test_poems_of_both_kinds_of_files(counter: ModuleType, tmp_path: Path) -> None:
    poems, plain = tmp_path / "poems.jsonl", tmp_path / "lines.txt"
    poems.write_text(json.dumps({"stanzas": [["a", "b"], ["c"]]}) + "\n", encoding="utf-8")
    plain.write_text("a\n\n" * 29, encoding="utf-8")
    assert counter.read_poems(poems) == [["a", "b", "c"]]
    assert counter.read_poems(plain) == [["a"] * 14] * 2
