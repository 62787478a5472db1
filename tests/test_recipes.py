"""Recipes are valid configs that begin with the command, the protocol, the score and the time."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from catena import config as configs
from catena.errors import UnknownNameError
from catena.recipes.table import find_config, recipe_names, recipe_path
from catena.tasks.table import task_of_config


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_is_config_with_header(name: str) -> None:
    path = recipe_path(name)
    configs.load(task_of_config(path).config_class(), path)
    heading = path.read_text(encoding="utf-8").split("\n\n")[0]
    assert all(line.startswith("#") for line in heading.splitlines())
    for word in ("protocol", "score", "time", "seen"):
        assert re.search(rf"^# {word} +\S", heading, re.MULTILINE), f"{name} does not say its {word}"


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_command_is_valid(name: str) -> None:
    from catena.cli.train import TrainFlags, take_keys
    from catena.tasks.table import TASKS

    heading = recipe_path(name).read_text(encoding="utf-8").split("\n\n")[0]
    lines = re.search(r"^#   (catena (?:.*\\\n)*.*)$", heading, re.MULTILINE)
    assert lines, f"{name} has no command"
    words = shlex.split(re.sub(r"\\\n# *", "", lines[1]))
    task = task_of_config(recipe_path(name)).name
    assert words[:3] == ["catena", "train", task]
    assert words[words.index("-c") + 1] == name
    schema = TASKS[task].config_class()
    keys, rest = take_keys(schema, TrainFlags, words[2:], {})
    paths = schema.model_fields["data"].annotation.PATHS  # type: ignore[union-attr]
    assert {key.dotted for key, _ in keys} <= {f"data.{path}" for path in paths}
    assert not [word for word in rest if word.startswith("--") and word not in ("--seeds", "--config")]


def test_find_config_accepts_recipe_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = recipe_names()[0]
    assert find_config(name) == recipe_path(name)
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("", encoding="utf-8")
    assert find_config(name) == Path(name), "a file of that name goes before"
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        recipe_path(name + "x")
