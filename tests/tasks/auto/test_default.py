"""The default model depends on the number of examples, and options of the user win."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catena.tasks.auto.table import DataSize, default_candidate, default_values, read_candidates
from catena.tasks.spec import get_spec


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "train.conll"
    path.write_text("dogs NOUN\nsleep VERB\n\n" * 40, encoding="utf-8")
    return {"data": {"train": [str(path)]}}


def test_the_table_decides_and_is_named(values: dict[str, Any]) -> None:
    spec = get_spec("tag")
    expected = default_candidate(spec, values, DataSize(40, n_words=80))
    assert expected is not None
    found, line = default_values(spec, values)
    assert found["model"] == expected.config["model"]
    assert found["data"] == values["data"]
    assert line.startswith(f"model: {expected.name} (")
    assert "the default for 40 examples" in line


@pytest.mark.parametrize("more", [{"model": {"kind": "hmm"}}, {"data": {"train": ["missing.conll"]}}])
def test_named_models_and_unreadable_files_change_nothing(values: dict[str, Any], more: dict[str, Any]) -> None:
    assert default_values(get_spec("tag"), {**values, **more}) == ({**values, **more}, "")


def test_options_of_the_user_win(values: dict[str, Any]) -> None:
    found, _ = default_values(get_spec("tag"), {**values, "training": {"patience": 2}})
    assert found["training"] == {"patience": 2}


def test_options_that_the_default_lacks_keep_the_fixed_model(values: dict[str, Any]) -> None:
    named = {**values, "training": {"weight_decay": 0.1}}  # features have their own penalty
    assert default_values(get_spec("tag"), named) == (named, "")


@pytest.mark.parametrize("task", ["classify", "tag", "parse", "translate", "lm"])
def test_larger_data_has_no_simpler_default(task: str) -> None:
    order = [candidate.name for candidate in read_candidates(task)]
    found = [default_candidate(get_spec(task), {}, DataSize(n, n_words=10 * n)) for n in (50, 500, 5000, 50_000, 10**6)]
    names = [one.name for one in found if one is not None]
    assert len(names) == len(found)
    assert [order.index(name) for name in names] == sorted(order.index(name) for name in names)


@pytest.mark.parametrize(
    ("task", "file", "example", "kind"),
    [
        ("classify", "train.tsv", "animal\tdogs sleep\n", "tfidf"),
        ("tag", "train.conll", "dogs NOUN\n\n", "features"),
    ],
)
def test_default_that_needs_no_torch_is_chosen_without_torch(
    task: str, file: str, example: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(example * 40, encoding="utf-8")
    code = f"""
import sys
from catena.tasks.auto.table import default_values
from catena.tasks.spec import get_spec
found, line = default_values(get_spec({task!r}), {{"data": {{"train": [{str(tmp_path / file)!r}]}}}})
print(found["model"]["kind"], "torch" in sys.modules, line)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, has_torch, line = done.stdout.split(maxsplit=2)
    assert (found, has_torch) == (kind, "False")
    assert "the default for 40 examples" in line
