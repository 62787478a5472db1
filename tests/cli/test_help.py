"""Help texts of every command and task: an example first, at most 40 lines, and every option in the long form."""

from __future__ import annotations

import pytest

from catena.cli.main import COMMANDS
from catena.config import keys
from catena.tasks.spec import TASKS
from tests.cli.conftest import Catena

WITHOUT_EXAMPLE = ("doctor",)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example_and_at_most_40_lines(catena: Catena, command: str) -> None:
    said = catena(command, "--help")
    assert said.code == 0
    assert f"usage: catena {command}" in said.out
    assert len(said.out.splitlines()) <= 40
    if command not in WITHOUT_EXAMPLE:
        assert f"example: catena {command}" in said.out


@pytest.mark.parametrize("task", TASKS)
def test_help_of_a_task_is_grouped_and_points_to_all_options(catena: Catena, task: str) -> None:
    said = catena("train", task, "--help")
    assert said.code == 0
    assert len(said.out.splitlines()) <= 40
    for group in ("Data ", "Model ", "Training ", "Run ")[task == "play" :]:  # an agent has no data
        assert f"\n{group}" in said.out
    assert "--help-all" in said.out


@pytest.mark.parametrize("task", TASKS)
def test_long_help_of_a_task_describes_every_option_of_its_default_model(catena: Catena, task: str) -> None:
    said = catena("train", task, "--help-all")
    assert said.code == 0
    for key in keys(TASKS[task].config_class()):
        if key.path[0] in ("seed", "machine", "training"):
            assert f"--{key.path[-1].replace('_', '-')}" in said.out
        assert key.field.description, key.dotted
