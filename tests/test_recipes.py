"""Recipes are valid configs that begin with the command, the protocol, the score and the time."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from catena import config as configs
from catena.cli.main import main
from catena.cli.parser import Section, parse_command
from catena.cli.play import PlayCommand
from catena.cli.train import TrainCommand
from catena.errors import UnknownNameError
from catena.recipes.catalog import find_config, recipe_names, recipe_path
from catena.tasks.spec import read_spec
from tests.cli import families

OUTPUTS = ("softmax", "nce", "huffman", "classes", "partitioned")
"""The recipes ``wikitext2-output-…``, one for each output layer."""
TRAINED = {
    **{f"wikitext2-output-{name}": families.text for name in OUTPUTS},
    "shakespeare-nplm": families.text,
    "shakespeare-nplm-direct": families.text,
    "arabic-english-gnmt": families.words,
    "squad-small-questions-copy": families.pairs,
    "shakespeare-sonnets": families.text,
}
"""Recipes of networks that are small enough to train in a test, and small data for each."""


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_is_config_with_header(name: str) -> None:
    path = recipe_path(name)
    configs.load(read_spec(path).config_class(), path)
    heading = path.read_text(encoding="utf-8").split("\n\n")[0]
    assert all(line.startswith("#") for line in heading.splitlines())
    for word in ("protocol", "score", "time", "seen"):
        assert re.search(rf"^# {word} +\S", heading, re.MULTILINE), f"{name} does not say its {word}"


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_command_is_valid(name: str) -> None:
    heading = recipe_path(name).read_text(encoding="utf-8").split("\n\n")[0]
    lines = re.search(r"^#   (catena (?:.*\\\n)*.*)$", heading, re.MULTILINE)
    assert lines, f"{name} has no command"
    words = shlex.split(re.sub(r"\\\n# *", "", lines[1]))
    spec = read_spec(recipe_path(name))
    start = ["catena", "train", spec.name] if spec.has_examples else ["catena", "play"]
    assert words[: len(start)] == start
    schema = spec.config_class()
    command = TrainCommand if spec.has_examples else PlayCommand
    options, (values,) = parse_command(command, words[2:], [Section(schema)])
    assert options.config == Path(name)
    assert options.model_fields_set <= {"files", "environment", "config", "output", "seeds", "init_from"}
    paths = schema.model_fields["data"].annotation.PATHS if spec.has_examples else ()  # type: ignore[union-attr]
    assert values.keys() <= {"data"}
    assert values.get("data", {}).keys() <= set(paths)


def test_find_config_accepts_recipe_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = recipe_names()[0]
    assert find_config(name) == recipe_path(name)
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("", encoding="utf-8")
    assert find_config(name) == Path(name), "a file of that name goes before"
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        recipe_path(name + "x")


@pytest.mark.parametrize("name", TRAINED)
def test_recipe_trains_20_steps(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TRAINED[name](tmp_path)
    train = tmp_path / "train"
    train.write_text(train.read_text(encoding="utf-8") * 40, encoding="utf-8")
    limits = ("--max-steps", "20", "--max-epochs", "20", "--eval-every", "20", "--warmup-steps", "5")
    task = read_spec(recipe_path(name)).name
    splits_test = "test_fraction" in tomllib.loads(recipe_path(name).read_text(encoding="utf-8")).get("data", {})
    test = () if splits_test else ("--test", str(tmp_path / "test"))
    assert main(["train", task, str(train), *test, "-c", name, "-o", str(tmp_path / "run"), *limits]) == 0
    printed = capsys.readouterr()
    assert "reached after step 20 " in printed.out + printed.err
    assert "test: " in printed.out + printed.err


def test_output_recipes_differ_only_in_output_layer() -> None:
    configs_of = [tomllib.loads(recipe_path(f"wikitext2-output-{name}").read_text("utf-8")) for name in OUTPUTS]
    outputs = [config["model"].pop("output") for config in configs_of]
    assert all(config == configs_of[0] for config in configs_of)
    assert len({str(output) for output in outputs}) == len(OUTPUTS)
