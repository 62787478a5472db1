"""Keys, sections and kinds of config classes, which do not import torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from catena.config import Config, flag_table, get_kind, get_sections, keys
from catena.config.text import what_it_takes
from tests.config.examples import Convolution, Early, House, Optimizer, Plain, Recurrent, flagged
from tests.python_path import python_path


def test_keys_include_sections_and_merge_kinds() -> None:
    found = {key.dotted: key for key in keys(House)}
    assert list(found) == [
        "seed",
        "model.kind",
        "model.cell.kind",
        "model.cell.d_hidden",
        "model.cell.peepholes",
        "model.cell.reset",
        "model.dropout",
        "model.windows",
        "optimizer.rate",
        "optimizer.momentum",
        "optimizer.steps",
        "early.patience",
    ]
    assert found["seed"].kinds == ()
    assert found["model.kind"].kinds == found["model.kind"].choices == ("recurrent", "convolution")
    assert found["model.windows"].kinds == ("convolution",)
    assert found["model.cell.reset"].kinds == ("gru",)
    assert found["optimizer.rate"].kinds == ()


def test_key_accepts_types_of_all_kinds() -> None:
    class One(Config):
        kind: Literal["one"] = "one"
        size: int = 1
        pooling: Literal["max"] = "max"

    class Two(Config):
        kind: Literal["two"] = "two"
        size: tuple[int, ...] | None = None
        pooling: Literal["mean", "max"] = "mean"

    class Both(Config):
        section: Annotated[One | Two, Field(discriminator="kind")] = One()

    found = {key.dotted: key for key in keys(Both)}
    assert found["section.pooling"].choices == ("max", "mean")
    assert found["section.size"].is_list
    assert found["section.size"].is_optional
    assert flagged(Both, "--section two --size 3,4").section == Two(size=(3, 4))
    assert flagged(Both, "--section one --size 3").section == One(size=3)


def test_sections_and_kinds_by_name() -> None:
    assert get_sections(House) == {
        "model": (Recurrent, Convolution),
        "optimizer": (Optimizer,),
        "early": (Early,),
    }
    assert get_kind(Recurrent) == "recurrent"
    assert get_kind(Optimizer) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("count", "int"),
        ("limit", "int or none"),
        ("pooling", "one of max, mean, none"),
        ("depth", "one of 1, 2, 4"),
        ("length", "int or one of auto"),
        ("windows", "a list of int"),
        ("parts", "a list of one of dev, test"),
        ("files", "a list of Path"),
        ("sizes", "int or a list of int"),
    ],
)
def test_what_it_takes_describes_types(name: str, words: str) -> None:
    assert what_it_takes(flag_table(Plain)[name]) == words


@pytest.mark.parametrize("module", ["catena", "catena.config", "catena.registry", "catena.errors"])
def test_import_does_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": python_path(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
